"""Files, batches, message batches and caches of the simulated provider, driven by the providers' own SDKs."""

from __future__ import annotations

import asyncio
import importlib
import io
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from simulated_provider import KEY, Simulated, in_thread, until

if TYPE_CHECKING:
    import anthropic
    import openai

QUICK = {"batch_duration": 0.2, "input_price": 4.0, "output_price": 8.0}
PROMPTS = [f"Question {number}" for number in range(6)]


@pytest.fixture(scope="module", autouse=True)
def _sdks() -> None:
    """Both SDKs take seconds to import: the worker that runs these tests imports them, and not each one that collects them."""
    for name in ("anthropic", "openai"):
        globals()[name] = importlib.import_module(name)


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


def lines(prompts: Sequence[str], model: str = "simulated") -> bytes:
    """The input file of a batch: a chat completion for each prompt, named by its number."""
    made = []
    for number, prompt in enumerate(prompts):
        body = {"model": model, "messages": [{"role": "user", "content": prompt}], "max_tokens": 50}
        made.append({"custom_id": f"r{number}", "method": "POST", "url": "/v1/chat/completions", "body": body})
    return b"".join(json.dumps(line).encode() + b"\n" for line in made)


def requests(prompts: Sequence[str]) -> Any:
    """The requests of a message batch, named by their numbers."""
    return [
        {
            "custom_id": f"r{number}",
            "params": {"model": "claude", "max_tokens": 50, "messages": [{"role": "user", "content": prompt}]},
        }
        for number, prompt in enumerate(prompts)
    ]


@contextmanager
def both(**settings: Any) -> Iterator[tuple[Simulated, openai.OpenAI, anthropic.Anthropic]]:
    """The provider with these settings, and a client of each SDK, neither of which retries."""
    with (
        in_thread(**{**QUICK, **settings}) as provider,
        openai.OpenAI(api_key=KEY, base_url=provider.base, max_retries=0) as asked,
        anthropic.Anthropic(api_key=KEY, base_url=provider.root, max_retries=0) as told,
    ):
        yield provider, asked, told


def submit(client: openai.OpenAI, content: bytes, **fields: Any) -> Any:
    """Upload an input file, and create a batch of it."""
    file = client.files.create(file=("requests.jsonl", io.BytesIO(content)), purpose="batch")
    return client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h", **fields)


def ended(client: openai.OpenAI, name: str) -> Any:
    """The batch, once it has ended."""
    assert until(lambda: client.batches.retrieve(name).status not in ("validating", "in_progress", "finalizing", "cancelling"))
    return client.batches.retrieve(name)


def parsed(client: openai.OpenAI, file: str) -> list[dict[str, Any]]:
    """The lines of a result file."""
    return [json.loads(line) for line in client.files.content(file).text.splitlines()]


def message_results(client: anthropic.Anthropic, name: str) -> list[Any]:
    """The results of a message batch, once it has ended."""
    assert until(lambda: client.messages.batches.retrieve(name).processing_status == "ended")
    return list(client.messages.batches.results(name))


def test_openai_s_sdk_sends_a_batch_at_half_price() -> None:
    with both() as (provider, client, _):
        made = submit(client, lines(PROMPTS), metadata={"token": "t1"})
        assert (made.status, made.metadata, made.output_file_id) == ("validating", {"token": "t1"}, None)
        done = ended(client, made.id)
        found = parsed(client, done.output_file_id)
        by_day = client.chat.completions.create(model="simulated", messages=[{"role": "user", "content": PROMPTS[0]}])
        stats = provider.stats()
        client.files.delete(done.output_file_id)
        with pytest.raises(openai.NotFoundError):
            client.files.content(done.output_file_id)
    assert (done.status, done.error_file_id) == ("completed", None)
    assert (done.request_counts.total, done.request_counts.completed, done.request_counts.failed) == (6, 6, 0)
    said = {line["custom_id"]: line["response"]["body"]["choices"][0]["message"]["content"] for line in found}
    assert said == {f"r{number}": f"simulated: {prompt}" for number, prompt in enumerate(PROMPTS)}
    assert (by_day.service_tier, by_day.choices[0].message.content) == ("default", said["r0"])
    standard, batch = stats["channels"]["standard"], stats["channels"]["batch"]
    assert batch["served"] == 6 and standard["served"] == 1
    assert batch["micros"] == pytest.approx(6 * standard["micros"] / 2, abs=6)


def test_anthropic_s_sdk_sends_a_batch_at_half_price() -> None:
    with both() as (provider, _, client):
        made = client.messages.batches.create(requests=requests(PROMPTS))
        assert (made.processing_status, made.request_counts.processing, made.results_url) == ("in_progress", 6, None)
        found = message_results(client, made.id)
        counts = client.messages.batches.retrieve(made.id).request_counts
        message = client.messages.create(model="claude", max_tokens=50, messages=[{"role": "user", "content": PROMPTS[0]}])
        stats = provider.stats()
    assert (counts.succeeded, counts.processing) == (6, 0)
    said = {one.custom_id: one.result.message.content[0].text for one in found}
    assert said == {f"r{number}": f"claude: {prompt}" for number, prompt in enumerate(PROMPTS)}
    assert (message.content[0].to_dict()["text"], message.stop_reason) == (said["r0"], "end_turn")
    assert (message.usage.service_tier, found[0].result.message.usage.service_tier) == ("standard", "batch")
    standard, batch = stats["channels"]["standard"], stats["channels"]["batch"]
    assert batch["micros"] == pytest.approx(6 * standard["micros"] / 2, abs=6)


def test_lists_are_paged_and_belong_to_a_key() -> None:
    with both() as (_, client, other):
        names = [submit(client, lines(PROMPTS[:1])).id for _ in range(5)]
        others = [other.messages.batches.create(requests=requests(PROMPTS[:1])).id for _ in range(5)]
        assert [batch.id for batch in client.batches.list(limit=2)] == names[::-1]
        assert [batch.id for batch in other.messages.batches.list(limit=2)] == others[::-1]
        page = other.messages.batches.list(limit=2, before_id=others[0])
        assert ([batch.id for batch in page.data], page.has_more) == ([others[2], others[1]], True)
        stranger = client.with_options(api_key="sk-another")
        assert list(stranger.batches.list()) == []
        with pytest.raises(openai.NotFoundError):
            stranger.batches.retrieve(names[0])
        with pytest.raises(anthropic.NotFoundError):
            other.messages.batches.retrieve(names[0])


def test_a_lost_reply_to_a_creation_leaves_a_batch_that_the_list_has() -> None:
    with both(batch_lost=1.0) as (provider, client, other):
        with pytest.raises(openai.APIConnectionError):
            submit(client, lines(PROMPTS), metadata={"token": "t1"})
        with pytest.raises(anthropic.APIConnectionError):
            other.messages.batches.create(requests=requests(PROMPTS))
        (found,), (told,) = client.batches.list(), other.messages.batches.list()
        assert found.metadata == {"token": "t1"}
        assert len(parsed(client, ended(client, found.id).output_file_id)) == len(message_results(other, told.id)) == 6
        assert provider.stats()["repeated"] == 0


def test_an_expired_batch_has_half_of_its_answers() -> None:
    with both(batch_expired=1.0) as (provider, client, other):
        done = ended(client, submit(client, lines(PROMPTS)).id)
        answers, errors = parsed(client, done.output_file_id), parsed(client, done.error_file_id)
        results = message_results(other, other.messages.batches.create(requests=requests(PROMPTS)).id)
        served = provider.stats()["channels"]["batch"]["served"]
    assert (done.status, len(answers), served) == ("expired", 3, 6)
    assert [(line["response"], line["error"]["code"]) for line in errors] == [(None, "batch_expired")] * 3
    assert [one.result.type for one in results] == ["succeeded"] * 3 + ["expired"] * 3


def test_a_cancelled_batch_keeps_what_was_answered() -> None:
    with both(batch_duration=4.0) as (provider, client, other):
        made, told = submit(client, lines(PROMPTS * 50)), other.messages.batches.create(requests=requests(PROMPTS * 50))
        assert until(lambda: client.batches.retrieve(made.id).request_counts.completed > 0)
        assert client.batches.cancel(made.id).status == "cancelling"
        assert other.messages.batches.cancel(told.id).processing_status == "canceling"
        done, results = ended(client, made.id), message_results(other, told.id)
        counts = other.messages.batches.retrieve(told.id).request_counts
        served = provider.stats()["served"]
        with pytest.raises(openai.ConflictError):
            client.batches.cancel(made.id)
        answers = parsed(client, done.output_file_id)
    assert done.status == "cancelled" and 0 < len(answers) < 300
    assert counts.succeeded + counts.canceled == 300 and counts.canceled > 0
    assert served == len(answers) + sum(one.result.type == "succeeded" for one in results)


def test_results_have_the_faults_that_are_asked_for() -> None:
    faults = {"batch_errors": 0.2, "batch_missing": 0.2, "batch_duplicates": 0.2, "batch_shuffled": 1.0}
    with both(**faults) as (provider, client, other):
        done = ended(client, submit(client, lines(PROMPTS * 10)).id)
        answers, errors = parsed(client, done.output_file_id), parsed(client, done.error_file_id)
        told = [
            one.to_dict() for one in message_results(other, other.messages.batches.create(requests=requests(PROMPTS * 10)).id)
        ]
        served = provider.stats()["channels"]["batch"]["served"]
    assert {line["response"]["status_code"] for line in errors} == {500}
    assert {one["result"]["type"] for one in told} == {"succeeded", "errored"}
    for found in ([line["custom_id"] for line in (*answers, *errors)], [one["custom_id"] for one in told]):
        assert len(set(found)) < 60 and len(found) > len(set(found))
        assert found != sorted(found, key=lambda name: int(name[1:]))
    assert served == 120 - len(errors) - sum(one["result"]["type"] == "errored" for one in told)


def test_results_may_be_gone() -> None:
    with both(batch_gone=1.0) as (_, client, other):
        done = ended(client, submit(client, lines(PROMPTS)).id)
        with pytest.raises(openai.NotFoundError):
            client.files.content(done.output_file_id)
        with pytest.raises(anthropic.NotFoundError):
            message_results(other, other.messages.batches.create(requests=requests(PROMPTS)).id)


BROKEN: dict[str, Callable[[bytes], bytes]] = {
    "duplicate_custom_id": lambda content: content + content.splitlines(keepends=True)[0],
    "invalid_json_line": lambda content: content + b"{",
    "mismatched_model": lambda content: content + lines([""] * 7, "other").splitlines(keepends=True)[6],
    "invalid_url": lambda content: content.replace(b"/v1/chat/completions", b"/v1/embeddings"),
    "empty_file": lambda content: b"\n",
}


@pytest.mark.parametrize("code", BROKEN)
def test_the_validation_of_a_batch_fails_with_the_line(code: str) -> None:
    with both() as (provider, client, _):
        done = ended(client, submit(client, BROKEN[code](lines(PROMPTS))).id)
        assert (done.status, done.errors.data[0].code, provider.stats()["served"]) == ("failed", code, 0)


def test_a_batch_may_fail_at_validation() -> None:
    with both(batch_failed=1.0) as (provider, client, other):
        assert ended(client, submit(client, lines(PROMPTS)).id).errors.data[0].code == "simulated_failure"
        missing = client.batches.create(input_file_id="file-none", endpoint="/v1/chat/completions", completion_window="24h")
        assert ended(client, missing.id).status == "failed"
        results = message_results(other, other.messages.batches.create(requests=requests(PROMPTS)).id)
        assert {one.result.type for one in results} == {"errored"}
        assert provider.stats()["served"] == 0


@pytest.mark.parametrize("name", ["a/2", "", "x" * 65])
def test_a_custom_id_has_anthropic_s_form(name: str) -> None:
    with both() as (_, _, client), pytest.raises(anthropic.BadRequestError, match="custom_id"):
        client.messages.batches.create(requests=[{**requests(PROMPTS)[0], "custom_id": name}])


def test_polls_are_refused_as_often_as_asked_for() -> None:
    with both(poll_errors=1.0) as (_, client, other):
        made = submit(client, lines(PROMPTS))
        with pytest.raises(openai.RateLimitError):
            client.batches.retrieve(made.id)
        with pytest.raises(anthropic.InternalServerError):
            other.messages.batches.list()


def test_flex_is_half_the_price_and_may_be_unavailable() -> None:
    with both() as (provider, client, _):
        ask = {"model": "simulated", "messages": [{"role": "user", "content": "a" * 4000}]}
        tiers = [client.chat.completions.create(**ask, service_tier=tier).service_tier for tier in ("default", "flex")]
        channels = provider.stats()["channels"]
    assert tiers == ["default", "flex"]
    assert channels["flex"]["micros"] == pytest.approx(channels["standard"]["micros"] / 2, abs=1)
    with both(flex_unavailable=1.0) as (provider, client, _):
        with pytest.raises(openai.RateLimitError, match=r"(?i)resource unavailable"):
            client.chat.completions.create(**ask, service_tier="flex")
        assert client.chat.completions.create(**ask).service_tier == "default"
        assert provider.stats()["channels"].keys() == {"standard"}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The provider's monotonic clock, which a test can advance (`ahead`, seconds)."""
    ahead, real = SimpleNamespace(s=0.0), time.monotonic
    fake = SimpleNamespace(time=time.time, monotonic=lambda: real() + ahead.s)
    monkeypatch.setattr("summhay_ray.simulator.provider.time", fake)
    return ahead


def usage(said: Any) -> tuple[int, int, int]:
    """Tokens (stored for 5 minutes, stored for an hour, read)."""
    return (
        said.usage.cache_creation.ephemeral_5m_input_tokens,
        said.usage.cache_creation.ephemeral_1h_input_tokens,
        said.usage.cache_read_input_tokens,
    )


def test_cache_control_stores_and_reads_a_prefix(clock: SimpleNamespace) -> None:
    with both(output_price=0.0, cached_price=0.4, cache_minimum=100) as (provider, _, client):

        def ask(text: str, end: str, **control: str) -> Any:
            marked = {"type": "text", "text": text, "cache_control": {"type": "ephemeral", **control}}
            content: Any = [marked, {"type": "text", "text": end}]
            said = client.messages.create(model="claude", max_tokens=9, messages=[{"role": "user", "content": content}])
            return usage(said), said.usage.input_tokens, provider.calls()[-1]["micros"]

        (written, fresh, first), (read, again, second) = ask("word " * 400, "one?"), ask("word " * 400, "two?")
        n = written[0]
        assert n >= 400 and (written, read) == ((n, 0, 0), (0, 0, n)) and fresh == again
        assert (first, second) == (pytest.approx(5 * n + 4 * fresh, abs=1), pytest.approx(0.4 * n + 4 * fresh, abs=1))
        clock.s += 200
        assert ask("word " * 400, "three?")[0] == (0, 0, n)
        clock.s += 200
        # A read has renewed the entry.
        assert ask("word " * 400, "four?")[0] == (0, 0, n)
        clock.s += 301
        assert ask("word " * 400, "five?", ttl="1h")[0] == (0, n, 0)
        clock.s += 3000
        assert ask("word " * 400, "six?")[0] == (0, 0, n)
        assert ask("short", "prefix?")[0] == (0, 0, 0)
        totals = provider.stats()["channels"]["standard"]
        assert (totals["tokens_written"], totals["tokens_written_1h"], totals["tokens_cached"]) == (n, n, 4 * n)


def test_requests_at_once_each_pay_for_storing() -> None:
    async def ask(base: str) -> list[Any]:
        async with anthropic.AsyncAnthropic(api_key=KEY, base_url=base, max_retries=0) as client:
            content: Any = [{"type": "text", "text": "word " * 1100, "cache_control": {"type": "ephemeral"}}]
            asked = [client.messages.create(model="claude", max_tokens=9, messages=[{"role": "user", "content": content}])] * 1
            asked += [client.messages.create(model="claude", max_tokens=9, messages=[{"role": "user", "content": content}])]
            return list(await asyncio.gather(*asked))

    with both(latency=0.5) as (provider, _, _):
        first, second = asyncio.run(ask(provider.root))
    assert usage(first) == usage(second) and usage(first)[0] > 1024 and usage(first)[2] == 0


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"temperature": 0.5}, "temperature"),
        ({"system": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral", "ttl": "2h"}}]}, "ttl"),
        ({"system": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}] * 5}, "maximum of 4"),
        (
            {
                "system": [
                    {"type": "text", "text": "a", "cache_control": {"type": "ephemeral", "ttl": ttl}} for ttl in ("5m", "1h")
                ]
            },
            "must not come after",
        ),
        ({"max_tokens": 0}, "max_tokens"),
    ],
    ids=str,
)
def test_messages_refuse_what_anthropic_refuses(fields: dict[str, Any], message: str) -> None:
    with both() as (_, _, client), pytest.raises(anthropic.BadRequestError, match=message):
        client.messages.create(
            model="claude",
            messages=[{"role": "user", "content": "Hello"}],
            extra_body=fields,
            max_tokens=5,
        )
