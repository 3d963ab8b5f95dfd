"""A request to a model and its key: what a call is, and when two calls are the same call. For all rooms above `llm`."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from summhay_ray.llm.raw_answer import RawAnswer
from summhay_ray.outcome import Outcome
from summhay_ray.text import count_tokens

Role = Literal["system", "user", "assistant"]
Task = Literal["chat", "embed", "rerank"]
SEARCH_TOKENS, SEARCH_DOCUMENTS = 500, 100
_LONG, _LONGEST = 4096, 1_000_000
"""Characters of a prompt whose JSON is remembered for the next call that sends it."""
MOST_LOGPROBS = 20
"""No provider gives more of them a token."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation."""

    role: Role
    content: str

    def __post_init__(self) -> None:
        if self.role not in get_args(Role):
            raise ValueError(f"a message has the role {self.role!r}; expected system, user or assistant")


def system(text: str) -> Message:
    """A message that says how to answer."""
    return Message("system", text)


def user(text: str) -> Message:
    """A message that asks."""
    return Message("user", text)


def assistant(text: str) -> Message:
    """A message that the model is taken to have answered."""
    return Message("assistant", text)


@dataclass(frozen=True, slots=True, init=False)
class Request:
    """One call to one model. Every field is semantic: all of them, and nothing else, make the key."""

    model: str
    messages: tuple[Message, ...]
    """The constructor also takes a text: that of one user message."""
    sampling: Mapping[str, Any] = field(default_factory=dict)
    """temperature, max_tokens, seed and the like: what is sent beside the messages."""
    prompt_hash: str = ""
    """sha256 of the prompt template, so that a changed template is another request."""
    sample: int = 0
    """Index of the sample, for several answers to one prompt."""
    lookup: str = ""
    """For `replay/...` and `answers/...` models alone: which of the answers that were made elsewhere is meant."""
    n: int = 1
    """Answers that one call gives; a provider that does not know how gives fewer, a local model one."""
    logprobs: int | None = None
    """With each token of the answer its log probability and those of so many likeliest tokens (0 to 20); None: without."""
    task: Task = "chat"
    """What is wanted: an answer to the messages; of `inputs` a vector each; or how well each input after the first answers it."""
    inputs: tuple[str, ...] = ()
    """The texts of an `embed` or `rerank` request, which has no messages."""

    def __init__(
        self,
        model: str,
        messages: str | Sequence[Message],
        sampling: Mapping[str, Any] | None = None,
        prompt_hash: str = "",
        sample: int = 0,
        lookup: str = "",
        n: int = 1,
        logprobs: int | None = None,
        task: Task = "chat",
        inputs: Sequence[str] = (),
    ) -> None:
        """Raises ValueError for no message, for `n` below 1, and for `logprobs` that are not 0 to 20."""
        given = (user(messages),) if isinstance(messages, str) else tuple(messages)
        if not given and not inputs:
            raise ValueError("a request has no message; expected at least one")
        if (task == "chat") == bool(inputs):
            raise ValueError(f"a request of task {task!r} has {len(inputs)} inputs; expected messages for chat, else inputs")
        if n < 1:
            raise ValueError(f"a request asks for n={n} answers; expected at least 1")
        if logprobs is not None and not 0 <= logprobs <= MOST_LOGPROBS:
            raise ValueError(f"a request asks for logprobs={logprobs}; expected 0 to {MOST_LOGPROBS}, or None for none")
        fields = (
            model,
            given,
            {} if sampling is None else sampling,
            prompt_hash,
            sample,
            lookup,
            n,
            logprobs,
            task,
            tuple(inputs),
        )
        for name, value in zip(self.__dataclass_fields__, fields, strict=True):
            object.__setattr__(self, name, value)

    @property
    def prompt(self) -> str:
        """The text of all messages: of one user message its content as it is, else each under its role; else all inputs."""
        if self.inputs:
            return "\n".join(self.inputs)
        if len(self.messages) == 1 and self.messages[0].role == "user":
            return self.messages[0].content
        return marked((message.role, message.content) for message in self.messages)

    @property
    def asked(self) -> dict[str, Any]:
        """The messages, and what is wanted of the answer, as OpenAI's protocol writes them."""
        if self.inputs:
            return self._wanted
        return {"messages": [{"role": one.role, "content": one.content} for one in self.messages], **self._wanted}

    @property
    def _wanted(self) -> dict[str, Any]:
        if self.inputs:
            return {"task": self.task, "inputs": list(self.inputs)}
        logprobs = {} if self.logprobs is None else {"logprobs": True, "top_logprobs": self.logprobs}
        return {**({"n": self.n} if self.n > 1 else {}), **logprobs}

    def body(self, model: str, sampling: Mapping[str, Any]) -> bytes:
        """The JSON that a chat endpoint is sent for it. Raises UnicodeEncodeError, and ValueError for what JSON cannot hold."""
        rest = json.dumps({"model": model, **self._wanted, **sampling}, allow_nan=False, ensure_ascii=False)
        return f'{{"messages":{self.messages_json(ascii_only=False)},{rest[1:]}'.encode()

    @property
    def searches(self) -> tuple[int, int, int]:
        """Searches that a reranking is billed for, at least, expected and at most: one for each 100 documents, of which each 500
        tokens with the query count as one (Cohere's terms)."""
        if self.task != "rerank":
            return 0, 0, 0
        query, *documents = self.inputs
        lengths = [count_tokens(query) + count_tokens(text) for text in documents]
        # No tokenizer that we know takes twice as many tokens as ours.
        counts = (len(documents), *(sum(1 + times * length // SEARCH_TOKENS for length in lengths) for times in (1, 2)))
        least, expected, most = (-(-pieces // SEARCH_DOCUMENTS) for pieces in counts)
        return least, expected, most

    @property
    def key(self) -> str:
        """sha256 (hex) over the canonical JSON of the fields: same content, same key, on every machine."""
        # Without `n` and `logprobs` where they are not asked for: the keys of answers that are paid for stay what they are.
        fields = {name: _canonical(value) for name, value in self._wanted.items()}
        if not self.inputs:
            fields["messages"] = self.messages_json(ascii_only=True)
        fields["model"] = _canonical(self.model)
        fields["sampling"] = _canonical(_plain(self.sampling))
        fields["prompt_hash"] = _canonical(self.prompt_hash)
        fields["sample"] = str(self.sample)
        fields["lookup"] = _canonical(self.lookup)
        text = ",".join(f'"{name}":{fields[name]}' for name in sorted(fields))
        return hashlib.sha256(f"{{{text}}}".encode("ascii")).hexdigest()

    def messages_json(self, *, ascii_only: bool) -> str:
        """The messages as canonical JSON, `ascii_only` as in a key; else with the letters of every script as they are."""
        parts = (f'{{"content":{_quoted(one.content, ascii_only)},"role":"{one.role}"}}' for one in self.messages)
        return f"[{','.join(parts)}]"


_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode
_QUOTE = {ascii_only: json.JSONEncoder(ensure_ascii=ascii_only).encode for ascii_only in (True, False)}


def _quoted(text: str, ascii_only: bool) -> str:
    return _quoted_long(text, ascii_only) if _LONG <= len(text) <= _LONGEST else _QUOTE[ascii_only](text)


# Every repeat of a query sends the same prompt.
@functools.lru_cache(maxsize=8)
def _quoted_long(text: str, ascii_only: bool) -> str:
    return _QUOTE[ascii_only](text)


def marked(messages: Iterable[tuple[str, str]]) -> str:
    """(role, text) of a conversation as one text; the roles stand for what a provider adds to each message."""
    return "\n\n".join(f"{role}:\n{text}" for role, text in messages)


def _plain(value: Any) -> Any:
    """The value as JSON has it, a number that is whole without its point: 0 and 0.0 are one temperature."""
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


Ask = Callable[[Request], Awaitable[Outcome[RawAnswer]]]
"""The gateway as the rooms see it: a request in, a durable answer or the reason why there is none out."""
