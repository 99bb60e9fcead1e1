# SPDX-License-Identifier: Apache-2.0
"""Ordinary differential equations: `odeint`, and `odeint_event` for solutions that stop when something happens."""

from purax.experimental.ode.event import EventSolution, odeint_event
from purax.experimental.ode.solve import odeint

__all__ = ["EventSolution", "odeint", "odeint_event"]
