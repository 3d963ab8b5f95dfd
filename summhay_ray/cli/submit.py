"""`summhay submit`: runs a spec as a job on a Ray cluster and follows it to its end."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Unpack

import typer

from summhay_ray.cli.shared_options import (
    BUDGET,
    FAILED,
    CompatOption,
    JsonOption,
    LogLevelOption,
    SpecArgument,
    with_options,
)
from summhay_ray.run_options import PlanOptions

if TYPE_CHECKING:
    from summhay_ray.engine import RayJob

NodesStoreOption = Annotated[
    str | None, typer.Option("--store", help="The store, as the nodes see it: s3://BUCKET/PREFIX or a shared folder.")
]


@with_options
def submit(
    spec: SpecArgument,
    address: Annotated[str, typer.Option(help="URL of the head's dashboard: http://HEAD:8265.")],
    store: NodesStoreOption = None,
    compat: CompatOption = "default",
    log_level: LogLevelOption = None,
    wait: Annotated[bool, typer.Option(help="Show the job's log until its end; Ctrl-C leaves the job running.")] = True,
    as_json: JsonOption = False,
    **options: Unpack[PlanOptions],
) -> None:
    """Run or resume the work of a spec as a job on a Ray cluster; if the job is running already, watch it.

    Sends the spec, its files and your own modules, but never a key: keys come from the nodes' environment or files. Haystacks are
    passed through the s3:// store if it can be reached from here. Exit codes: the run's own (0 done, 3 stopped at the budget, 4
    failures listed), or 1 if the job died or is left running.
    """
    from summhay_ray import api
    from summhay_ray.cli.show import note

    job = api.submit(spec, address, store, compat=compat, **options)
    for line in job.notes:
        note(f"note: {line}")
    note(f"job {job.job} of run {job.run} " + ("is already running; this is its log" if job.attached else "is sent"))
    if not wait:
        note(f"look: {job.look()}; stop: {job.stop()}")
        _show(job, None, None, as_json)
        return
    try:
        end = job.follow(_writer(as_json))
    except KeyboardInterrupt:
        note(f"\njob {job.job} runs on; look: {job.look()}; stop: {job.stop()}; the same command watches it again")
        raise typer.Exit(FAILED) from None
    if end.message:
        note(f"summhay: {end.message}")
    if end.exit_code == BUDGET:
        note(f"stopped at its budget; to go on: summhay submit {spec} with a larger --budget, as before otherwise")
    _show(job, end.status, end.exit_code, as_json)
    raise typer.Exit(end.exit_code)


def _writer(as_json: bool) -> Callable[[str], None]:
    """A function that prints parts of the job's log: to stdout, or to stderr if stdout is for the JSON document."""
    from summhay_ray.errors import printable

    stream = sys.stderr if as_json else sys.stdout

    def write(text: str) -> None:
        stream.write(printable(text, "\n\t"))
        stream.flush()

    return write


def _show(job: RayJob, status: str | None, code: int | None, as_json: bool) -> None:
    from summhay_ray.cli.show import document, facts

    fields = {name: getattr(job, name) for name in ("run", "job", "address", "store", "attached")}
    fields |= {"status": status, "exit_code": code}
    if as_json:
        document(fields)
    elif status is None:
        facts([(name, fields[name]) for name in ("run", "job", "store")])
