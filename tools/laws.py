"""The shared parts of scripts that measure laws: rows and verdicts, a provider, a bucket behind a proxy, and the command line.

Each script prints a table, then one line per law: `held` or `BROKEN`. The exit code is 1 if a law is broken. The scripts import
nothing of the package, so they can measure any version of it. Money is in dollars. `bill` is the provider's bill; `books` is the
sum of spent, reserved and uncertain in `status --json`. `served` counts calls that the provider billed, and `twice` those whose
prompt it had billed before. Rows are printed on stderr as JSON during the measurement.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

for folder in ("simulator", "engine", "store"):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / folder))
from asking_runs import Row
from fault_proxy import Fault, FaultProxy
from s3_servers import environment, serving
from simulated_provider import Simulated, simulated_provider

READS = ("GET", "HEAD")


@dataclass
class Found:
    """The measurements of a subcommand, and which laws held."""

    rows: list[Row] = field(default_factory=list)
    laws: dict[str, bool] = field(default_factory=dict)

    def add(self, **row: Any) -> None:
        """Add a row of the table, and print it immediately, since the next one may take minutes."""
        self.rows.append(row)
        print(json.dumps(row), file=sys.stderr, flush=True)

    def law(self, name: str, held: bool) -> None:
        """Record whether a law held. A broken law stays broken."""
        self.laws[name] = self.laws.get(name, True) and held

    def print_found(self) -> int:
        """Print everything, and return the exit code."""
        heads = list(dict.fromkeys(name for row in self.rows for name in row))
        cells = [heads, *([_cell(row.get(name, "")) for name in heads] for row in self.rows)]
        widths = [max(len(line[place]) for line in cells) for place in range(len(heads))]
        for line in cells:
            print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
        for name, held in self.laws.items():
            print(f"{'held' if held else 'BROKEN'}: {name}")
        return 0 if all(self.laws.values()) else 1


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


@contextlib.contextmanager
def provider_of(latency_s: float) -> Iterator[Simulated]:
    """Yield a provider without discounts, whose latency varies by half."""
    spread = ("--latency-spread", "0.5") if latency_s else ()
    with simulated_provider("--answers", "short", "--cache-lifetime", "0", "--latency", str(latency_s), *spread) as provider:
        yield provider


@contextlib.contextmanager
def bucket(delays: argparse.Namespace | None = None) -> Iterator[tuple[Callable[[], str], FaultProxy]]:
    """Yield a function that returns a new store on an S3 server, and the proxy before it, which counts requests and may delay
    them."""
    with serving("moto") as server, FaultProxy(server.url) as proxy:
        if delays is not None:
            for method in ("GET", "HEAD", "PUT", "POST", "DELETE"):
                ms = delays.get_ms if method in READS else delays.put_ms
                proxy.add(Fault("delay", method=method, seconds=ms / 1000))
        yield lambda: server.uri(server.bucket(), url=proxy.url), proxy


class Commands:
    """The subcommands of a script. Each of them measures one law."""

    def __init__(self, description: str | None) -> None:
        self.parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
        self._added = self.parser.add_subparsers(dest="law", required=True)

    def add(
        self, name: str, does: Callable[[argparse.Namespace], Found], in_flight: int = 64, latency: bool = True
    ) -> argparse.ArgumentParser:
        """Add a subcommand. `latency`: whether it has an option for the provider's latency."""
        formatter = argparse.ArgumentDefaultsHelpFormatter
        one: argparse.ArgumentParser = self._added.add_parser(name, description=does.__doc__, formatter_class=formatter)
        one.set_defaults(does=does)
        one.add_argument("--in-flight", type=int, default=in_flight, help="the model's limit of concurrent calls")
        if latency:
            one.add_argument("--latency", type=float, default=1.0, help="mean seconds of a call, which vary by half")
        return one

    def run(self) -> int:
        """Measure what the command line asks for. Return the exit code."""
        asked = self.parser.parse_args()
        quiet = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0", "OMP_NUM_THREADS": "1"}
        os.environ.update({**environment(), **quiet})
        began = time.monotonic()
        code = int(asked.does(asked).print_found())
        print(f"{asked.law}: {time.monotonic() - began:.0f} s")
        return code


def add_executors(one: argparse.ArgumentParser) -> None:
    """Add an option for the executors to measure."""
    one.add_argument("--executor", choices=("inline", "ray"), action="append", help="default: both")
