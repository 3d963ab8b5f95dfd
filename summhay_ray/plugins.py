"""Finds retrievers, orderings, strategies, judges and models by name. Imports only `errors`.

It searches a package for classes that define a `name`. So adding a class needs only a new file. A name with a colon
(`my_package.my_module:MyRetriever`) is the user's own class. Only `load` imports these classes, from the Python path or the
current folder, and `own_code_allowed` can forbid that.
"""

import ast
import contextlib
import difflib
import functools
import hashlib
import importlib
import inspect
import io
import os
import pkgutil
import sys
import tokenize
import traceback
from asyncio import CancelledError
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from summhay_ray.errors import UserError

_OURS = Path(__file__).resolve().parent
STOPS = (CancelledError, GeneratorExit)
"""Exceptions that cancel a coroutine from outside. Any other exception from the user's code is an error in that code."""


_OWN_CODE = ContextVar("own code is imported", default=True)


class UnknownName(UserError):
    """Raised for an unknown name. The message suggests the nearest known name."""


class OwnCodeRefused(UnknownName):
    """Raised if the user's own code is named where importing it is forbidden: in a spec from somebody else, or in a run that is
    only read."""

    def __init__(self, path: str) -> None:
        mend = "read it, and leave --untrusted out if you trust it"
        super().__init__(
            f"{path!r} is the spec's own code, which is run neither with --untrusted nor to read a stored run; {mend}"
        )


@contextlib.contextmanager
def own_code_allowed(allowed: bool) -> Iterator[None]:
    """Return a context for reading a spec or a run. If it or an outer context is not `allowed`, `load` raises OwnCodeRefused."""
    token = _OWN_CODE.set(allowed and _OWN_CODE.get())
    try:
        yield
    finally:
        _OWN_CODE.reset(token)


@functools.cache
def discover(package: ModuleType) -> dict[str, type[Any]]:
    """Return name -> class, for every class with a `name` that a module of `package` defines."""
    classes: dict[str, type[Any]] = {}
    for info in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        module = importlib.import_module(info.name)
        for _, member in inspect.getmembers(module, inspect.isclass):
            name = member.__dict__.get("name")
            if member.__module__ == module.__name__ and isinstance(name, str) and name:
                classes[name] = member
    return classes


def load(path: str) -> Any:
    """Return the user's own object at `module:attribute`. Raises OwnCodeRefused, or UnknownName if there is none."""
    if not _OWN_CODE.get():
        raise OwnCodeRefused(path)
    # Put the current folder last on the path, so that it never hides an installed module. It is added only if the user's own code
    # is named; otherwise nothing is imported from it.
    with contextlib.suppress(FileNotFoundError):
        if (here := os.getcwd()) not in sys.path:
            sys.path.append(here)
    with own_code(f"{path!r} cannot be imported", "expected module:Class on the Python path or in the current folder"):
        return load_installed(path)


def load_installed(path: str) -> Any:
    """Return the object at `module:attribute` of this package or of an installed one."""
    module_name, _, attribute = path.partition(":")
    return getattr(importlib.import_module(module_name), attribute)


def find(kind: str, name: str, package: ModuleType, method: str, expected: str) -> Any:
    """Return the class of `package` with this name, or the user's class at `module:Class`. The class must have the `method`.
    `kind`, `expected`: words for messages. Raises UnknownName."""
    if ":" in name:
        member = load(name)
        if not callable(getattr(member, method, None)):
            raise UnknownName(f"{name!r} has no method `{method}`; expected module:Class of {expected}")
        return member
    known = {one: cls for one, cls in discover(package).items() if callable(getattr(cls, method, None))}
    if name not in known:
        raise unknown(kind, name, known)
    return known[name]


def make_instance(kind: str, name: str, cls: Any, model: Any = None) -> Any:
    """Return an instance of `cls`, with `model` if it is given. Raises ValueError, which names `kind` and `name`, if the class
    takes no model or needs one."""
    takes = bool(getattr(cls, "takes_model", False))
    if model is not None and not takes:
        raise ValueError(f"{kind} {name} reads no model; leave `model` out")
    if model is None and takes:
        try:
            inspect.signature(cls).bind()
        except TypeError:
            raise ValueError(f"{kind} {name} reads a model, and has none of its own; name its folder or hub name") from None
    with own_code(
        f"{kind} {name!r} cannot be made", f"its class is called with {'its model' if model is not None else 'nothing'}"
    ):
        return cls() if model is None else cls(model)


@contextlib.contextmanager
def own_code(wrong: str, mend: str) -> Iterator[None]:
    """Return a context for the user's own code, such as an import or a constructor. Any exception, even SystemExit, becomes
    UnknownName."""
    try:
        yield
    except (UserError, KeyboardInterrupt):
        raise
    # The user's own code may raise anything, and must not end the process silently.
    except BaseException as error:
        raise UnknownName(f"{wrong} ({error_line(error)}); {mend}") from error


def error_line(error: BaseException) -> str:
    """Return an error of a user's code in one line, with the file and line of the innermost frame in that code."""
    text = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}".removesuffix(": ")
    places = [(Path(frame.filename), frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    installed_in = {"site-packages", "lib"}
    own = [
        f"{file.name}:{line}"
        for file, line in places
        if file.is_file() and not file.resolve().is_relative_to(_OURS) and not installed_in & set(file.parts)
    ]
    return f"{text} ({own[-1]})" if own else text


@functools.lru_cache(maxsize=64)
def code_identity(name: str) -> str:
    """Return the sha256 (hex) of the module of `module:Class`, without comments, docstrings and blank lines; empty for a built-in
    name."""
    if ":" not in name:
        return ""
    try:
        source = inspect.getsource(inspect.getmodule(load(name.partition("/")[0])) or load(name))
    except (OSError, TypeError):
        return ""
    return hashlib.sha256(_code_alone(source).encode("utf-8", "surrogatepass")).hexdigest()


def _code_alone(source: str) -> str:
    """Remove comments, blank lines and docstrings from Python source. Keeps docstrings if the source reads `__doc__`.

    They are cut from the source itself, since the output of `ast.unparse` differs between versions of Python.
    """
    try:
        text = _without_comments(source)
        alone = [
            node
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        ]
    except (SyntaxError, ValueError, tokenize.TokenError):
        return source
    if "__doc__" in text or "getdoc" in text:
        return text
    # Columns of `ast` count bytes.
    lines = text.encode().split(b"\n")
    for node in sorted(alone, key=lambda node: (-node.lineno, -node.col_offset)):
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        rest = lines[first][: node.col_offset] + lines[last][node.end_col_offset :]
        lines[first : last + 1] = [rest] if rest.strip() else []
    return b"\n".join(lines).decode()


def _without_comments(source: str) -> str:
    """Remove comments and blank lines from Python source, except inside strings."""
    lines, wanted = io.StringIO(source).readlines(), set[int]()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip() + "\n"
        elif token.type not in (tokenize.NL, tokenize.ENDMARKER, tokenize.DEDENT):
            wanted.update(range(token.start[0], token.end[0] + 1))
    return "".join(line for number, line in enumerate(lines, 1) if number in wanted)


def source_identity(name: str) -> str:
    """Like `code_identity`, but read the module's file, on the Python path or in the current folder, without importing it."""
    module, colon, _ = name.partition(":")
    found, path = None, [*sys.path, ""]
    for end in range(1, module.count(".") + 2) if colon else ():
        found = PathFinder.find_spec(".".join(module.split(".")[:end]), path)
        path = list(found.submodule_search_locations or ()) if found is not None else []
    if found is None or not isinstance(found.loader, SourceFileLoader):
        return ""
    source = (found.loader.get_source(module) or "").rstrip("\n") + "\n"
    return hashlib.sha256(_code_alone(source).encode("utf-8", "surrogatepass")).hexdigest()


def unknown(kind: str, name: str, known: Iterable[str]) -> UnknownName:
    """Return the error for an unknown `name`. It suggests the nearest known name, or lists all names if none is similar."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else "known: " + ", ".join(names)
    return UnknownName(f"no {kind} is named {name!r}; {hint}")


class Unplannable(UserError):
    """Raised if a user's own code raises an exception while a run is planned."""

    exit_code = 1


@contextlib.contextmanager
def planning(name: str) -> Iterator[None]:
    """Return a context for planning with a user's code, which is called `name`. Its exceptions become Unplannable, in one
    line."""
    try:
        yield
    except (OSError, UserError, *STOPS):
        raise
    # A user's code may raise anything.
    except BaseException as error:
        raise Unplannable(
            f"the run cannot be planned: {name!r}, tried on a first question, raises {error_line(error)}; mend it (while "
            "planning, an answer that is not known yet is a Failed, which it must handle)"
        ) from error
