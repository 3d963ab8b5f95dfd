"""Give the workers of this node notice that it is about to be taken away, and wait until they are gone.

Workers that get SIGTERM take no further calls, finish those in flight for up to 20 s, ship what they know to the store and exit.
They cannot where their raylet goes first, so this runs before anything else is ended: as a Kubernetes preStop hook
(`python jobs/drain.py`), or beside a spot instance of AWS, which tells two minutes ahead (`python jobs/drain.py --spot`).
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
import urllib.request
from http.client import HTTPException
from pathlib import Path

WORKER = b"ray::WorkerActor"
GRACE_S = 24.0
ASK_EVERY_S = 5.0
METADATA = "http://169.254.169.254/latest"


def workers() -> list[int]:
    """The processes on this node that ask models: Ray names each after its actor's class."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "cmdline").read_bytes().startswith(WORKER):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def drain(grace_s: float = GRACE_S) -> int:
    """Give notice, wait for at most `grace_s` seconds; gives how many were still there."""
    told: set[int] = set()
    end = time.monotonic() + grace_s
    while (left := workers()) and time.monotonic() < end:
        for pid in set(left) - told:
            # It may have gone meanwhile, and the others must hear of it all the same.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
            told.add(pid)
        time.sleep(0.2)
    return len(left)


def wait_for_notice(metadata: str = METADATA, every_s: float = ASK_EVERY_S) -> None:
    """Return as soon as AWS says that this spot instance will be taken away."""
    # The address is this machine's own: no proxy of the environment knows it.
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while True:
        try:
            ask = urllib.request.Request(
                f"{metadata}/api/token", method="PUT", headers={"X-aws-ec2-metadata-token-ttl-seconds": "60"}
            )
            with direct.open(ask, timeout=2) as answer:
                token = answer.read().decode("ascii")
            notice = urllib.request.Request(
                f"{metadata}/meta-data/spot/instance-action", headers={"X-aws-ec2-metadata-token": token}
            )
            with direct.open(notice, timeout=2):
                return
        except (OSError, HTTPException, ValueError):
            # 404 until there is a notice; whatever else comes may be better the next time.
            time.sleep(every_s)


if __name__ == "__main__":
    if "--spot" in sys.argv[1:]:
        wait_for_notice()
        # Ray starts other workers on this machine as long as it is there.
        while True:
            drain()
            time.sleep(ASK_EVERY_S)
    sys.exit(1 if drain() else 0)
