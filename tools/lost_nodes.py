"""Measures the laws of money and answers from outside: by the command line, the simulated provider's books, and a proxy in front
of S3.

    python tools/lost_nodes.py nodes   # of three Ray nodes over S3 one is killed and its folders deleted, 10 times
    python tools/lost_nodes.py cluster # the whole cluster, driver too, 3 times; the job is submitted again
    python tools/lost_nodes.py driver  # the driver alone, 3 times; the same command goes on
    python tools/lost_nodes.py kills   # everything is killed 0, 1 and 5 times; how much of a budget can be used
    python tools/lost_nodes.py puts    # requests to S3 a call and a cell, and their price for a million calls
    python tools/lost_nodes.py far     # the speed over a slow S3 against the disk's, at calls of 1 s and of 50 ms
    python tools/lost_nodes.py restart # seconds to the first call, with 100,000 answers on S3
    python tools/lost_nodes.py frozen  # a worker is stopped for 75 s; and the slots used at the end of a run
    python tools/lost_nodes.py outage  # S3 is out of reach for 60 s
    python tools/lost_nodes.py told    # what `status` tells of calls, dollars and time left, against what comes

Each prints a table, then one line per law: `held` or `BROKEN`; the exit code is 1 if one is broken. Nothing of the package is
imported, so the same commands measure any version of it. Money is in dollars. `--help` after a subcommand shows its sizes. Short
forms, of about a minute each on an idle machine:

    nodes --trials 1 --items 60 · cluster --trials 1 --items 60 · driver --trials 1
    kills --kills 1 --executor inline --worst-cases 300
    puts --executor inline --items 60 · far --seconds 5 --latency 1 · restart --answers 5000
    frozen --seconds 12 --freeze 15 · outage --seconds 15 --out 12 · told --what asking

`bill` is the provider's; `books` is the sum of spent, reserved and uncertain in `status --json`. `served` counts calls that the
provider billed, `twice` those for a prompt that it had billed before. Rows are printed on stderr as JSON during the measurement.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
for folder in ("simulator", "engine", "store"):
    sys.path.insert(0, str(ROOT / "tests" / folder))
import psutil
from asking_runs import PATIENCE_S, Job, Row, is_done, job, kill_all
from fault_proxy import Fault, FaultProxy
from runs import descendants
from s3_servers import environment, serving
from simulated_provider import Simulated, simulated_provider

TAIL_S = 12.0
PUT_USD, GET_USD = 0.005e-3, 0.0004e-3
"""S3's list prices of a request: PUT, POST and LIST; GET and HEAD."""
READS = ("GET", "HEAD")


@dataclass
class Found:
    """The measurements of a subcommand, and which laws held."""

    rows: list[Row] = field(default_factory=list)
    laws: dict[str, bool] = field(default_factory=dict)

    def add(self, **row: Any) -> None:
        """Add a row of the table, and print it at once: the next one may take minutes."""
        self.rows.append(row)
        print(json.dumps(row), file=sys.stderr, flush=True)

    def law(self, name: str, held: bool) -> None:
        """Record whether a law held; once broken, it stays broken."""
        self.laws[name] = self.laws.get(name, True) and held

    def tell(self) -> int:
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
    """A provider whose latency varies by half, without discounts."""
    spread = ("--latency-spread", "0.5") if latency_s else ()
    with simulated_provider("--answers", "short", "--cache-lifetime", "0", "--latency", str(latency_s), *spread) as provider:
        yield provider


@contextlib.contextmanager
def bucket(delays: argparse.Namespace | None = None) -> Iterator[tuple[Callable[[], str], FaultProxy]]:
    """A function that gives a new store on an S3 server, behind a proxy that counts requests and may delay them."""
    with serving("moto") as server, FaultProxy(server.url) as proxy:
        if delays is not None:
            for method in ("GET", "HEAD", "PUT", "POST", "DELETE"):
                ms = delays.get_ms if method in READS else delays.put_ms
                proxy.add(Fault("delay", method=method, seconds=ms / 1000))
        yield lambda: server.uri(server.bucket(), url=proxy.url), proxy


class Nodes:
    """Real Ray nodes, each with its own folders for everything on its disk; the first is the head."""

    def __init__(self, n: int, variables: Mapping[str, str]) -> None:
        from ray.cluster_utils import Cluster

        self._variables = variables
        self._folders: dict[Any, Path] = {}
        self._cluster = Cluster()
        for _ in range(n):
            self.add()
        self._cluster.wait_for_nodes()
        self.address: str = self._cluster.address

    def add(self) -> None:
        """Add a node."""
        folder = Path(tempfile.mkdtemp(prefix="node-"))
        options = {} if self._folders else {"include_dashboard": False}
        for left in (2, 1, 0):
            try:
                node = self._cluster.add_node(num_cpus=1, env_vars={**self._variables, **own_folders(folder)}, **options)
                break
            # Ray gives a node 30 s to start, which a busy machine exceeds, and raises a bare Exception.
            except Exception:
                if not left:
                    raise
        self._folders[node] = folder

    def head_folders(self) -> dict[str, str]:
        """The environment variables of processes on the head."""
        return own_folders(next(iter(self._folders.values())))

    def lose(self, *nodes: Any) -> None:
        """Kill all processes of these nodes, and delete their folders."""
        kill_all([started.process.pid for node in nodes for listed in node.all_processes.values() for started in listed])
        for node in nodes:
            shutil.rmtree(self._folders.pop(node), ignore_errors=True)
            with contextlib.suppress(Exception):
                self._cluster.remove_node(node, allow_graceful=False)

    def lose_one(self) -> None:
        """Lose a node other than the head."""
        self.lose(list(self._folders)[-1])

    def lose_all(self) -> None:
        """Lose every node, the head last."""
        self.lose(*reversed(list(self._folders)))


def own_folders(folder: Path) -> dict[str, str]:
    """The folders of a node's disk, as environment variables."""
    names = ("HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "SUMMHAY_SPOOL")
    return {name: str(folder) for name in names}


@contextlib.contextmanager
def nodes_of(n: int, one: Job) -> Iterator[Nodes]:
    """A context with nodes for a job."""
    nodes = Nodes(n, one.variables)
    try:
        yield nodes
    finally:
        nodes.lose_all()


def undisturbed_usd(**fields: Any) -> float:
    """The budget that an undisturbed run needs: its bill, and room for the worst case of its last call."""
    with provider_of(0.0) as provider, job(provider, **fields) as quiet:
        if code := quiet.finish("--executor", "inline"):
            raise RuntimeError(f"the undisturbed run ended with {code}")
        return quiet.bill() + quiet.worst_usd


def lose_nodes(asked: argparse.Namespace, everything: bool) -> Found:
    """Kill a node, or the whole cluster with the driver, in the middle; delete its folders, and restart the run."""
    found = Found()
    fields = {"items": asked.items, "first": 1, "then": 6, "workers": asked.nodes}
    need = undisturbed_usd(**fields)
    for trial in range(1, asked.trials + 1):
        with contextlib.ExitStack() as stack:
            provider = stack.enter_context(provider_of(asked.latency))
            new_store, _ = stack.enter_context(bucket())
            one = stack.enter_context(job(provider, new_store(), limits={"concurrency": asked.in_flight}, **fields))
            codes, in_flight = _lose_and_go_on(one, asked, everything, need)
            row = one.totals()
        risk = at_risk(asked, everything)
        doubt = risk * one.worst_usd
        found.add(trial=trial, **row, in_flight=in_flight, doubt_at_most=doubt, budget=need + doubt, exits=" ".join(codes))
        n = asked.in_flight
        found.law("calls were in flight when it happened, else nothing was measured", in_flight > 0)
        found.law(f"books - bill <= the worst case of {n} calls", row["books"] - row["bill"] <= n * one.worst_usd + 1e-6)
        found.law("bill <= books <= budget", row["bill"] <= row["books"] + 1e-6 and row["books"] <= need + doubt + 1e-6)
        found.law(f"all cells done within an undisturbed run's budget plus {risk} worst cases", is_done(row))
        found.law(f"calls sent - distinct keys <= {2 * n}", row["twice"] <= 2 * n)
        found.law("exit 0 only where all cells are done", is_done(row) or codes[-1] != "0")
    return found


def driver(asked: argparse.Namespace) -> Found:
    """Kill the driver in the middle and restart it, while its nodes stay; then release the uncertain money."""
    found = Found()
    fields = {"items": asked.items, "first": 1, "then": 6, "workers": asked.nodes}
    need = undisturbed_usd(**fields)
    budget = asked.budget * need
    for trial in range(1, asked.trials + 1):
        with contextlib.ExitStack() as stack:
            provider = stack.enter_context(provider_of(asked.latency))
            new_store, _ = stack.enter_context(bucket())
            one = stack.enter_context(job(provider, new_store(), limits={"concurrency": asked.in_flight}, **fields))
            nodes = stack.enter_context(nodes_of(asked.nodes, one))
            again = (sys.executable, str(ROOT / "jobs" / "run.py"))
            where = {"RAY_ADDRESS": nodes.address, **nodes.head_folders()}
            start = functools.partial(one.start, "--budget", str(budget), command=again, **where)
            process = start()
            one.wait_served(process, asked.at * one.calls)
            in_flight = one.tally()["in_flight"]
            kill_all([process.pid])
            codes = _until_done(one, start)
            row = one.totals()
            code = one.finish("--executor", "inline", "--release-uncertain", "0s")
            released = one.status()["usd"]
        found.add(trial=trial, **row, in_flight=in_flight, budget=budget, exits=" ".join(codes), worst=one.worst_usd)
        # The provider bills a call twice if it had been sent and its answer was not durable when the driver died.
        most = max(in_flight, row["twice"]) * one.worst_usd + 0.02 * budget
        found.law("calls were in flight when it happened, else nothing was measured", in_flight > 0)
        found.law("all cells done within the budget, with exit 0", is_done(row) and codes[-1] == "0")
        found.law("uncertain <= the worst case of calls sent and not durable, and 2 % of the budget", row["uncertain"] <= most)
        found.law("spent <= bill <= books <= budget", row["spent"] - 1e-6 <= row["bill"] <= row["books"] + 1e-6 <= budget + 2e-6)
        found.law(f"calls sent - distinct keys <= {2 * asked.in_flight}", row["twice"] <= 2 * asked.in_flight)
        found.law("--release-uncertain leaves nothing uncertain", code == 0 and released["uncertain"] == 0)
    return found


def at_risk(asked: argparse.Namespace, everything: bool) -> int:
    """The maximum number of calls that are sent and not durable: for a node, the calls in flight; for all nodes, twice as
    many."""
    return asked.in_flight * (2 if everything else 1)


def _lose_and_go_on(one: Job, asked: argparse.Namespace, everything: bool, need: float) -> tuple[list[str], int]:
    """Kill in the middle, and restart until the run is done or ends twice alike. Returns the exit codes, and the calls in
    flight."""
    budget = ("--budget", str(need + at_risk(asked, everything) * one.worst_usd))
    # A Ray job runs with `--address auto`, which finds the cluster by its environment.
    again = (sys.executable, str(ROOT / "jobs" / "run.py"))
    more = (*budget, "--settle") if everything else budget

    def start(nodes: Nodes) -> subprocess.Popen[bytes]:
        return one.start(*more, command=again, RAY_ADDRESS=nodes.address, **nodes.head_folders())

    with nodes_of(asked.nodes, one) as nodes:
        driver = start(nodes)
        struck = one.wait_served(driver, asked.at * one.calls)
        in_flight = one.tally()["in_flight"]
        if struck and everything:
            kill_all([driver.pid])
            nodes.lose_all()
            codes = ["killed"]
        else:
            nodes.lose_one()
            codes = [str(driver.wait(PATIENCE_S))]
            if codes != ["0"] and not everything:
                nodes.add()
                codes += _until_done(one, lambda: start(nodes))
    if everything:
        with nodes_of(asked.nodes, one) as fresh:
            codes += _until_done(one, lambda: start(fresh))
    return codes, in_flight


def _until_done(one: Job, start: Callable[[], subprocess.Popen[bytes]]) -> list[str]:
    codes: list[str] = []
    while len(codes) < 4 and (not codes or (codes[-1] != "0" and codes[-1:] != codes[-2:-1])):
        codes.append(str(start().wait(PATIENCE_S)))
    if codes[-1] != "0":
        print(one.stderr_text()[-1500:], file=sys.stderr)
    return codes


def kills(asked: argparse.Namespace) -> Found:
    """Measure how much of a budget can be used."""
    found = Found()
    with provider_of(asked.latency) as provider:
        for executor in asked.executor or ("inline", "ray"):
            for times in asked.kills or (0, 1, 5):
                with job(provider, limits={"concurrency": asked.in_flight}, items=3 * asked.worst_cases) as one:
                    row = _killed_near_a_budget(one, executor, times, asked.worst_cases)
                found.add(executor=executor, kills_meant=times, **row)
                found.law("bill <= books <= budget", row["bill"] <= row["books"] + 1e-6 and row["books"] <= row["budget"] + 1e-6)
                n = 2 * asked.in_flight
                found.law(f"calls sent - distinct keys <= {n} a kill", row["twice"] <= n * row["kills"])
                if times in (0, 5):
                    least = 0.98 if times == 0 else 0.85
                    found.law(f"{times} kills: >= {least:.0%} of the budget can be used", row["used"] >= least)
    return found


def _killed_near_a_budget(one: Job, executor: str, times: int, worst_cases: int) -> Row:
    budget = worst_cases * one.worst_usd
    more = ("--budget", str(budget), "--executor", executor)
    struck, process = 0, one.start(*more)
    for kill in range(1, times + 1):
        at = 0.8 * kill / times * budget
        if not one.wait(process, lambda at=at: one.bill() >= at):  # type: ignore[misc]
            break
        kill_all([process.pid])
        struck += 1
        process = one.start(*more)
    code = process.wait(PATIENCE_S)
    row = one.totals()
    return {"kills": struck, **row, "budget": budget, "used": row["bill"] / budget, "exit": code}


def puts(asked: argparse.Namespace) -> Found:
    """The price of requests to S3: a fixed sum, and a price per call from the difference of two runs of different size."""
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
    """Calls per second, by the provider's times, from the first call to the last."""
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
    """Seconds from the command to the first call of a resumed run, and to the end of a finished one."""
    found, an_item = Found(), 100
    whole = asked.answers // an_item
    sizes: Row = {"items": whole + asked.trials, "first": 0, "then": an_item}
    limits = {"concurrency": 256}
    with provider_of(0.0) as provider, bucket(asked) as (new_store, _), job(provider, new_store(), limits=limits, **sizes) as one:

        def run(what: str, *more: str) -> float:
            """Seconds to the first call, or to the end of a run without calls."""
            provider.reset()
            began = time.time()
            code = one.finish(*more)
            seconds = min((call["time"] for call in one.requests()), default=time.time()) - began
            found.add(what=what, first_call_s=seconds, calls=one.tally()["served"], whole_s=time.time() - began, exit=code)
            return seconds

        run("begins", "--executor", "inline", "--limit", str(whole))
        for trial in range(1, asked.trials + 1):
            # Each run has one more item.
            seconds = run("goes on", "--executor", asked.executor, "--limit", str(whole + trial))
            found.law("a run that goes on makes its first call within 5 s", seconds <= 5)
        seconds = run("is done", "--executor", asked.executor)
        found.law("a run that is done takes at most 5 s, without a call", seconds <= 5 and not one.requests())
        began = time.time()
        one.status()
        found.add(what="status", whole_s=time.time() - began)
    return found


def calls_in_progress(calls: Sequence[Row], moment: float) -> int:
    """The number of calls in progress at the provider at this time."""
    return sum(call["time"] <= moment < (call["done"] or float("inf")) for call in calls)


def callers(driver: int, provider: Simulated) -> list[int]:
    """The descendants of a driver with a connection to the provider."""
    port, found = int(provider.root.rpartition(":")[2]), []
    for pid, _ in descendants(driver):
        with contextlib.suppress(psutil.Error):
            if any(one.raddr and one.raddr.port == port for one in psutil.Process(pid).net_connections(kind="tcp")):
                found.append(pid)
    return found


def freeze(asked: argparse.Namespace) -> Found:
    """Stop a worker for a while, on Ray and on disk; before that, the end of an undisturbed run."""
    found, n = Found(), asked.in_flight
    limits = {"concurrency": n}
    with provider_of(asked.latency) as provider:
        a_second = n / asked.latency
        for then in (0, 6):
            items = round(a_second * asked.seconds / (1 + then))
            with job(provider, limits=limits, workers=asked.workers, items=items, then=then) as one:
                code = one.finish("--executor", "ray")
                calls, row = one.requests(), one.totals()
            last = max(call["time"] for call in calls)
            used = [calls_in_progress(calls, last - back / 4) for back in range(1, int(4 * min(TAIL_S, asked.seconds / 2)))]
            mean = sum(used) / len(used)
            found.add(what=f"the end, cells of {1 + then}", **row, slots_mean=mean, slots_least=min(used), exit=code)
            found.law(
                f"the last {len(used) / 4:.0f} s of a run, cells of {1 + then} calls: >= 90 % of {n} slots", mean >= 0.9 * n
            )
        items = round(a_second * (asked.freeze + 2 * asked.seconds))
        with job(provider, limits=limits, workers=asked.workers, items=items) as one:
            process = one.start("--executor", "ray")
            one.wait_served(process, a_second * asked.seconds / 2)
            worker = psutil.Process(callers(process.pid, provider)[0])
            worker.suspend()
            stopped = time.time()
            one.wait(process, lambda: time.time() >= stopped + asked.freeze)
            going = process.poll() is None
            with contextlib.suppress(psutil.NoSuchProcess):
                worker.resume()
            thawed = time.time()
            code = process.wait(PATIENCE_S)
            calls, row = one.requests(), one.totals()
        known = {call["prompt"] for call in calls if call["time"] < thawed}
        stale = sum(call["time"] >= thawed and call["prompt"] in known for call in calls)
        # Just after the stop, the worker's calls are still on the wire. Its share is returned when half of it is used over a
        # second.
        share_back = n - n / asked.workers / 2
        moments = [stopped + 2 * asked.latency + step / 2 for step in range(int(2 * asked.freeze))]
        means = ((at - stopped, sum(calls_in_progress(calls, at + more / 8) for more in range(8)) / 8) for at in moments)
        back = next((after for after, mean in means if mean >= share_back), asked.freeze)
        found.add(what=f"frozen {asked.freeze:g} s", **row, back_s=back, paid_after_thaw=stale, exit=code)
        found.law(f"a frozen worker's share is used again within {asked.within:g} s", back <= asked.within)
        found.law("the run outlives the freeze, else nothing was measured", going)
        found.law("after the thaw nothing is paid for that was paid before", stale == 0)
        found.law("all cells are done", is_done(row) and code == 0)
        found.law("calls sent - distinct keys <= the calls at once", row["twice"] <= n)
        doubt = n * one.worst_usd
        found.law("bill <= books, and books - bill <= their worst case", 0 <= row["books"] - row["bill"] + 1e-6 <= doubt + 1e-5)
    return found


def outage(asked: argparse.Namespace) -> Found:
    """Make S3 unreachable for a while."""
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


def remaining_work(asked: argparse.Namespace) -> Found:
    """The remaining work after a fifth: as reported by `status`, and as measured at the end."""
    grid = {
        "haystacks": ["sample/news", "sample/conversation"],
        "retrievers": ["random", "bm25", "oracle", "full"],
        "token_budget": 1500,
    }
    shapes: dict[str, Row] = {
        "asking": {"items": 240, "distinct": 19},
        # Repeats of a free summarizer are one summary, which a plan does not know before they are made.
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
                    what=what, planned=planned, distinct=distinct, left=name, told=said, real=float(real), ratio=ratio, exit=code
                )
                if "line" not in name:
                    found.law(f"{what}: {name} left are within a factor of 1.5", 1 / 1.5 <= ratio <= 1.5)
    return found


def parser() -> argparse.ArgumentParser:
    """The parser of all subcommands, with their sizes."""
    top = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    added = top.add_subparsers(dest="law", required=True)

    def command(name: str, does: Callable[[argparse.Namespace], Found], in_flight: int = 64) -> argparse.ArgumentParser:
        one = added.add_parser(
            name, description=does.__doc__ or lose_nodes.__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
        )
        one.set_defaults(does=does)
        one.add_argument("--in-flight", type=int, default=in_flight, help="the model's limit of calls at once")
        if name != "far":
            one.add_argument("--latency", type=float, default=1.0, help="mean seconds of a call, spread by half")
        return one

    def executors(one: argparse.ArgumentParser) -> None:
        one.add_argument("--executor", choices=("inline", "ray"), action="append", help="both if left out")

    def delays(one: argparse.ArgumentParser) -> None:
        one.add_argument("--put-ms", type=float, default=40.0, help="S3 takes so much longer to write")
        one.add_argument("--get-ms", type=float, default=15.0, help="and to read")

    for name, trials, everything in (("nodes", 10, False), ("cluster", 3, True)):
        one = command(name, lambda asked, everything=everything: lose_nodes(asked, everything))  # type: ignore[misc]
        one.add_argument("--trials", type=int, default=trials)
        one.add_argument("--items", type=int, default=150, help="cells, of seven calls each")
        one.add_argument("--nodes", type=int, default=3, help="Ray nodes, the head among them")
        one.add_argument("--at", type=float, default=0.45, help="the share of the calls after which it happens")
    one = command("driver", driver)
    one.add_argument("--trials", type=int, default=3)
    one.add_argument("--items", type=int, default=110, help="cells, of seven calls each")
    one.add_argument("--nodes", type=int, default=3, help="Ray nodes, the head among them")
    one.add_argument("--at", type=float, default=0.4, help="the share of the calls after which it happens")
    one.add_argument("--budget", type=float, default=1.8, help="in bills of an undisturbed run")
    one = command("kills", kills, 48)
    executors(one)
    one.add_argument("--kills", type=int, action="append", help="of everything; 0, 1 and 5 if left out")
    one.add_argument("--worst-cases", type=int, default=1000, help="the budget, in worst cases of a call")
    one = command("puts", puts)
    executors(one)
    delays(one)
    one.add_argument("--items", type=int, default=150, help="cells of seven calls each; a second run has three times as many")
    one = command("far", far)
    executors(one)
    delays(one)
    one.add_argument("--latency", type=float, action="append", help="mean seconds of a call; 1 and 0.05 if left out")
    one.add_argument("--seconds", type=float, default=20.0, help="about so long is a run, at full speed")
    one.add_argument("--trials", type=int, default=1)
    one = command("restart", restart)
    delays(one)
    one.add_argument("--executor", choices=("inline", "ray"), default="inline")
    one.add_argument("--answers", type=int, default=100_000, help="on S3, when the run goes on")
    one.add_argument("--trials", type=int, default=2)
    one = command("frozen", freeze)
    one.add_argument("--workers", type=int, default=4)
    one.add_argument("--freeze", type=float, default=75.0, help="seconds from SIGSTOP to SIGCONT")
    one.add_argument("--seconds", type=float, default=30.0, help="of the undisturbed run, and around the freeze")
    one.add_argument("--within", type=float, default=10.0, help="seconds until the frozen worker's share is used again")
    one = command("outage", outage)
    executors(one)
    one.add_argument("--seconds", type=float, default=30.0, help="of the run, without the outage")
    one.add_argument("--out", type=float, default=60.0, help="seconds without S3")
    one = command("told", remaining_work)
    one.add_argument("--executor", choices=("inline", "ray"), default="inline")
    one.add_argument("--what", choices=("asking", "grid"), action="append", help="both if left out")
    return top


def main() -> int:
    asked = parser().parse_args()
    quiet = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0", "OMP_NUM_THREADS": "1"}
    os.environ.update({**environment(), **quiet})
    began = time.monotonic()
    code = int(asked.does(asked).tell())
    print(f"{asked.law}: {time.monotonic() - began:.0f} s")
    return code


if __name__ == "__main__":
    sys.exit(main())
