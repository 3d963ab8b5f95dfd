"""The commands of `summhay`, by purpose.

Heavy modules are imported inside the commands, so that `--help` is fast.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperGroup

from summhay_ray.cli.judge import compare, judge_bench, label, score
from summhay_ray.cli.make import audit, import_released, init, mine, verify
from summhay_ray.cli.read import explain, export, failures, release, report, runs, status, stop
from summhay_ray.cli.run import coverage, plan, recite, rejudge, retrieve, run, submit, support, synth
from summhay_ray.cli.serve import clean, doctor, simulate
from summhay_ray.cli.shared_options import VersionOption

RUN, READ, JUDGE, MAKE, SERVE = "Run", "Read", "Judge", "Make", "Serve and check"
COMMANDS: dict[str, tuple[Callable[..., None], ...]] = {
    RUN: (run, plan, retrieve, stop, release, submit),
    READ: (runs, status, failures, explain, export, report),
    JUDGE: (score, compare, coverage, rejudge, support, recite, judge_bench, label),
    MAKE: (import_released, init, mine, synth, audit, verify),
    SERVE: (clean, doctor, simulate),
}
"""Purpose -> its commands, in the order in which the help lists them."""


class Grouped(TyperGroup):
    """Lists the commands in groups by purpose, each with its full summary."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """See click's `MultiCommand`."""
        for group in COMMANDS:
            with formatter.section(group):
                commands = ((name, self.commands[name]) for name in self.list_commands(ctx))
                own = [(name, one) for name, one in commands if getattr(one, "rich_help_panel", "") == group]
                formatter.write_dl([(name, one.get_short_help_str(limit=200)) for name, one in own])


app = typer.Typer(
    name="summhay",
    cls=Grouped,
    help="Summary of a Haystack on Ray: how well models and RAG systems summarize large document sets and cite their sources.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.callback()
def _about(version: VersionOption = False) -> None: ...


for _purpose, _commands in COMMANDS.items():
    for _command in _commands:
        _name = "import" if _command is import_released else _command.__name__.replace("_", "-")
        app.command(_name, rich_help_panel=_purpose)(_command)
