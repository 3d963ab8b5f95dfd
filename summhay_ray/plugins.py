"""How one file adds a retriever, an ordering, a strategy, a judge or a model: found by name. Imports nothing of ours.

A room's package is searched for classes that carry a `name` of their own, so that a new file needs no edit elsewhere; a
name with a colon (`my_package.my_module:MyRetriever`) is imported from wherever the user keeps it.
"""

from __future__ import annotations

import difflib
import functools
import hashlib
import importlib
import inspect
import pkgutil
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from summhay_ray.problems import Problem


class UnknownName(Problem):
    """A name that nothing answers to; the message names the nearest known one."""


@functools.cache
def discover(package: ModuleType) -> dict[str, type[Any]]:
    """All classes with a `name` that the modules of `package` define, by that name."""
    found: dict[str, type[Any]] = {}
    for info in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        module = importlib.import_module(info.name)
        for _, member in inspect.getmembers(module, inspect.isclass):
            name = member.__dict__.get("name")
            if member.__module__ == module.__name__ and isinstance(name, str) and name:
                found[name] = member
    return found


def load(path: str) -> Any:
    """The object at `module:attribute`. Raises UnknownName where there is none."""
    module_name, _, attribute = path.partition(":")
    try:
        return getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError, SyntaxError, TypeError, ValueError) as error:
        raise UnknownName(f"{path!r} cannot be imported ({error}); expected module:Class on the Python path") from error


@functools.lru_cache(maxsize=64)
def code_identity(name: str) -> str:
    """sha256 (hex) of the source of `module:Class`, empty for a name of ours: a person's own code is part of a run's identity."""
    if ":" not in name:
        return ""
    try:
        source = inspect.getsource(inspect.getmodule(load(name.partition("/")[0])) or load(name))
    except (OSError, TypeError):
        return ""
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()


def unknown(kind: str, name: str, known: Iterable[str]) -> UnknownName:
    """The error for `name`, naming the nearest known name, or all of them where none is near."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else "known: " + ", ".join(names)
    return UnknownName(f"no {kind} is named {name!r}; {hint}")
