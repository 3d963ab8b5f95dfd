"""`--log-level` logs the work of workers and models on stderr, but never a prompt or a key."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import Said, write_spec
from simulated_provider import in_thread

pytestmark = pytest.mark.core

Cli = Callable[..., Said]
KEY, KEY_ENV = "sk-secret-of-the-log-0123456789", "LOG_TEST_KEY"
LINE = re.compile(r"^\d{4}-\d\d-\d\d [\d:,]{12} (INFO|WARNING|ERROR) (.*)$", re.MULTILINE)


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The package's logger belongs to the process."""
    monkeypatch.setenv(KEY_ENV, KEY)
    log = logging.getLogger("summhay_ray")
    handlers, level = list(log.handlers), log.level
    yield
    log.handlers[:] = handlers
    log.setLevel(level)


def run(cli: Cli, folder: Path, level: str, **faults: Any) -> tuple[Said, list[tuple[str, str]]]:
    """A run of four summaries: its output, and (level, text) of the log's lines."""
    folder.mkdir()
    with in_thread(lambda model, _: "- " + "words of an answer " * 3, **faults) as provider:
        model = {"model": "openai/writer", "api_base": provider.base, "api_key_env": KEY_ENV, "price": 0}
        spec = {"haystacks": ["sample/news"], "retrievers": ["bm25"], "token_budget": 1500, "summarizers": [model]}
        spec |= {"executor": "inline"}
        options = ["--log-level", level] if level else []
        said = cli("run", write_spec(folder, spec), "--store", folder / "store", "--json", *options)
    assert KEY not in said.err and "words of an answer" not in said.err and "tram" not in said.err
    return said, LINE.findall(said.err)


def test_what_is_tried_again_and_what_fails_is_logged_by_level(tmp_path: Path, cli: Cli) -> None:
    # Six attempts each; half of them end with an error of the server.
    said, lines = run(cli, tmp_path / "info", "info", errors=0.5, seed=3)
    assert said.code == 0 and lines
    assert all(
        level == "INFO" and re.fullmatch(r"openai/writer: call [0-9a-f]{12} is tried again after \w+", text)
        for level, text in lines
    )
    said, lines = run(cli, tmp_path / "refused", "warning", refusals=1.0)
    assert said.code == 4
    assert {level for level, _ in lines} == {"WARNING"} and len(lines) == 4
    assert all("summarize failed: " in text and text.endswith(", attempts 1") for _, text in lines)


def test_nothing_is_logged_unasked(tmp_path: Path, cli: Cli) -> None:
    said, lines = run(cli, tmp_path / "quiet", "", refusals=1.0)
    assert said.code == 4 and not lines and "failed: " not in said.err


def test_a_level_that_is_none_is_refused(tmp_path: Path, cli: Cli) -> None:
    assert "--log-level" in cli("run", tmp_path / "spec.yaml", "--log-level", "loud").refusal
