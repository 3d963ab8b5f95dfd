"""What is left of a run while it goes on: the same by its progress, its status and its plan, near what then comes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from simulated_provider import KEY, simulated_provider

from summhay_ray import api
from summhay_ray.engine import Progress

PRICE = {"input_per_mtok": 2.5, "output_per_mtok": 10}


@pytest.mark.soak
def test_equal_questions_are_one_call_in_what_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOLD_KEY", KEY)
    store, seen = str(tmp_path), list[tuple[Progress, Any, Any]]()
    with simulated_provider("--latency", "0.5", "--latency-spread", "0.5", "--cache-lifetime", "0") as provider:
        reach = {"api_base": provider.base, "api_key_env": "TOLD_KEY", "price": PRICE, "max_tokens": 300}
        spec = {
            "haystacks": ["sample/news"],
            "retrievers": ["bm25", "oracle"],
            "token_budget": 1500,
            "repeats": 4,
            "summarizers": [{"model": "openai/writer", **reach}],
            "judges": [{"model": "openai/judge", **reach}],
            "limits": {"openai/writer": {"concurrency": 4}, "openai/judge": {"concurrency": 4}},
        }
        planned = api.plan(spec, store=store)

        def watch(progress: Progress) -> None:
            if progress.calls_left and progress.answered >= 12 and len(seen) < 3:
                left = api.status(planned.run, store=store).left
                seen.append((progress, left, api.plan(spec, store=store).to_json()["left"]))

        result = api.run(spec, store=store, watch=watch)
        billed = provider.stats()["served"]
    assert result.status == "done" and 2 * billed < planned.left["calls"], "the plan cannot know that the writer repeats itself"
    (first, _, _), (_, told, also) = seen[0], seen[-1]
    assert first.calls_left is not None and first.seconds_left is not None and first.usd_left is not None
    assert first.calls_left <= planned.left["calls"] - first.answered
    assert told is not None and told.keys() == {"cells", "calls", "usd", "seconds"} == also.keys()
    assert told["calls"] < first.calls_left
