"""Measures the laws of money and answers when processes die or stall. It uses only the command line, the simulated provider's
books, and a proxy before S3. laws.py describes the output.

    python tools/lost_nodes.py nodes   # of three Ray nodes over S3 one is killed and its folders deleted, 10 times
    python tools/lost_nodes.py cluster # the whole cluster, driver too, 3 times; the job is submitted again
    python tools/lost_nodes.py driver  # the driver alone, 3 times; the same command goes on
    python tools/lost_nodes.py kills   # everything is killed 0, 1 and 5 times; how much of a budget can be used
    python tools/lost_nodes.py frozen  # a worker is stopped for 75 s; and the slots used at the end of a run

`--help` after a subcommand shows its sizes. Short forms, of about a minute each on an idle machine:

    nodes --trials 1 --items 60 · cluster --trials 1 --items 60 · driver --trials 1
    kills --kills 1 --executor inline --worst-cases 300 · frozen --seconds 12 --freeze 15
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
from asking_runs import PATIENCE_S, Job, Row, is_done, job, kill_all
from laws import Commands, Found, add_executors, bucket, provider_of
from runs import descendants
from simulated_provider import Simulated

ROOT = Path(__file__).resolve().parent.parent
TAIL_S = 12.0


class Nodes:
    """Real Ray nodes, each with its own folders for everything on its disk. The first node is the head."""

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
    """Return the folders of a node's disk, as environment variables."""
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
    """Return the budget that an undisturbed run needs: its bill, plus the worst case of its last call."""
    with provider_of(0.0) as provider, job(provider, **fields) as quiet:
        if code := quiet.finish("--executor", "inline"):
            raise RuntimeError(f"the undisturbed run ended with {code}")
        return quiet.bill() + quiet.worst_usd


def lose_nodes(asked: argparse.Namespace, everything: bool) -> Found:
    """Kill a node, or the whole cluster with the driver, in the middle of the run. Delete its folders, and restart the run."""
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
        found.law("calls were in flight when it happened (otherwise nothing was measured)", in_flight > 0)
        found.law(f"books - bill <= the worst case of {n} calls", row["books"] - row["bill"] <= n * one.worst_usd + 1e-6)
        found.law("bill <= books <= budget", row["bill"] <= row["books"] + 1e-6 and row["books"] <= need + doubt + 1e-6)
        found.law(f"all cells done within an undisturbed run's budget plus {risk} worst cases", is_done(row))
        found.law(f"calls sent - distinct keys <= {2 * n}", row["twice"] <= 2 * n)
        found.law("exit 0 only where all cells are done", is_done(row) or codes[-1] != "0")
    return found


def driver(asked: argparse.Namespace) -> Found:
    """Kill the driver in the middle of the run and restart it, while its nodes keep running. Then release the uncertain money."""
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
        # The provider bills a call twice if it was sent and its answer was not durable when the driver died.
        most = max(in_flight, row["twice"]) * one.worst_usd + 0.02 * budget
        found.law("calls were in flight when it happened (otherwise nothing was measured)", in_flight > 0)
        found.law("all cells done within the budget, with exit 0", is_done(row) and codes[-1] == "0")
        found.law("uncertain <= the worst case of calls sent and not durable, and 2 % of the budget", row["uncertain"] <= most)
        found.law("spent <= bill <= books <= budget", row["spent"] - 1e-6 <= row["bill"] <= row["books"] + 1e-6 <= budget + 2e-6)
        found.law(f"calls sent - distinct keys <= {2 * asked.in_flight}", row["twice"] <= 2 * asked.in_flight)
        found.law("--release-uncertain leaves nothing uncertain", code == 0 and released["uncertain"] == 0)
    return found


def at_risk(asked: argparse.Namespace, everything: bool) -> int:
    """Return the maximum number of calls that are sent and not durable. For one node, it is the number of calls in flight; for
    all nodes, it is twice this number."""
    return asked.in_flight * (2 if everything else 1)


def _lose_and_go_on(one: Job, asked: argparse.Namespace, everything: bool, need: float) -> tuple[list[str], int]:
    """Kill in the middle, and restart until the run is done or ends twice in the same way. Return the exit codes, and the calls
    in flight."""
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


def calls_in_progress(calls: Sequence[Row], moment: float) -> int:
    """Return the number of calls in progress at the provider at this time."""
    return sum(call["time"] <= moment < (call["done"] or float("inf")) for call in calls)


def callers(driver: int, provider: Simulated) -> list[int]:
    """Return the descendants of a driver with a connection to the provider."""
    port, found = int(provider.root.rpartition(":")[2]), []
    for pid, _ in descendants(driver):
        with contextlib.suppress(psutil.Error):
            if any(one.raddr and one.raddr.port == port for one in psutil.Process(pid).net_connections(kind="tcp")):
                found.append(pid)
    return found


def freeze(asked: argparse.Namespace) -> Found:
    """Stop a worker for a while, on Ray and on disk. Before that, measure the end of an undisturbed run."""
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
        # Just after the stop, the worker's calls are still in transit. Its share is returned when half of it is used over a
        # second.
        share_back = n - n / asked.workers / 2
        moments = [stopped + 2 * asked.latency + step / 2 for step in range(int(2 * asked.freeze))]
        means = ((at - stopped, sum(calls_in_progress(calls, at + more / 8) for more in range(8)) / 8) for at in moments)
        back = next((after for after, mean in means if mean >= share_back), asked.freeze)
        found.add(what=f"frozen {asked.freeze:g} s", **row, back_s=back, paid_after_thaw=stale, exit=code)
        found.law(f"a frozen worker's share is used again within {asked.within:g} s", back <= asked.within)
        found.law("the run outlives the freeze (otherwise nothing was measured)", going)
        found.law("after the thaw, nothing is paid for again", stale == 0)
        found.law("all cells are done", is_done(row) and code == 0)
        found.law("calls sent - distinct keys <= the calls at once", row["twice"] <= n)
        doubt = n * one.worst_usd
        found.law("bill <= books, and books - bill <= their worst case", 0 <= row["books"] - row["bill"] + 1e-6 <= doubt + 1e-5)
    return found


def commands() -> Commands:
    """The subcommands, with their sizes."""
    made = Commands(__doc__)
    for name, trials, everything in (("nodes", 10, False), ("cluster", 3, True)):
        one = made.add(name, lambda asked, everything=everything: lose_nodes(asked, everything))  # type: ignore[misc]
        one.description = lose_nodes.__doc__
        one.add_argument("--trials", type=int, default=trials)
        one.add_argument("--items", type=int, default=150, help="number of cells, each of seven calls")
        one.add_argument("--nodes", type=int, default=3, help="number of Ray nodes, including the head")
        one.add_argument("--at", type=float, default=0.45, help="the share of the calls after which it happens")
    one = made.add("driver", driver)
    one.add_argument("--trials", type=int, default=3)
    one.add_argument("--items", type=int, default=110, help="number of cells, each of seven calls")
    one.add_argument("--nodes", type=int, default=3, help="number of Ray nodes, including the head")
    one.add_argument("--at", type=float, default=0.4, help="the share of the calls after which it happens")
    one.add_argument("--budget", type=float, default=1.8, help="in bills of an undisturbed run")
    one = made.add("kills", kills, 48)
    add_executors(one)
    one.add_argument("--kills", type=int, action="append", help="number of kills of everything; default 0, 1 and 5")
    one.add_argument("--worst-cases", type=int, default=1000, help="the budget, in worst cases of a call")
    one = made.add("frozen", freeze)
    one.add_argument("--workers", type=int, default=4)
    one.add_argument("--freeze", type=float, default=75.0, help="seconds from SIGSTOP to SIGCONT")
    one.add_argument("--seconds", type=float, default=30.0, help="seconds of the undisturbed run, and of the frozen run")
    one.add_argument("--within", type=float, default=10.0, help="seconds until the frozen worker's share is used again")
    return made


if __name__ == "__main__":
    sys.exit(commands().run())
