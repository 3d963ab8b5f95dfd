"""The options of a start of a run. Only this module defines their types, descriptions and defaults.

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
"""The way to read stored answers: `default` is this package's reading, `release` that of the paper's own scripts, bugs
included."""
Over = Literal["queries", "haystacks"]
"""The population to which differences between systems generalize: further queries of these haystacks, or other haystacks."""


class Option(NamedTuple):
    """An option's description for people, and its default."""

    help: str
    default: Any = None


class PlanOptions(TypedDict, total=False):
    """Options of commands that read a spec and may spend money."""

    budget: Annotated[float | None, Option("Dollars that the run never exceeds; default the spec's.")]
    overrides: Annotated[Iterable[str], Option("Override a field of the spec: a.b=c, lists by index.", ())]
    untrusted: Annotated[
        bool, Option("For a spec from somebody else: no code of its own, no file outside its folder, no key elsewhere.", False)
    ]


class StartOptions(PlanOptions, total=False):
    """Options of commands that start a run. None of them is part of the run's identity."""

    address: Annotated[str | None, Option("auto, or the address of a Ray cluster; default this machine.")]
    executor: Annotated[
        Literal["auto", "inline", "ray"] | None,
        Option("inline: in this process, without Ray; ray; auto: whichever is faster. Default the spec's."),
    ]
    watch: Annotated[
        Callable[[Any], None] | None, Option("Called with a `Progress` about twice a second, in a thread of its own.")
    ]
    note: Annotated[
        Callable[[str], None] | None,
        Option("Called with one-line notes: the chosen executor and why, warnings of the plan."),
    ]
    release_uncertain: Annotated[
        str | None,
        Option("Release the run's uncertain money first if its newest money record is at least this old: 1d, 6h, 30m, 0."),
    ]
    detach: Annotated[
        bool, Option("End with exit code 5 when only batches are left to wait for; the same command continues.", False)
    ]


class RunOptions(StartOptions, total=False):
    """Options of `run`."""

    compat: Annotated[
        Compat,
        Option("release: read judgments and citations as the release's scoring script does.", "default"),
    ]
    limit: Annotated[int | None, Option("Answer only this many items, a fair sample; the run can be resumed.")]


def seconds_of(text: str, option: str) -> float:
    """The seconds in `1d`, `6h`, `30m`, `15s` or a plain number. `option`: what it is the value of. Raises UserError."""
    units = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
    number, unit = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1.0)
    if not number.replace(".", "", 1).isdecimal():
        raise UserError(f"{option} {text!r}: expected a number and d, h, m or s, such as 1d")
    return float(number) * unit


def options_of(function: Callable[..., Any]) -> dict[str, tuple[Any, Option]]:
    """(Type, description) by name of the options that a function takes as `**options: Unpack[...]`; empty without them."""
    taken = [one for one in inspect.signature(function).parameters.values() if one.kind is one.VAR_KEYWORD]
    if not taken:
        return {}
    [options] = get_args(eval(taken[0].annotation, vars(sys.modules[function.__module__])))  # noqa: S307
    return {name: get_args(hint) for name, hint in get_type_hints(options, include_extras=True).items()}
