"""Retrieval is killed in the middle: no answer is paid twice, no stored result is computed twice, and the rankings are equal."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from odsum_collections import meetings
from runs import descendants, kill, start, summhay, wait_for_answers, write_spec
from simulated_provider import KEY, simulated_provider
from tiny_models import sentence_model

from summhay_ray import api

pytestmark = pytest.mark.timeout(900)

AT_ONCE = 4
KILLS_AT = (2, 7)
"""Records of the log."""
BUDGET = 5.0


def entries(base: str) -> list[Any]:
    reach = {"api_base": base, "api_key_env": "KILLS_KEY"}
    embed = {"embed": "openai/embedder", "price": {"input_per_mtok": 2.5}, **reach}
    rerank = {"rerank": "cohere/reranker", "top": 20, "price": {"per_search": 0.002}, **reach}
    return ["bm25", embed, {**rerank, "of": "bm25", "name": "reranked"}, {"fuse": ["bm25", embed], "name": "fused"}]


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["retrieval", "odsum"])
def test_services_that_are_killed_with_the_driver_are_paid_once(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two `kill -9` with a budget: the calls sent twice are at most those that may be in flight at a kill."""
    monkeypatch.setenv("KILLS_KEY", KEY)
    where = {"haystacks": ["sample/news", "sample/conversation"]}
    if kind == "odsum":
        meetings(tmp_path / "meetings")
        where = {"corpus": "meetings", "summarizers": ["offline/lead"]}  # type: ignore[dict-item]
    with simulated_provider("--latency", "0.5", "--latency-spread", "0.5") as provider:
        limits = {name: {"concurrency": AT_ONCE} for name in ("openai/embedder", "cohere/reranker")}
        fields = {"kind": kind, **where, "retrievers": entries(provider.base), "limits": limits, "budget_usd": BUDGET}
        spec, store = (
            write_spec(tmp_path, {**fields, "k": [1, 3], "token_budget": 1500, "executor": "inline"}),
            tmp_path / "store",
        )
        planned = summhay("plan", spec, "--store", store)
        for more in KILLS_AT:
            process = start(spec, store)
            assert wait_for_answers(process, store, more), process.communicate()
            kill(process)
        done, bill = summhay("run", spec, "--store", store), provider.stats()
        again = summhay("run", spec, "--store", store)
        calls = sum(stage["calls"] for stage in planned["stages"] if stage["stage"] in ("embed", "rerank"))
        bought = {name: bill[name] for name in ("served", "repeated", "micros")}
        print(f"{kind}: planned {calls} calls, {bought}, spent {done['usd']['spent']}, again {again['calls']['made']}")
        assert done["status"] == "done" and done["cells"]["failed"] == 0
        assert bill["repeated"] <= len(KILLS_AT) * 2 * AT_ONCE
        assert bill["served"] - bill["repeated"] == calls
        assert (again["calls"]["made"], provider.stats()["served"]) == (0, bill["served"])
        # Calls in flight at a kill are charged their worst case: never less than the bill, never more than the budget.
        assert bill["micros"] <= BUDGET * 1e6 and done["usd"]["spent"] <= BUDGET
        alone = summhay("run", spec, "--store", tmp_path / "undisturbed")
        assert done["retrieval"] == alone["retrieval"] and done["run"] == alone["run"]
    assert rankings(done["run"], store) == rankings(done["run"], tmp_path / "undisturbed")


@pytest.mark.soak
@pytest.mark.embed
@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("kind", ["retrieval", "odsum"])
@pytest.mark.parametrize("executor", ["inline", pytest.param("ray", marks=pytest.mark.ray)])
def test_an_actor_and_a_driver_that_are_killed_leave_equal_vectors_and_rankings(executor: str, kind: str, tmp_path: Path) -> None:
    """The driver is killed when some files are stored; on Ray, one of two actors before it. The rest is computed once."""
    where = {"haystacks": ["sample/news", "sample/conversation"]} if kind == "retrieval" else {"corpus": "many"}
    many(tmp_path / "many", 1500)
    fields = {"kind": kind, **where, "retrievers": [{"embed": str(sentence_model(tmp_path / "small")), "max_tokens": 60}]}
    resources = {"embed": {"actors": 2, "batch_size": 1}}
    spec, store = write_spec(tmp_path, {**fields, "k": [3], "resources": resources}), tmp_path / "store"
    process = start(spec, store, "--executor", executor)
    until(lambda: vectors(store), process)
    if executor == "ray":
        (actor, *_) = [pid for pid, title in descendants(process.pid) if "Computer" in title or "MapWorker" in title]
        os.kill(actor, signal.SIGKILL)
    n = len(vectors(store))
    until(lambda: len(vectors(store)) > n, process)
    tree = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    for one in psutil.wait_procs(tree, timeout=60)[1]:
        with contextlib.suppress(psutil.Error):
            one.kill()
    before = vectors(store)
    done = summhay("run", spec, "--store", store, "--executor", executor)
    assert done["status"] == "done"
    alone = summhay("run", spec, "--store", tmp_path / "undisturbed", "--executor", "inline")
    after, undisturbed = vectors(store), vectors(tmp_path / "undisturbed")
    print(f"{kind}: {len(before)} files kept at the kill of the driver, {len(after)} at the end, {len(undisturbed)} undisturbed")
    assert before.items() <= after.items()
    assert {sha for sha, _ in after.values()} == {sha for sha, _ in undisturbed.values()} and len(after) == len(undisturbed)
    assert done["run"] == alone["run"] and done["retrieval"] == alone["retrieval"]
    assert rankings(done["run"], store) == rankings(done["run"], tmp_path / "undisturbed")


@pytest.fixture
def one_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ray gives an actor one thread; with more threads, the last bits of a vector differ."""
    torch = pytest.importorskip("torch")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def many(folder: Path, n: int) -> None:
    """A user's own collection with n documents."""
    (folder / "documents").mkdir(parents=True)
    for number in range(n):
        text = " ".join(f"apples {number} pears {number * place} figs" for place in range(20))
        (folder / "documents" / f"d{number:04}.txt").write_text(text, encoding="utf-8")
    lines = (f'{{"query_id": "q{one}", "text": "of pears {one}", "gold": ["d{one:04}"]}}\n' for one in range(5))
    (folder / "queries.jsonl").write_text("".join(lines), encoding="utf-8")


def vectors(store: Path) -> dict[str, tuple[str, int]]:
    """File of vectors -> the hash of its content, and its time of writing."""
    found = store.glob("vectors/*/*.parquet")
    return {path.name: (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns) for path in found}


def rankings(run: str, store: Path) -> str:
    """A hash of all rows of the rankings."""
    frame = api.table(run, "ranked", str(store)).sort("corpus_id", "retriever", "query_id", "rank")
    return hashlib.sha256(frame.write_csv().encode()).hexdigest()


def until(there: Any, process: subprocess.Popen[bytes], patience_s: float = 300.0) -> None:
    end = time.monotonic() + patience_s
    while not there():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "nothing came in time"
        time.sleep(0.02)
