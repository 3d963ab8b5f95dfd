"""What a Ray job runs where it is not sent by `summhay submit` (KubeRay, `ray job submit`): `summhay run` on its cluster.

    python jobs/run.py SPEC --store s3://BUCKET/PREFIX [--budget USD] [--set a.b=c]... [--settle]

SPEC is of any kind. All options of `summhay run`, with `--address auto`. It resumes: what the store holds of the run is neither
asked nor paid again, so that whatever starts it again after a failure (KubeRay's backoffLimit makes a new cluster and starts from
scratch) resumes it. `--settle`: exit code 0 also where starting again would change nothing, which is a run that stopped
at its budget (3) or finished with failures listed (4); `summhay status RUN --store URI` tells them apart. Progress comes as a
line every ten seconds.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from summhay_ray.cli import main

SETTLED = (3, 4)
SETTLE = "--settle"


def job(arguments: Sequence[str]) -> int:
    """Run, and give the exit code of the job."""
    given = [argument for argument in arguments if argument != SETTLE]
    try:
        main(["run", *given, "--address", "auto"])
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
        if code in SETTLED and SETTLE in arguments:
            sys.stderr.write(f"settled: the run ended with exit code {code}, which starting it again would not change\n")
            return 0
        return code
    return 0


if __name__ == "__main__":
    sys.exit(job(sys.argv[1:]))
