# SPDX-License-Identifier: Apache-2.0
"""The one way to import late: for modules that are slow to load or may be absent."""

from importlib import import_module
from typing import Any

__all__ = ["LazyModule", "lazy"]


class LazyModule:
    """A module that is imported when the first attribute of it is read."""

    def __init__(self, name: str, needed_for: str = "") -> None:
        self.__dict__["_name"] = name
        self.__dict__["_needed_for"] = needed_for

    def __getattr__(self, attribute: str) -> Any:
        # Dunder look-ups by inspect, copy and doctest must not import anything.
        if attribute.startswith("__") and attribute != "__version__":
            raise AttributeError(attribute)
        try:
            module = import_module(self._name)
        except ModuleNotFoundError as error:
            if error.name is not None and self._name.startswith(error.name) and self._needed_for:
                raise ModuleNotFoundError(f"{error}: {self._needed_for}", name=error.name) from error
            raise
        value = getattr(module, attribute)
        # The next read of the attribute finds it here, without a call.
        self.__dict__[attribute] = value
        return value

    def __dir__(self) -> list[str]:
        return dir(import_module(self._name))

    def __repr__(self) -> str:
        return f"<lazy module {self._name!r}>"


def lazy(name: str, needed_for: str = "") -> Any:
    """Return a stand-in for a module that imports it on first use.

    Parameters
    ----------
    name : str
        The dotted name, such as `scipy.special`.
    needed_for : str
        What to tell a user who has not installed it, such as "install purax[train] to draw the loss curve".

    Returns
    -------
    LazyModule

    Examples
    --------
    >>> fractions = lazy("fractions")
    >>> fractions.Fraction(1, 2) * 2
    Fraction(1, 1)
    """
    return LazyModule(name, needed_for)
