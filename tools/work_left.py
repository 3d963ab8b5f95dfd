"""Compares the remaining calls, dollars and time that `status` reports with the actual ones. laws.py describes the output.

python tools/work_left.py reported               # about ten minutes
python tools/work_left.py reported --what asking # about a minute
"""

from __future__ import annotations

import argparse
import re
import sys
import time

from asking_runs import PATIENCE_S, Row, job
from laws import Commands, Found, provider_of


def remaining_work(asked: argparse.Namespace) -> Found:
    """Measure the remaining work after a fifth of the run: as reported by `status`, and as it turned out."""
    grid = {
        "haystacks": ["sample/news", "sample/conversation"],
        "retrievers": ["random", "bm25", "oracle", "full"],
        "token_budget": 1500,
    }
    shapes: dict[str, Row] = {
        "asking": {"items": 240, "distinct": 19},
        # Repeats of a free summarizer are one summary, but a plan does not know this before they are made.
        "grid": {**grid, "repeats": 4, "summarizers": ["offline/lead"]},
    }
    found = Found()
    with provider_of(asked.latency) as provider:
        for what in asked.what or shapes:
            with job(provider, limits={"concurrency": 256}, **shapes[what]) as quiet:
                planned = quiet.calls
                quiet.finish("--executor", "inline")
                distinct = quiet.tally()["prompts"]
            with job(provider, limits={"concurrency": 4 if what == "grid" else 1}, **shapes[what]) as one:
                process = one.start("--executor", asked.executor)
                one.wait_served(process, distinct / 5)
                before, now, status = one.tally(), time.time(), one.status()
                minutes, seconds = (re.findall(r"(\d+):(\d\d) to go", one.stderr_text()) or [("", "")])[-1]
                code = process.wait(PATIENCE_S)
                after, ends = one.tally(), max(call["done"] for call in one.requests())
            left = status["left"] or {}
            usd = left.get("usd")
            time_left = left.get("seconds", 60 * left["minutes"] if "minutes" in left else None)
            pairs = {
                "calls": (left.get("calls"), after["served"] - before["served"]),
                "usd": (usd.get("expected") if isinstance(usd, dict) else usd, (after["micros"] - before["micros"]) / 1e6),
                "seconds": (time_left, ends - now),
                "seconds, by the run's line": (60 * int(minutes) + int(seconds) if minutes else None, ends - now),
            }
            for name, (said, real) in pairs.items():
                ratio = said / real if said is not None else float("nan")
                found.add(
                    what=what,
                    planned=planned,
                    distinct=distinct,
                    left=name,
                    reported=said,
                    real=float(real),
                    ratio=ratio,
                    exit=code,
                )
                if "line" not in name:
                    found.law(f"{what}: {name} left are within a factor of 1.5", 1 / 1.5 <= ratio <= 1.5)
    return found


def commands() -> Commands:
    """The subcommand, with its sizes."""
    made = Commands(__doc__)
    one = made.add("reported", remaining_work)
    one.add_argument("--executor", choices=("inline", "ray"), default="inline")
    one.add_argument("--what", choices=("asking", "grid"), action="append", help="both if left out")
    return made


if __name__ == "__main__":
    sys.exit(commands().run())
