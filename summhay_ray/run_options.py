"""The options with which a run is started. Only this module defines their types, descriptions and defaults.

The engine gets them as a mapping. The keywords of the Python API and the options of the command line are generated from these
classes. To add an option, add a field, and read it where it is used.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal, NamedTuple, TypedDict, get_args, get_type_hints

from summhay_ray.errors import UserError

Compat = Literal["default", "release"]
"""How stored answers are interpreted: `default` as this package does, `release` as the paper's scripts do, including their
bugs."""
Over = Literal["queries", "haystacks"]
"""The population to which differences between systems generalize: other queries of these haystacks, or other haystacks."""


class Option(NamedTuple):
    """An option's description for people, and its default."""

    help: str
    default: Any = None


class PlanOptions(TypedDict, total=False):
    """Options of commands that read a spec and may spend money."""

    budget: Annotated[float | None, Option("Maximum dollars that the run may spend; default: the spec's budget.")]
    overrides: Annotated[Iterable[str], Option("Override a field of the spec: a.b=c; entries of lists by their index.", ())]
    untrusted: Annotated[
        bool,
        Option("For somebody else's spec: refuse its own code, files outside its folder, and keys for other endpoints.", False),
    ]


class StartOptions(PlanOptions, total=False):
    """Options of commands that start a run. None of them is part of the run's identity."""

    address: Annotated[str | None, Option("auto, or the address of a Ray cluster; default: this machine.")]
    executor: Annotated[
        Literal["auto", "inline", "ray"] | None,
        Option("inline: in this process, without Ray; ray: on Ray; auto: whichever is faster; default: the spec's."),
    ]
    watch: Annotated[Callable[[Any], None] | None, Option("Called with a `Progress` about twice a second, in a separate thread.")]
    note: Annotated[
        Callable[[str], None] | None,
        Option("Called with one-line notes, such as the chosen executor and warnings of the plan."),
    ]
    release_uncertain: Annotated[
        str | None,
        Option("First release the run's uncertain money if its newest money record is at least this old: 1d, 6h, 30m, 0."),
    ]
    detach: Annotated[
        bool, Option("End with exit code 5 as soon as only batches are left to wait for; the same command continues.", False)
    ]


class RunOptions(StartOptions, total=False):
    """Options of `run`."""

    compat: Annotated[
        Compat,
        Option("release: interpret judgments and citations as the release's scoring script does.", "default"),
    ]
    limit: Annotated[int | None, Option("Answer only a fair sample of this many items; the run can be resumed.")]


def seconds_of(text: str, option: str) -> float:
    """Convert `1d`, `6h`, `30m`, `15s` or a plain number to seconds. `option`: the option's name, for the message. Raises
    UserError."""
    units = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
    number, unit = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1.0)
    if not number.replace(".", "", 1).isdecimal():
        raise UserError(f"{option} {text!r}: expected a number and d, h, m or s, such as 1d")
    return float(number) * unit


def options_of(function: Callable[..., Any]) -> dict[str, tuple[Any, Option]]:
    """Return name -> (type, description) of the options that a function takes as `**options: Unpack[...]`; empty without them."""
    taken = [one for one in inspect.signature(function).parameters.values() if one.kind is one.VAR_KEYWORD]
    if not taken:
        return {}
    [options] = get_args(eval(taken[0].annotation, vars(sys.modules[function.__module__])))  # noqa: S307
    return {name: get_args(hint) for name, hint in get_type_hints(options, include_extras=True).items()}
