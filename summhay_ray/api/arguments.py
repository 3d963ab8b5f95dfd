"""Arguments of the API's functions: checks them against their annotations, and opens stores, specs and runs."""

from __future__ import annotations

import functools
import inspect
import math
import numbers
import os
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from summhay_ray import engine
from summhay_ray.engine import SpecError, Workload
from summhay_ray.run_options import Compat, PlanOptions, RunOptions, StartOptions, options_of
from summhay_ray.store import RunStore, Store, with_endpoint

DEFAULT_STORE = "./summhay-store"
Spec = str | Path | Mapping[str, Any]
"""The path of a YAML file, or a mapping with its fields."""
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
    """Wrap a function, so that an argument of a wrong type or choice raises SpecError. `**options: Unpack[...]` become keyword
    arguments in its signature."""
    options = options_of(function)
    defaults: Any = {name: option.default for name, (_, option) in options.items()}
    signature = inspect.signature(function)
    own = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
    keyword = inspect.Parameter.KEYWORD_ONLY
    more = [inspect.Parameter(name, keyword, default=defaults[name], annotation=kind) for name, (kind, _) in options.items()]
    signature = signature.replace(parameters=[*own, *more])

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"{function.__name__}() {error}") from None
        # The result's annotation is left out, since only type checkers may import the type in it.
        named = {one.name: one.annotation for one in own}
        hints = get_type_hints(types.SimpleNamespace(__annotations__=named), vars(inspect.getmodule(function)))
        for name, value in given.items():
            kind = options[name][0] if name in options else hints[name]
            if not _is(value, kind):
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
        # An iterator is not checked, since it can be read only once.
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


def store_uri(uri: str | None = None) -> str:
    """Return the store's URI: `uri` if given, else $SUMMHAY_STORE, else ./summhay-store."""
    return uri or os.environ.get("SUMMHAY_STORE") or DEFAULT_STORE


def load_with(spec: Spec, store: str | None, options: PlanOptions, cluster: engine.Cluster | None = None) -> Workload[Any]:
    """Load a spec with the `overrides` and `untrusted` of a run's options. If there are many inputs, `cluster` reads them."""
    mapped = (lambda _: None) if cluster is None else cluster.mapped
    return engine.load_workload(
        spec, options["overrides"], functools.partial(store_of, store), untrusted=options["untrusted"], mapped=mapped
    )


def cluster_of(options: StartOptions) -> engine.Cluster:
    """Return where a start with these options may use Ray."""
    return engine.Cluster(options["address"], options["executor"], not options["untrusted"])


def load_made_by(kind: str, spec: Spec, store: str | None, options: PlanOptions) -> Workload[Any]:
    """Load a spec for a command of one kind, which is the spec's default kind. Raise SpecError for another kind."""

    def with_kind(_: object, fields: Mapping[str, Any], where: str) -> Mapping[str, Any]:
        found = str(fields.get("kind") or ("summhay" if "haystacks" in fields else kind))
        if found != kind:
            raise SpecError(f"{where}: is of kind {found}; start it with: summhay run")
        return {**fields, "kind": kind}

    return engine.load_workload(spec, options["overrides"], functools.partial(store_of, store), with_kind, options["untrusted"])


@checked
def load(spec: Spec, overrides: Iterable[str] = (), store: str | None = None, *, untrusted: bool = False) -> Workload[Any]:
    """Return the workload of a spec, with its inputs read and every name checked. Raise SpecError, InvalidHaystack, StoreError.

    `store`: the store with the inputs that the spec names by hash, or that another run has made. `untrusted`: somebody else wrote
    the spec. Then it may not run its own code, read files outside its folder, or send a key elsewhere (docs/how-to/untrusted.md).
    The folder of a mapping is the current one.
    """
    return engine.load_workload(spec, overrides, functools.partial(store_of, store), untrusted=untrusted)


def uri_of(spec: engine.Spec, store: str | None) -> str:
    """Return the store's URI for a spec. An s3:// URI without an endpoint gets the spec's `endpoint_url`."""
    return with_endpoint(store_uri(store), spec.endpoint_url)


def store_of(store: str | None, spec: engine.Spec) -> Store:
    """Open the store for a spec."""
    return Store(uri_of(spec, store))


def check_budget(budget: float | None) -> None:
    """Raise SpecError unless it is a valid amount of dollars."""
    if budget is not None and not 0 <= budget < math.inf:
        raise SpecError(f"budget {budget}: expected dollars, 0 or more; leave it out for no limit")


def run_options(options: StartOptions, compat: Compat = "default", limit: int | None = None) -> RunOptions:
    """Return the options for the engine, checked before anything is read. The address "local" means this machine."""
    check_budget(options["budget"])
    if limit is not None and limit < 1:
        raise SpecError(f"limit {limit}: expected 1 item or more; leave it out for all items")
    address = None if options["address"] in ("", "local") else options["address"]
    return {**options, "address": address, "compat": compat, "limit": limit}


def opened_run(run_id: str, store: str | None) -> RunStore:
    """Open the run whose id begins with `run_id`. Raise StoreError if none or several match, or if its record is damaged."""
    run = Store(store_uri(store)).run(run_id)
    engine.check_record(run)
    return run


def stored_run(run_id: str, store: str | None) -> tuple[Workload[Any], RunStore]:
    """Return the workload of a stored run, and the run."""
    stored = opened_run(run_id, store)
    return engine.workload_of(stored), stored
