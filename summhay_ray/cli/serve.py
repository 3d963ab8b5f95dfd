"""`summhay simulate`, a simulated provider, and the commands that maintain a store and this machine."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args, get_type_hints

import typer

import summhay_ray
from summhay_ray.cli.shared_options import DONE, FAILED, JsonOption, StoreOption, UntrustedOption
from summhay_ray.cli.show import document, facts, note, warn
from summhay_ray.run_options import seconds_of
from summhay_ray.simulator_settings import Settings

KEY_VARIABLE = "SIMULATED_API_KEY"


# Fault -> help of its option. As with all faults, a request's prompt and --seed decide whether it has the fault.
FAULTS: Mapping[str, str] = {
    "forget": "Fraction of a synthesis's documents, chapters and edits that lack an insight.",
    "extra": "Fraction of these that state one insight too many.",
    "malformed": "Fraction of a synthesis's other answers that do not follow the request.",
}


_SETTINGS = get_type_hints(Settings, include_extras=True)
_OPTIONS: tuple[tuple[Any, ...], ...] = (
    ("port", int, 8000, "The port to listen on; 0 takes a free port and prints it."),
    ("host", str, "127.0.0.1", "The address to listen on; by default only this machine can connect."),
    ("answers", Literal["offline", "short"], "offline", "offline: like offline/support, /judge and /writer; short: short texts."),
    # Settings with several values have another form, and follow below.
    *(
        (one.name, get_args(_SETTINGS[one.name])[0], one.default, get_args(_SETTINGS[one.name])[1])
        for one in dataclasses.fields(Settings)
        if one.name not in ("unknown_models", "models")
    ),
    *((name, float, 0.0, about) for name, about in FAULTS.items()),
    (
        "quality",
        str | None,
        None,
        "Share of a summary that each model gives: big=0.9,small=0.4; one number for the others; or spread, by their names.",
    ),
    ("limits", list[str] | None, None, "MODEL:rpm=60,latency=2,...: settings of one model; repeatable.", "--limit"),
    ("unknown_models", list[str] | None, None, "A model for which requests get 404; repeatable.", "--unknown-model"),
    ("keys", str | None, None, "A file of API keys, one per line. Other keys get 401; by default, any key is accepted."),
    ("record", str | None, None, "A file for the calls, as JSON lines. Each call is written when it is billed and when it ends."),
    ("as_json", bool, False, "One JSON document on stdout; everything else on stderr.", "--json"),
)
"""Name, type, default and help of each option of `simulate`, and its flag if it differs from the name."""


def simulate(**given: Any) -> None:
    """Serve an OpenAI-compatible provider that bills its answers, to rehearse a paid run and for tests.

    It answers like offline/support, offline/judge and offline/writer. GET /simulated/stats and GET /simulated/calls show its
    books, and POST /simulated/reset empties them. SIGTERM or Ctrl-C ends it.
    """
    from summhay_ray import simulator as simulation

    as_json = given.pop("as_json")
    limits, unknown = given.pop("limits") or [], tuple(given.pop("unknown_models") or ())
    serving = simulation.Serving(
        host=given.pop("host"),
        port=given.pop("port"),
        keys=given.pop("keys"),
        record=given.pop("record"),
        short=given.pop("answers") == "short",
        **({"quality": simulation.Quality(quality)} if (quality := given.pop("quality")) else {}),
        faults=simulation.make_faults(**{name: given.pop(name) for name in FAULTS}, seed=given["seed"]),
    )
    settings = simulation.make_settings({**given, "unknown_models": unknown}, limits)
    price = {
        "input_per_mtok": settings.input_price,
        "cached_input_per_mtok": settings.cached_price,
        "output_per_mtok": settings.output_price,
    }

    def announce(base: str) -> None:
        if as_json:
            port = int(base.removesuffix("/v1").rpartition(":")[2])
            document({"api_base": base, "host": serving.host, "port": port, "price": price})
        else:
            prices = ", ".join(f"{name}: {value:g}" for name, value in price.items())
            model = f"{{model: openai/simulated, api_base: {base}, api_key_env: {KEY_VARIABLE}, price: {{{prices}}}}}"
            sys.stdout.write(f"listening on {base}; in a spec: {model}, with any text in ${KEY_VARIABLE}\n")
        sys.stdout.flush()

    if serving.beyond_this_machine:
        note(f"warning: --host {serving.host} lets other machines in; --host 127.0.0.1 keeps them out")
    books = simulation.simulate(settings, serving, announce)
    sys.stderr.write(f"served {books['served']} of {books['requests']} requests for {books['micros'] / 1e6:.6f} dollars\n")


# typer reads a command's options from its signature.
simulate.__dict__["__signature__"] = inspect.Signature(
    [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=typer.Option(default, *(flags or [f"--{name.replace('_', '-')}"]), help=about),
            annotation=kind,
        )
        for name, kind, default, about, *flags in _OPTIONS
    ]
)


def clean(
    store: StoreOption = None,
    older_than: Annotated[str, typer.Option("--older-than", help="Only files older than this: 1d, 6h, 30m, 0.")] = "1d",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be deleted, and delete nothing.")] = False,
    answers: Annotated[bool, typer.Option("--answers", help="Delete stored answers that match the next three options.")] = False,
    run: Annotated[str, typer.Option("--run", help="With --answers: answers that this run paid for.")] = "",
    before: Annotated[str, typer.Option("--before", help="With --answers: answers of starts before this date (UTC).")] = "",
    matching: Annotated[str, typer.Option("--matching", help="With --answers: answers whose texts contain this text.")] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Delete the answers without asking.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Delete files of a store that no reader needs any more; with --answers, also stored answers.

    Without --yes, answers are deleted only if a person confirms it on a terminal.
    """
    if answers:
        if older_than != "1d":
            raise typer.BadParameter("--older-than chooses files, not answers; give --before DATE")
        _delete_answers({"store": store, "run": run, "before": before, "matching": matching}, dry_run, yes, as_json)
        return
    if run or before or matching or yes:
        raise typer.BadParameter("--run, --before, --matching and --yes choose answers; give --answers, too")
    result = summhay_ray.clean(store, seconds_of(older_than, "--older-than"), dry_run)
    warn(f"{damaged}; see: summhay doctor --store URI" for damaged in result.warnings)
    if as_json:
        document(result.to_json())
        return
    word = "would free" if dry_run else "freed"
    kinds = [(what, f"{kind['files']} files, {kind['bytes'] / 2**20:,.1f} MiB") for what, kind in sorted(result.kinds.items())]
    facts([*kinds, (word, f"{result.files} files, {result.bytes / 2**20:,.1f} MiB")])


def _delete_answers(selected: Mapping[str, Any], dry_run: bool, yes: bool, as_json: bool) -> None:
    """Show the selected answers, and delete them if `yes` is set or a person confirms."""
    result = summhay_ray.delete_answers(**selected, dry_run=dry_run or not yes)
    warn(result.warnings)
    if as_json:
        document(result.to_json())
    else:
        rows = [(one["run"], f"{one['answers']} answers (${one['usd']:.6f}), {one['items']} items") for one in result.runs]
        total = f"{result.answers} answers; asking them again costs at most ${result.usd_again:.6f}"
        facts([*rows, ("would delete" if result.dry_run else "deleted", total)])
    if not result.dry_run:
        return
    if not dry_run and not as_json and sys.stdin.isatty() and typer.confirm("Delete them?", err=True):
        summhay_ray.delete_answers(**selected, dry_run=False)
        note("deleted")
    else:
        note("nothing was deleted; give --yes to delete without being asked")


def doctor(
    spec: Annotated[str | None, typer.Argument(help="A spec whose models are checked too.", metavar="[SPEC]")] = None,
    store: StoreOption = None,
    untrusted: UntrustedOption = False,
    as_json: JsonOption = False,
) -> None:
    """Check keys, prices, Ray and offline models; with --store, check the store's files."""
    from dataclasses import asdict

    checks = summhay_ray.doctor(spec, store, untrusted=untrusted)
    if as_json:
        document({"checks": [asdict(check) for check in checks]})
    else:
        marks = ("ok  " if check.ok else "BAD " if check.needed else "-   " for check in checks)
        facts([(f"{mark} {check.name}", check.message) for mark, check in zip(marks, checks, strict=True)])
    raise typer.Exit(DONE if all(check.ok or not check.needed for check in checks) else FAILED)
