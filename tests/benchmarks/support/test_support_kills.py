"""A support run with a panel of paid models is killed in the middle: no durable answer is requested again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from runs import at_most, kill, start, summhay, wait_for_answers, write_spec
from simulated_provider import KEY, in_thread

pytestmark = pytest.mark.core

DOCUMENTS = ("The ferry is late.", "The bridge is green.", "The school has a new roof.")
QUERIES, AT_ONCE = 8, 2
MODELS = ("openai/one", "openai/two")
N_CALLS = QUERIES * len(DOCUMENTS) * len(MODELS)
PRICE = {"input_per_mtok": 1, "output_per_mtok": 4}
BUDGET = 0.5


def say(model: str, prompt: str) -> str:
    """One model supports only the claim that the bridge is green; the other supports everything."""
    supported = model == "two" or "bridge is green" in prompt.partition("<document")[2].partition("</document>")[0]
    return json.dumps({"verdict": "supported" if supported else "not", "evidence": ""})


@pytest.mark.soak
def test_a_killed_panel_asks_nothing_durable_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUPPORT_KEY", KEY)
    (tmp_path / "documents").mkdir()
    for number, text in enumerate(DOCUMENTS):
        (tmp_path / "documents" / f"{number}.txt").write_text(text, encoding="utf-8")
    bullets = [f"The bridge of town {query} is green [1-{len(DOCUMENTS)}]." for query in range(QUERIES)]
    lines = [json.dumps({"query_id": str(query), "system": "a", "bullets": [text]}) for query, text in enumerate(bullets)]
    (tmp_path / "answers.jsonl").write_text("\n".join(lines), encoding="utf-8")
    store = tmp_path / "store"
    with in_thread(say, latency=0.2, input_price=PRICE["input_per_mtok"], output_price=PRICE["output_per_mtok"]) as provider:
        reach = {"api_base": provider.base, "api_key_env": "SUPPORT_KEY", "price": PRICE}
        spec = write_spec(
            tmp_path,
            {
                "kind": "support",
                "answers": "answers.jsonl",
                "documents": "documents",
                "judge": f"panel({','.join(MODELS)},offline)",
                "models": [{"model": model, **reach} for model in MODELS],
                "limits": {model: {"concurrency": AT_ONCE} for model in MODELS},
                "budget_usd": BUDGET,
                "executor": "inline",
            },
        )
        planned = summhay("plan", spec, "--store", store)
        assert sum(stage["calls"] for stage in planned["stages"]) == N_CALLS
        process = start(spec, store)
        assert wait_for_answers(process, store, N_CALLS // 3), process.communicate()
        kill(process)
        done = summhay("run", spec, "--store", store)
        bill = provider.stats()
        assert done["status"] == "done" and N_CALLS <= bill["served"] <= N_CALLS + AT_ONCE * len(MODELS)
        assert bill["micros"] <= 1e6 * at_most(done) <= 1e6 * BUDGET
        again = summhay("run", spec, "--store", store)
        assert (again["run"], again["calls"]["made"], provider.stats()["served"]) == (done["run"], 0, bill["served"])
    found = summhay("explain", done["run"], "3/a/1", "--store", store)["rows"]
    verdicts = {row["document_id"]: row["verdict"] for row in found["supports"] if row["cited"]}
    assert (verdicts["1.txt"], verdicts["0.txt"]) == ("supported", "not"), "what two of three say"
    assert len(found["support_votes"]) == 3 * len(DOCUMENTS) and {row["tied"] for row in found["support_votes"]} == {False}
