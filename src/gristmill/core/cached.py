"""Properties that are computed once an object, without a lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class cached_property(Generic[T]):
    """What `functools` has of this name since Python 3.12: two threads at once may both compute it.

    That of 3.11 has one lock for all objects of a class. A process that is forked while another thread holds it, as a
    framework's workers are, would wait for it for ever.
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        self._function, self._name = function, function.__name__
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Self | T:
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._function(instance)  # where Python looks first from now on
        return value
