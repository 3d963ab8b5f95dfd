"""Checks the arguments of the API's functions against their annotations before reading anything."""

from __future__ import annotations

import functools
import inspect
import numbers
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from summhay_ray.engine import SpecError
from summhay_ray.run_options import options_of

P = ParamSpec("P")
R = TypeVar("R")
_NAMES = {
    str: "text",
    float: "a number",
    int: "a whole number",
    bool: "True or False",
    Path: "a path",
    Mapping: "a mapping",
    Sequence: "a list",
    Iterable: "a list",
    Callable: "a function",
    types.NoneType: "None",
}


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """The function; it now raises SpecError in one line for an argument of a wrong type, or an unknown choice.

    Options in `**options: Unpack[...]` become keywords of its signature, with their defaults.
    """
    options = options_of(function)
    defaults: Any = {name: option.default for name, (_, option) in options.items()}
    signature = inspect.signature(function)
    own = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
    keyword = inspect.Parameter.KEYWORD_ONLY
    more = [inspect.Parameter(name, keyword, default=defaults[name], annotation=kind) for name, (kind, _) in options.items()]
    signature = signature.replace(parameters=[*own, *more])

    @functools.cache
    def kinds() -> Mapping[str, Any]:
        # Leaves out the result's annotation, which may name a type that only type checkers import.
        given = {name: one.annotation for name, one in signature.parameters.items() if name not in options}
        hints = get_type_hints(types.SimpleNamespace(__annotations__=given), vars(inspect.getmodule(function)))
        return {**hints, **{name: kind for name, (kind, _) in options.items()}}

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"{function.__name__}() {error}") from None
        for name, value in given.items():
            if not _is(value, kind := kinds()[name]):
                raise SpecError(f"{name}: expected {_described(kind)}, found {value!r:.80}")
        return function(*args, **{**defaults, **kwargs})

    call.__dict__["__signature__"] = signature
    return call


def _is(value: Any, kind: Any) -> bool:
    origin, parts = get_origin(kind), get_args(kind)
    if kind is Any:
        return True
    if origin is Literal:
        return value in parts
    if origin in (Union, types.UnionType):
        return any(_is(value, part) for part in parts)
    if kind in (int, float):
        return isinstance(value, numbers.Integral if kind is int else numbers.Real) and not isinstance(value, bool)
    if origin in (Sequence, Iterable):
        listed = isinstance(value, origin) and not isinstance(value, str | bytes | Mapping)
        # Only the function itself reads an iterator.
        return listed and (not isinstance(value, Sequence) or all(_is(one, parts[0]) for one in value))
    return isinstance(value, origin or kind)


def _described(kind: Any) -> str:
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return " or ".join(map(repr, parts))
    if origin in (Union, types.UnionType):
        return " or ".join(map(_described, parts))
    of = f" of {_described(parts[0])}" if origin in (Sequence, Iterable) else ""
    return _NAMES.get(origin or kind, getattr(kind, "__name__", str(kind))) + of
