"""A key that a provider repeats in any form is never visible: not in store, tables, messages, log or report."""

from __future__ import annotations

import html
import json
import logging
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from commands import Said, write_spec
from local_http import Answer, Asked, serving

pytestmark = pytest.mark.core

Cli = Callable[..., Said]

LINES = ["MIIEvQIBADANBgkqhkiG9w0B/AQEFAASC+BKcwggSj", "AgEAAoIBAQC7VJTUt9Us8cKj"]
PRIVATE = "\n".join(["-----BEGIN PRIVATE KEY-----", *LINES, "-----END PRIVATE KEY-----"])
ACCOUNT = {
    "type": "service_account",
    "project_id": "my-project-of-news",
    "private_key": PRIVATE,
    "token_uri": "https://a.b/token",
}
QUOTED = 'it\'s "quoted" \\ a/b+c=&'

VARIABLES = {
    "SNOWFLAKE_JWT": "eyJhbGciOi.abcdefgh.ijklmnop",
    "OPENAI_API_KEY": "lettersonly",
    "MISTRAL_API_KEY": "eightabc",
    "GIGACHAT_CREDENTIALS": "Y2xpZW50OnNlY3JldA==",
    "ANYTHING_AT_ALL": QUOTED,
    "VERTEXAI_CREDENTIALS": json.dumps(ACCOUNT),
    "HTTPS_PROXY": "http://me:pass%2Fword%20here@127.0.0.1:9",
    "AWS_SECRET_ACCESS_KEY": "schlüssel\nin zeilen",
}
SECRETS = [
    *(VARIABLES[name] for name in VARIABLES if name not in ("VERTEXAI_CREDENTIALS", "HTTPS_PROXY")),
    *(PRIVATE, *LINES, "pass%2Fword%20here", "pass/word here", "schlüssel", "in zeilen"),
]
ENTRIES = [
    {"model": "snowflake/m", "transport": "litellm"},
    {"model": "openai/m"},
    {"model": "mistral/m", "transport": "litellm"},
    {"model": "hosted_vllm/m", "api_key_env": "GIGACHAT_CREDENTIALS"},
    {"model": "vllm/m", "api_key_env": "ANYTHING_AT_ALL"},
    {"model": "xinference/m"},
]
"""Each sends a key of its own, the last none."""


@contextmanager
def repeating(secrets: list[str]) -> Iterator[tuple[str, list[str]]]:
    """A provider whose answers (at /answer) and errors (at /error, /broken) repeat these texts and the request's
    authorization."""
    seen: list[str] = []

    def answer(asked: Asked) -> Answer:
        seen.append(sent := asked.headers.get("authorization", ""))
        # The beginning of an error's body is always in its message.
        said = " ".join(map(spelled, [*(sent.split(maxsplit=1)[-1:]), *secrets]))
        message = {"role": "assistant", "content": f"- Now your keys are {said} [1].", said: [said]}
        tokens = [{"token": letter, "logprob": -1.0, "bytes": [*letter.encode()]} for letter in f"my-project {said[:1500]}"]
        choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": {"content": tokens}}
        body: dict[str, Any] = {"choices": [choice], "usage": {"prompt_tokens": 900, "completion_tokens": 90}}
        if "/answer" not in asked.path:
            body = {"error": {"message": said * 3, "type": said}}
        content = said * 10 if "/broken" in asked.path else json.dumps(body)
        return Answer(content.encode(), 400 if "/error" in asked.path else 200)

    with serving(answer) as address:
        yield address, seen


def spelled(secret: str) -> str:
    """The secret as plain text, and in the forms of JSON, URLs and HTML."""
    return " ".join([secret, json.dumps(secret), urllib.parse.quote(secret, safe=""), html.escape(secret)])


def everything(folder: Path) -> Iterator[str]:
    """Every file below the folder as text, tables also as rows."""
    for file in folder.rglob("*"):
        if file.suffix == ".parquet":
            yield from map(str, pl.read_parquet(file).rows())
        if file.is_file():
            yield file.read_bytes().decode("utf-8", "replace")


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    log = logging.getLogger("summhay_ray")
    handlers, level = list(log.handlers), log.level
    yield
    log.handlers[:] = handlers
    log.setLevel(level)


@pytest.mark.usefixtures("litellm")
def test_a_key_that_is_repeated_is_nowhere(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    with repeating([*SECRETS, *VARIABLES.values()]) as (base, seen):
        models = [
            {"max_tokens": 9000, "price": 0, "api_base": f"{base}/{way}/v1", **entry, "model": f"{entry['model']}-{way}"}
            for way in ("answer", "error", "broken")
            for entry in ENTRIES
        ]
        spec = {"haystacks": ["sample/news"], "retrievers": ["bm25"], "token_budget": 1000, "summarizers": models}
        spec |= {"judges": ["offline/judge"], "executor": "inline"}
        store, report = tmp_path / "store", tmp_path / "report"
        options = ["--store", store, "--limit", str(len(models)), "--log-level", "debug"]
        said = [cli("run", write_spec(tmp_path, spec), *options)]
    run = next((store / "runs").iterdir()).name
    said += [cli("failures", run, "--store", store), cli("report", run, "--store", store, "--out", report)]
    # A broken body is requested twice.
    assert len(seen) == 4 * len(ENTRIES) and said[0].code == 4
    assert {sent.removeprefix("Bearer ") for sent in seen} >= set(list(VARIABLES.values())[:5])
    kept = {*everything(store), *everything(report), *(text for one in said for text in (one.out, one.err))}
    for secret in SECRETS:
        for spelling in (secret, json.dumps(secret)[1:-1], urllib.parse.quote(secret, safe=""), html.escape(secret)):
            assert not [text for text in kept if spelling in text], spelling
    for shown in ("Now your keys are *** ", "HTTP 400: *** ", "my-project-of-news"):
        assert [text for text in kept if shown in text], shown


@pytest.mark.parametrize("value", ["true", "EMPTY", "us-east"])
def test_short_values_and_other_words_are_not_hidden(
    value: str, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", value)
    names = ("AWS_REGION", "AWS_PROFILE", "VERTEXAI_PROJECT", "AZURE_API_BASE", "WATSONX_URL")
    for name in names:
        monkeypatch.setenv(name, f"an-ordinary-{name}")
    with repeating([value, *(f"an-ordinary-{name}" for name in names)]) as (base, _):
        model = {"model": "openai/m", "price": 0, "api_base": f"{base}/answer/v1"}
        spec = {"haystacks": ["sample/news"], "retrievers": ["bm25"], "token_budget": 1000, "summarizers": [model]}
        said = cli("run", write_spec(tmp_path, spec), "--store", tmp_path / "store", "--limit", "1", "--executor", "inline")
    assert said.code == 0
    kept = "".join(everything(tmp_path / "store"))
    assert "***" not in kept and value in kept and all(f"an-ordinary-{name}" in kept for name in names)
