"""Measures the costs of a store on S3: requests, speed, a restart, and an outage. laws.py describes the output.

    python tools/far_stores.py puts    # requests to S3 a call and a cell, and their price for a million calls
    python tools/far_stores.py far     # the speed over a slow S3 against the disk's, at calls of 1 s and of 50 ms
    python tools/far_stores.py restart # seconds to the first call, with 100,000 answers on S3
    python tools/far_stores.py outage  # S3 is out of reach for 60 s

`--help` after a subcommand shows its sizes. Short forms, of about a minute each on an idle machine:

    puts --executor inline --items 60 · far --seconds 5 --latency 1 · restart --answers 5000 · outage --seconds 15 --out 12
"""

from __future__ import annotations

import argparse
import sys
import time

from asking_runs import PATIENCE_S, Row, is_done, job
from laws import READS, Commands, Fault, Found, add_executors, bucket, provider_of

PUT_USD, GET_USD = 0.005e-3, 0.0004e-3
"""S3's list prices per request: for PUT, POST and LIST; for GET and HEAD."""


def puts(asked: argparse.Namespace) -> Found:
    """Measure the price of requests to S3: a fixed sum, and a price per call, computed from two runs of different size."""
    found = Found()
    with provider_of(asked.latency) as provider, bucket(asked) as (new_store, proxy):
        for executor in asked.executor or ("inline", "ray"):
            costs = []
            for items in (asked.items, 3 * asked.items):
                with job(provider, new_store(), limits={"concurrency": asked.in_flight}, items=items, then=6) as one:
                    proxy.requests.clear()
                    code = one.finish("--executor", executor)
                    seen = [(seen.method, "list-type" in seen.query) for seen in proxy.requests]
                written = sum(method == "PUT" for method, _ in seen)
                read = sum(method in READS and not lists for method, lists in seen)
                dear = sum(method in ("PUT", "POST") or lists for method, lists in seen)
                usd = dear * PUT_USD + read * GET_USD
                costs.append((one.calls, usd))
                per = {"puts_a_call": written / one.calls, "puts_a_cell": written / items}
                found.add(
                    executor=executor, calls=one.calls, puts=written, lists=dear - written, gets=read, **per, usd=usd, exit=code
                )
            (few, few_usd), (many, many_usd) = costs
            a_call = (many_usd - few_usd) / (many - few)
            million = max(0.0, few_usd - few * a_call) + 1e6 * a_call
            found.add(executor=executor, calls=1_000_000, usd=million)
            found.law("the requests of a million calls cost at most $3", million <= 3)
    return found


def far(asked: argparse.Namespace) -> Found:
    """Measure calls per second, by the provider's times, from the first call to the last."""
    found = Found()
    for latency in asked.latency or (1.0, 0.05):
        with provider_of(latency) as provider, bucket(asked) as (new_store, _):
            for executor in asked.executor or ("inline", "ray"):
                for trial in range(1, asked.trials + 1):
                    row: Row = {}
                    for place in ("disk", "s3"):
                        items = round(asked.seconds * min(500.0, asked.in_flight / latency))
                        store = new_store() if place == "s3" else None
                        with job(provider, store, limits={"concurrency": asked.in_flight}, items=items) as one:
                            code = one.finish("--executor", executor)
                            times = sorted(call["time"] for call in one.requests())
                        row |= {place: len(times) / (times[-1] - times[0]), f"{place}_exit": code}
                    share, least = row["s3"] / row["disk"], 0.85 if latency >= 1 else 0.7
                    found.add(executor=executor, call_s=latency, trial=trial, calls=items, **row, share=share)
                    found.law(f"{executor}, calls of {latency:g} s: >= {least} of the disk's speed", share >= least)
    return found


def restart(asked: argparse.Namespace) -> Found:
    """Measure the seconds from the command to the first call of a resumed run, and to the end of a finished one."""
    found, an_item = Found(), 100
    whole = asked.answers // an_item
    sizes: Row = {"items": whole + asked.trials, "first": 0, "then": an_item}
    limits = {"concurrency": 256}
    with provider_of(0.0) as provider, bucket(asked) as (new_store, _), job(provider, new_store(), limits=limits, **sizes) as one:

        def run(what: str, *more: str) -> float:
            """Return the seconds to the first call, or to the end of a run without calls."""
            provider.reset()
            began = time.time()
            code = one.finish(*more)
            seconds = min((call["time"] for call in one.requests()), default=time.time()) - began
            found.add(what=what, first_call_s=seconds, calls=one.tally()["served"], whole_s=time.time() - began, exit=code)
            return seconds

        run("begins", "--executor", "inline", "--limit", str(whole))
        for trial in range(1, asked.trials + 1):
            # Each run has one more item than the one before.
            seconds = run("goes on", "--executor", asked.executor, "--limit", str(whole + trial))
            found.law("a resumed run makes its first call within 5 s", seconds <= 5)
        seconds = run("is done", "--executor", asked.executor)
        found.law("a finished run takes at most 5 s, without a call", seconds <= 5 and not one.requests())
        began = time.time()
        one.status()
        found.add(what="status", whole_s=time.time() - began)
    return found


def outage(asked: argparse.Namespace) -> Found:
    """Make S3 unreachable for a while, and measure the run."""
    found = Found()
    with provider_of(asked.latency) as provider, bucket() as (new_store, proxy):
        for executor in asked.executor or ("inline", "ray"):
            items = round(asked.seconds * asked.in_flight / asked.latency)
            with job(provider, new_store(), limits={"concurrency": asked.in_flight}, items=items) as one:
                process = one.start("--executor", executor)
                struck = one.wait_served(process, 0.4 * one.calls)
                with proxy.during(Fault("drop")):
                    began = time.time()
                    time.sleep(asked.out if struck else 0)
                code = process.wait(PATIENCE_S)
                said = one.stderr_text()
                row = one.totals()
                meanwhile = sum(began <= call["time"] < began + asked.out for call in one.requests())
            if code:
                print(said[-1500:], file=sys.stderr)
            found.add(executor=executor, **row, calls_meanwhile=meanwhile, exit=code)
            found.law("the run ends with 0, all cells done", code == 0 and is_done(row) and struck)
            found.law("nothing is paid twice", row["twice"] == 0)
            n = 2 * asked.in_flight
            found.law(f"at most {n} calls are sent that the store cannot take", meanwhile <= n)
            found.law("books = bill", abs(row["books"] - row["bill"]) < 1e-6)
    return found


def _add_delays(one: argparse.ArgumentParser) -> None:
    one.add_argument("--put-ms", type=float, default=40.0, help="additional seconds of a write to S3")
    one.add_argument("--get-ms", type=float, default=15.0, help="and to read")


def commands() -> Commands:
    """The subcommands, with their sizes."""
    made = Commands(__doc__)
    one = made.add("puts", puts)
    add_executors(one)
    _add_delays(one)
    one.add_argument("--items", type=int, default=150, help="cells, of seven calls each; a second run has three times as many")
    one = made.add("far", far, latency=False)
    add_executors(one)
    _add_delays(one)
    one.add_argument("--latency", type=float, action="append", help="mean seconds of a call; default 1 and 0.05")
    one.add_argument("--seconds", type=float, default=20.0, help="approximate seconds of a run at full speed")
    one.add_argument("--trials", type=int, default=1)
    one = made.add("restart", restart)
    _add_delays(one)
    one.add_argument("--executor", choices=("inline", "ray"), default="inline")
    one.add_argument("--answers", type=int, default=100_000, help="number of answers on S3 when the run resumes")
    one.add_argument("--trials", type=int, default=2)
    one = made.add("outage", outage)
    add_executors(one)
    one.add_argument("--seconds", type=float, default=30.0, help="seconds of the run, without the outage")
    one.add_argument("--out", type=float, default=60.0, help="seconds without S3")
    return made


if __name__ == "__main__":
    sys.exit(commands().run())
