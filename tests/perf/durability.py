"""What a durable record costs: `LogWriter.append` of 64 records at a time, against a bare write of the same bytes.

    python tests/perf/durability.py

Microseconds a record, medians over the rounds. The disk's own time (fsync) stands apart: it is the machine's, and every group
of records shares one.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from summhay_ray.store import LocalFiles, LogWriter
from summhay_ray.store import log_lines as log

GROUP = 64
MOST_MICROS = 50.0
BODY = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt-fair",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 400, "completion_tokens": 170, "prompt_tokens_details": {"cached_tokens": 256}},
}


@dataclass(frozen=True)
class Cost:
    """Microseconds a record."""

    append: float
    """Of LogWriter.append, without the disk."""
    bare: float
    """Of os.write of the same bytes."""
    fsync: float
    """Of the disk."""

    @property
    def over_bare(self) -> float:
        """What JSON, checksum and bookkeeping cost."""
        return self.append - self.bare


def record(number: int) -> dict[str, Any]:
    """An answer of 1.5 KB as the log holds it: the body and what was read from it."""
    text = f"- Bullet {number} says what the documents say, and cites them. [1][2][3]\n" * 6
    known = {"kind": "answer", "call": f"{number:032x}", "run": "r0123456789ab", "key": f"{number:064x}"}
    used = {"input_tokens": 400, "cached_tokens": 256, "cache_write_tokens": 0, "reasoning_tokens": 0, "output_tokens": 170}
    answer = {"text": text, "finish_reason": "stop", "usd_micros": 2700, "saved_micros": 320, "attempts": 1}
    choice = {**BODY["choices"][0], "message": {"role": "assistant", "content": text}}  # type: ignore[index]
    return {**known, "model": "openai/gpt-fair", "stage": "judge", **used, **answer, "raw": {**BODY, "choices": [choice]}}


@contextmanager
def fsync_timed() -> Iterator[list[float]]:
    """Seconds of each fsync of the log."""
    found: list[float] = []
    real = os.fsync

    def timed(descriptor: int) -> None:
        began = time.perf_counter()
        real(descriptor)
        found.append(time.perf_counter() - began)

    with mock.patch("summhay_ray.store.log_writer.os.fsync", timed):
        yield found


def seconds(work: Callable[[], object]) -> float:
    """How long it takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def measure(folder: Path, groups: Sequence[Sequence[Mapping[str, Any]]]) -> Cost:
    """Append all, and write the same bytes."""
    n = sum(map(len, groups))
    writer = LogWriter(LocalFiles(folder), "w")
    with fsync_timed() as waits:
        whole = seconds(lambda: [writer.append(group) for group in groups])
    writer.close()
    blocks = [b"".join(log.encode(one) for one in group) for group in groups]
    descriptor = os.open(folder / "bare", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    bare = seconds(lambda: [os.write(descriptor, block) for block in blocks])
    os.close(descriptor)
    assert (folder / "bare").read_bytes() == (folder / writer.name).read_bytes()
    return Cost(*(part / n * 1e6 for part in (whole - sum(waits), bare, sum(waits))))


def costs(records: int, rounds: int) -> Cost:
    """Medians over the rounds."""
    groups = [[record(number) for number in range(first, first + GROUP)] for first in range(0, records, GROUP)]
    found = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="durability-") as folder:
            found.append(measure(Path(folder), groups))
    return Cost(*(statistics.median(getattr(cost, name) for cost in found) for name in ("append", "bare", "fsync")))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    cost = costs(asked.records, asked.rounds)
    print(f"{asked.records} records of {len(log.encode(record(1)))} bytes, {GROUP} a group; microseconds a record:")
    print(f"append {cost.append:.1f}, bare write {cost.bare:.1f}: {cost.over_bare:.1f} over it; fsync {cost.fsync:.1f} more")
    return 0 if cost.over_bare <= MOST_MICROS else 1


if __name__ == "__main__":
    sys.exit(main())
