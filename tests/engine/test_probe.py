"""A missing endpoint costs the attempts of one call, and is reported; an existing one costs no additional call."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
from inline_runs import N_QUERIES, answered, rows
from simulated_provider import in_thread

from summhay_ray import api

pytestmark = pytest.mark.core


def fields(base: str) -> dict[str, Any]:
    price = {"input_per_mtok": 1.0, "output_per_mtok": 1.0}
    return {"summarizers": [{"model": "openai/writer", "api_base": base, "price": price}], "retrievers": ["bm25", "oracle"]}


def test_an_endpoint_that_does_not_answer_is_tried_by_one_call(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        origin = f"http://127.0.0.1:{taken.getsockname()[1]}"
        result, run = answered(tmp_path, **fields(f"{origin}/v1"))
    assert (result.status, result.cells["failed"], result.calls["failed"]) == ("partial", 2 * N_QUERIES, 1)
    failures = rows(run, "failures")
    assert sorted(row["attempts"] for row in failures) == [0] * (2 * N_QUERIES - 1) + [6]
    most = result.commonest_failure
    assert most is not None and (most["count"], most["stage"], most["error"]) == (2 * N_QUERIES, "summarize", "connection")
    assert most["message"].startswith(f"nobody answers at {origin} (") and "mend its api_base" in most["message"]
    assert result.stopped_models == {"openai/writer": f"connection: {most['message']}"}
    # Once the endpoint answers, the same spec continues.
    with in_thread() as provider:
        # The failures beyond the budget were not tried again, so they are reported as failures of the earlier start.
        stopped, _ = answered(tmp_path, 0.006, **fields(provider.base))
        told = stopped.commonest_failure
        assert (stopped.run, stopped.status, told and told["earlier"]) == (result.run, "budget", True)
        assert 0 < stopped.cells["done"] < 2 * N_QUERIES and api.status(result.run, str(tmp_path)).status == "budget"
        assert answered(tmp_path, **fields(provider.base))[0].status == "done"


def test_the_others_wait_for_the_first_and_no_call_is_made_for_it(tmp_path: Path) -> None:
    with in_thread(latency=0.2) as provider:
        result, _ = answered(tmp_path, **fields(provider.base))
        first, *others = sorted((call["time"], call["done"]) for call in provider.calls())
        assert all(begin >= first[1] for begin, _ in others)
        stats = provider.stats()
        assert result.status == "done" and (stats["served"], stats["repeated"]) == (len(others) + 1, 0)
        # Without open calls there is no probe.
        provider.reset()
        assert answered(tmp_path, **fields(provider.base))[0].calls["made"] == 0 == provider.stats()["served"]
