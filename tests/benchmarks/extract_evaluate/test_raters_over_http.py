"""Raters whose provider gives no log probabilities, or fewer answers than requested."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fake_provider import Reply, completion
from local_http import Answer, Asked, serving

import summhay_ray

pytestmark = pytest.mark.core


REFUSALS = {
    "plain": (400, "Unknown parameter: 'logprobs'."),
    "other": (400, "Unknown parameter: 'logprobs'."),
    "strict": (403, "You are not allowed to request logprobs from this model."),
}
"""Model -> how it rejects requests for log probabilities."""
TEXTS = ["4", "5 - Mostly faithful", "No idea."]
"""Two of four answers are lost: one does not come, one cannot be read."""


@pytest.mark.usefixtures("litellm")
def test_rejected_log_probabilities_fall_back_to_samples_and_lost_samples_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATER_KEY", "sk-rater")
    asked: list[dict[str, Any]] = []

    def answer(request: Asked) -> Any:
        asked.append(fields := request.fields)
        if "logprobs" in fields:
            status, refused = REFUSALS[fields["model"]]
            return Answer(json.dumps({"error": {"message": refused, "type": "invalid_request_error"}}).encode(), status)
        choices = [
            {"index": n, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
            for n, text in enumerate(TEXTS[: fields.get("n", 1)])
        ]
        return {**completion(fields["model"], Reply()), "choices": choices}

    with serving(answer) as address:
        reach = {
            "api_base": f"{address}/v1",
            "api_key_env": "RATER_KEY",
            "price": {"input_per_mtok": 1, "output_per_mtok": 1},
        }
        rater = {**reach, "logprobs": 5, "samples": 4, "temperature": 1}
        transports = {"plain": "direct", "other": "litellm", "strict": "direct"}
        raters = [{**rater, "model": f"openai/{name}", "transport": transport} for name, transport in transports.items()]
        spec = {
            "kind": "extract_evaluate",
            "pairs": ["sample/pairs"],
            "methods": [],
            "full": ["whole"],
            "raters": raters,
            "resamples": 100,
        }
        found = summhay_ray.run({**spec, "executor": "inline"}, store=str(tmp_path), limit=6)
        assert found.cells["failed"] == 0 and found.stopped_models == {}
        rated = summhay_ray.table(found.run, "extract_ratings", str(tmp_path)).select(
            "rater", "rating", "how", "votes", "n_asked"
        )
        assert sorted(set(rated["rater"])) == ["openai/other", "openai/plain", "openai/strict"]
        assert {(row[1:3], tuple(row[3]), row[4]) for row in rated.rows()} == {((4.5, "samples"), (4.0, 5.0), 4)}
        told = found.scores["correlations"].select("rater", "n", "samples", "samples_expected").rows()
        assert sorted(told) == [(name, 2, 4, 8) for name in ("openai/other", "openai/plain", "openai/strict")]
        assert len(asked) == 2 * 6, "each rating with log probabilities, then without"
        assert summhay_ray.run({**spec, "executor": "inline"}, store=str(tmp_path), limit=6).calls["made"] == 0
        [section] = [one for one in found.sections if one.title.endswith("openai/plain")]
        assert section.table is not None and {"samples", "samples_expected"} <= set(section.table.columns)
