"""The command of a Ray job that was not sent by `summhay submit` (KubeRay, `ray job submit`): `summhay run` on the job's cluster.

    python jobs/run.py SPEC --store s3://BUCKET/PREFIX [--budget USD] [--set a.b=c]... [--settle]

SPEC is of any kind. All options of `summhay run`, with `--address auto`. It resumes: work in the store is neither asked nor paid
for again. Whatever restarts it after a failure (KubeRay's backoffLimit makes a new cluster and starts from scratch) therefore
resumes it. `--settle`: exit code 0 also for a run that finished with failures listed (4), unless another start would try some of
them again; stdout is then the JSON document of the run. An unfinished run keeps its code: 3 stopped at its budget, 1 failed. It
prints a progress line every ten seconds.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Sequence

from summhay_ray.cli import main

FINISHED_WITH_FAILURES = 4
SETTLE = "--settle"


def job(arguments: Sequence[str]) -> int:
    """Run the spec; returns the exit code of the job."""
    given = [argument for argument in arguments if argument != SETTLE]
    if SETTLE not in arguments:
        return _run(given)
    with contextlib.redirect_stdout(io.StringIO()) as document:
        code = _run([*given, "--json"])
    sys.stdout.write(document.getvalue())
    if code == FINISHED_WITH_FAILURES and not json.loads(document.getvalue())["tried_again"]:
        sys.stderr.write("settled: finished with failures listed (exit code 4), which starting it again would not change\n")
        return 0
    return code


def _run(arguments: Sequence[str]) -> int:
    try:
        main(["run", *arguments, "--address", "auto"])
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    return 0


if __name__ == "__main__":
    sys.exit(job(sys.argv[1:]))
