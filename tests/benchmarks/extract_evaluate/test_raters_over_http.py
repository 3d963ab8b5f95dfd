"""Raters whose provider gives no log probabilities, or fewer answers than were asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import summhay_ray

pytestmark = pytest.mark.core


class Provider(BaseHTTPRequestHandler):
    """Rejects requests for log probabilities, and loses two of four answers: one does not come, one cannot be read."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(asked)  # type: ignore[attr-defined]
        status, refused = self.server.refusals[asked["model"]] if "logprobs" in asked else (200, "")  # type: ignore[attr-defined]
        texts = ["4", "5 - Mostly faithful", "No idea."][: asked.get("n", 1)]
        choices = [
            {"index": n, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
            for n, text in enumerate(texts)
        ]
        answer = {"id": "1", "object": "chat.completion", "created": 0, "model": asked["model"], "choices": choices}
        answer["usage"] = {"prompt_tokens": 100, "completion_tokens": 3, "total_tokens": 103}
        body = json.dumps({"error": {"message": refused, "type": "invalid_request_error"}} if refused else answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def provider() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    server.asked = []  # type: ignore[attr-defined]
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.usefixtures("litellm")
def test_rejected_log_probabilities_fall_back_to_samples_and_lost_samples_are_told(
    tmp_path: Path, provider: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATER_KEY", "sk-rater")
    provider.refusals = {  # type: ignore[attr-defined]
        "plain": (400, "Unknown parameter: 'logprobs'."),
        "other": (400, "Unknown parameter: 'logprobs'."),
        "strict": (403, "You are not allowed to request logprobs from this model."),
    }
    reach = {
        "api_base": f"http://127.0.0.1:{provider.server_port}/v1",
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
    rated = summhay_ray.table(found.run, "extract_ratings", str(tmp_path)).select("rater", "rating", "how", "votes", "n_asked")
    assert sorted(set(rated["rater"])) == ["openai/other", "openai/plain", "openai/strict"]
    assert {(row[1:3], tuple(row[3]), row[4]) for row in rated.rows()} == {((4.5, "samples"), (4.0, 5.0), 4)}
    told = found.scores["correlations"].select("rater", "n", "samples", "samples_expected").rows()
    assert sorted(told) == [(name, 2, 4, 8) for name in ("openai/other", "openai/plain", "openai/strict")]
    assert len(provider.asked) == 2 * 6, "each rating with log probabilities, then without"  # type: ignore[attr-defined]
    assert summhay_ray.run({**spec, "executor": "inline"}, store=str(tmp_path), limit=6).calls["made"] == 0
    [section] = [one for one in found.sections if one.title.endswith("openai/plain")]
    assert section.table is not None and {"samples", "samples_expected"} <= set(section.table.columns)
