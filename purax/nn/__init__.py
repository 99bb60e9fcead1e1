# SPDX-License-Identifier: Apache-2.0
"""Functions for neural networks, without state: activations, softmax, attention, initial values."""

from purax.nn import initializers as initializers
from purax.nn.activation import *
from purax.nn.attention import *
from purax.nn.scaled import *
from purax.nn.softmax import *
