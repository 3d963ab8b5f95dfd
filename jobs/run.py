"""Entry point of Ray jobs that `summhay submit` did not make (KubeRay, `ray job submit`): `summhay run` on the job's cluster.

    python jobs/run.py SPEC [--store s3://BUCKET/PREFIX] [--budget USD] [--set a.b=c]... [--settle]

SPEC is of any kind. It takes all options of `summhay run`, and adds `--address auto`. It resumes the run: stored answers are
neither requested nor paid for again. It also resumes after a restart by something else, such as KubeRay's backoffLimit, which
makes a new cluster.

With `--settle`, a job ends FAILED, which makes KubeRay start it again, only if another start may change the result. A run that
finished with failures listed (exit code 4) ends SUCCEEDED, unless another start would retry some of them. A run that stopped at
its budget (3), or that another driver took over (6), ends STOPPED. stdout is then the run's JSON document.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

from summhay_ray.cli import main

FINISHED_WITH_FAILURES = 4
NOT_MENDED_BY_A_RESTART = frozenset({3, 6})
"""Exit codes: the run's budget is used up (3); another driver took it over (6)."""
SETTLE = "--settle"
STOP_S = 60.0
"""Seconds to wait until Ray has stopped this job."""


def job(arguments: Sequence[str]) -> int:
    """Run the spec. Returns the exit code of the job."""
    given = [argument for argument in arguments if argument != SETTLE]
    if SETTLE not in arguments:
        return _run(given)
    with contextlib.redirect_stdout(io.StringIO()) as document:
        code = _run([*given, "--json"])
    sys.stdout.write(document.getvalue())
    sys.stdout.flush()
    if code == FINISHED_WITH_FAILURES and not json.loads(document.getvalue())["tried_again"]:
        sys.stderr.write("settled: finished with failures listed (exit code 4), which starting it again would not change\n")
        return 0
    if code in NOT_MENDED_BY_A_RESTART:
        sys.stderr.write(f"settled: stops its job (exit code {code}), which starting it again would not change\n")
        _stop_this_job()
    return code


def _run(arguments: Sequence[str]) -> int:
    try:
        main(["run", *arguments, "--address", "auto"])
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    return 0


def _stop_this_job() -> None:
    """Make Ray stop the job of this process. Returns only if there is no job, or if Ray does not stop it."""
    # Ray sets this variable in a job's process.
    config = json.loads(os.environ.get("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}"))
    name = config.get("metadata", {}).get("job_submission_id")
    if name is None:
        return
    # Ray sends SIGTERM to this process and its children; let it end them.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if subprocess.run(["ray", "job", "stop", "--no-wait", name], stdout=sys.stderr).returncode == 0:
        time.sleep(STOP_S)


if __name__ == "__main__":
    sys.exit(job(sys.argv[1:]))
