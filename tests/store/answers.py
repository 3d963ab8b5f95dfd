"""Answer records for tests."""

from __future__ import annotations

from typing import Any

PURPOSE = ("summarize", "openai/gpt-mine")


def answer(key: str, usd_micros: int = 0, run: str = "r", **more: Any) -> dict[str, Any]:
    """The record of an answer; `more` adds or replaces fields."""
    stage, model = PURPOSE
    tokens = {"input_tokens": 10, "cached_tokens": 0, "output_tokens": 2}
    head = {"kind": "answer", "key": key, "run": run, "stage": stage, "model": model, "usd_micros": usd_micros, **tokens}
    return {**head, "text": "", "finish_reason": "stop", "attempts": 1, **more}
