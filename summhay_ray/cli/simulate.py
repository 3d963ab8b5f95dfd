"""`summhay simulate`: serves a simulated provider, with an option for each of its settings."""

from __future__ import annotations

import dataclasses
import inspect
import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args, get_type_hints

import typer

from summhay_ray.simulator_settings import Settings

if TYPE_CHECKING:
    from summhay_ray import simulator as simulation

KEY_VARIABLE = "SIMULATED_API_KEY"


# name -> help; like all faults, they are drawn with the prompt and --seed.
FAULTS: Mapping[str, str] = {
    "forget": "Fraction of a synthesis's documents, chapters and edits that lack an insight.",
    "extra": "Fraction of them that state an insight more.",
    "malformed": "Fraction of a synthesis's other answers that are not what was asked for.",
}
_Parameters = list[inspect.Parameter]


def _parameter(name: str, kind: Any, default: Any, about: str, *flags: str) -> inspect.Parameter:
    flag = flags or (f"--{name.replace('_', '-')}",)
    option = typer.Option(default, *flag, help=about)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=kind)


def _parameters() -> _Parameters:
    found = [
        _parameter("port", int, 8000, "Where to listen; 0 takes a free port and says which."),
        _parameter("host", str, "127.0.0.1", "The address to listen on: this machine alone, unless told otherwise."),
        _parameter(
            "answers",
            Literal["offline", "short"],
            "offline",
            "offline: as offline/support, /judge and /writer; short: quick texts.",
        ),
    ]
    annotated = get_type_hints(Settings, include_extras=True)
    for setting in dataclasses.fields(Settings):
        # Settings with several values are options of another form, below.
        if setting.name not in ("unknown_models", "models"):
            kind, about = get_args(annotated[setting.name])
            found.append(_parameter(setting.name, kind, setting.default, about))
    found += [_parameter(name, float, 0.0, about) for name, about in FAULTS.items()]
    several, path = list[str] | None, str | None
    return [
        *found,
        _parameter("limits", several, None, "MODEL:rpm=60,latency=2,...: settings of one model; repeatable.", "--limit"),
        _parameter("unknown_models", several, None, "A model that is answered 404; repeatable.", "--unknown-model"),
        _parameter("keys", path, None, "A file of API keys, one a line: others get 401; else any key is taken."),
        _parameter("record", path, None, "A file that gets each call as a line of JSON, at its bill and at its end."),
        _parameter("as_json", bool, False, "One JSON document on stdout; everything else on stderr.", "--json"),
    ]


def simulate(**given: Any) -> None:
    """Serve an OpenAI-compatible provider that bills what it serves: to rehearse a paid run, and to test with.

    It answers as offline/support, offline/judge and offline/writer would. Its books: GET /simulated/stats, GET /simulated/calls,
    POST /simulated/reset. SIGTERM or Ctrl-C ends it.
    """
    from summhay_ray import simulator as simulation
    from summhay_ray.cli.show import note

    as_json = given.pop("as_json")
    limits, unknown = given.pop("limits") or [], tuple(given.pop("unknown_models") or ())
    serving = simulation.Serving(
        host=given.pop("host"),
        port=given.pop("port"),
        keys=given.pop("keys"),
        record=given.pop("record"),
        short=given.pop("answers") == "short",
        faults=simulation.make_faults(**{name: given.pop(name) for name in FAULTS}, seed=given["seed"]),
    )
    settings = simulation.make_settings({**given, "unknown_models": unknown}, limits)
    price = {
        "input_per_mtok": settings.input_price,
        "cached_input_per_mtok": settings.cached_price,
        "output_per_mtok": settings.output_price,
    }

    def announce(base: str) -> None:
        text = _document(base, serving, price) if as_json else _line(base, price)
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    if serving.beyond_this_machine:
        note(f"warning: --host {serving.host} lets other machines in; --host 127.0.0.1 keeps them out")
    books = simulation.simulate(settings, serving, announce)
    sys.stderr.write(f"served {books['served']} of {books['requests']} requests for {books['micros'] / 1e6:.6f} dollars\n")


def _document(base: str, serving: simulation.Serving, price: Mapping[str, float]) -> str:
    port = int(base.removesuffix("/v1").rpartition(":")[2])
    return json.dumps({"api_base": base, "host": serving.host, "port": port, "price": price})


def _line(base: str, price: Mapping[str, float]) -> str:
    prices = ", ".join(f"{name}: {value:g}" for name, value in price.items())
    model = f"{{model: openai/simulated, api_base: {base}, api_key_env: {KEY_VARIABLE}, price: {{{prices}}}}}"
    return f"listening on {base}; in a spec: {model}, with any text in ${KEY_VARIABLE}"


# typer reads a command's options from its signature, which this builds from the settings and the table above.
simulate.__dict__["__signature__"] = inspect.Signature(_parameters())
