"""Requests to models, with their sampling parameters and keys, and the replies of all transports. Two calls with the same key are
the same call."""

import functools
import hashlib
import itertools
import json
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from json.encoder import encode_basestring_ascii
from typing import Annotated, Any, Literal, get_args

from summhay_ray.outcome import Outcome
from summhay_ray.text import canonical_json, count_tokens, encoded

MOST_TOKENS = 20_000_000
"""Maximum tokens of a call, which no model exceeds. Larger counts are reduced to this number."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of one call as the provider counts them: whole numbers from 0 to `MOST_TOKENS`."""

    input_tokens: int
    """Tokens of the prompt, including tokens that are read from or written to a cache."""
    output_tokens: int
    """Tokens of the answer, including reasoning."""
    cached_tokens: int = 0
    """The part of `input_tokens` that was read from the provider's cache."""
    cache_write_tokens: int = 0
    """The part of `input_tokens` that was written to the provider's cache."""
    reasoning_tokens: int = 0
    """The part of `output_tokens` that is reasoning."""
    searches: int = 0
    """Number of billed searches, for services that bill by searches."""
    cache_write_1h_tokens: int = 0
    """The part of `cache_write_tokens` that the cache keeps for an hour."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer of a provider. `usage` is None if the provider does not report it, or reports no valid counts."""

    text: str
    finish_reason: str
    usage: Usage | None
    raw: Any = None
    """The parsed JSON body; None for a model that runs in this process."""
    further: tuple[str, ...] = ()
    """The texts after the first one, if the call asked for several."""
    logprobs: Any = None
    """Log probabilities of the first text's tokens, in OpenAI's format; None if there are none."""
    numbers: bool = False
    """Whether the text contains numbers (vectors, scores), whose tokens are not counted."""
    flaw: str = ""
    """Why the numbers are unusable; the text is then the beginning of the body."""
    zero_vectors: int = 0
    """Number of vectors that are all zeros."""

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts of the call."""
        return (self.text, *self.further)


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """A model's answer to one request, before it is parsed."""

    key: Annotated[str, "content hash of the request"]
    model: Annotated[str, "the model's name in the spec"]
    text: Annotated[str, "the answer's text, unchanged"]
    finish_reason: Annotated[str, "why the model stopped: stop, length, content_filter, ..."]
    input_tokens: Annotated[int, "prompt tokens, as counted by the provider"]
    cached_tokens: Annotated[int, "prompt tokens that were read from the provider's prefix cache"]
    output_tokens: Annotated[int, "completion tokens, as counted by the provider"]
    usd_micros: Annotated[int, "price of the answer in millionths of a dollar"]
    attempts: Annotated[int, "number of HTTP attempts"]
    cache_write_tokens: Annotated[int, "prompt tokens that were written to the provider's prefix cache"] = 0
    reasoning_tokens: Annotated[int, "completion tokens for reasoning, which is not part of the text"] = 0
    claimed_tokens: Annotated[
        int, "tokens that the provider reported, if the count was not credible and the reservation was charged; else 0"
    ] = 0
    claimed_micros: Annotated[int, "price of `claimed_tokens` in millionths of a dollar"] = 0
    further_texts: Annotated[
        tuple[str, ...], "the texts after the first one, if the call asked for several; a refused text is empty"
    ] = ()
    logprobs: Annotated[
        str, "log probabilities of the first text's tokens, as JSON in the provider's format; empty if there are none"
    ] = ""
    origin: Annotated[
        str, "the endpoint that answered (scheme, host and port) or the provider; empty for a local model, or if unknown"
    ] = ""
    zero_vectors: Annotated[int, "number of embeddings that are all zeros, whose similarities are meaningless"] = 0

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts of the call. A provider may return fewer than requested."""
        return (self.text, *self.further_texts)


DEFAULT_MAX_TOKENS = 2000
_FLOOR_BYTES = 1 << 20
_TOKEN_BYTES = 32
"""Maximum bytes of one token in JSON, if all characters are escaped."""
_LOGPROB_BYTES = 256
"""Maximum bytes of one token or alternative in an answer with log probabilities."""
_LENGTHS = ("max_tokens", "max_completion_tokens")
RESERVED = frozenset(
    {
        "api_base",
        "api_key",
        "base_url",
        "caching",
        "client",
        "context_window_fallback_dict",
        "custom_llm_provider",
        "extra_headers",
        "fallbacks",
        "headers",
        "max_retries",
        "messages",
        "mock_response",
        "mock_timeout",
        "model",
        "num_retries",
        "retry_policy",
        "retry_strategy",
        "stream",
        "timeout",
    }
)
"""Parameters that only the gateway may set. A spec with them could change a call so that its log, limits and price would be
wrong."""
QUERY_FIELD = "query_field"
"""Sampling parameter of a search that names the body's field for the query. The parameter itself is not sent."""
REVISION = "revision"
"""Sampling parameter with the model's revision in the spec. It is part of the key, but never sent."""
_BESIDE_EXTRA = {*_LENGTHS, REVISION, "seed", "temperature"}
_OF_THE_REQUEST = frozenset({"n", "logprobs", "top_logprobs"})


class Sampling(dict[str, Any]):
    """Immutable sampling parameters. They are hashable, since results are cached per set of parameters, and a run has few sets
    and many calls. The hash is computed from their text, which distinguishes 1, 1.0 and True."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(repr(self))


canonical: Callable[[Sampling], str] = functools.lru_cache(maxsize=1024)(canonical_json)
"""Convert sampling parameters to canonical JSON, for keys."""


@functools.lru_cache(maxsize=1024)
def unusable(sampling: Sampling, known: Collection[str] | None = None) -> str:
    """Return why the sampling parameters cannot be sent, in one line; empty if they can. `known`: see
    `provider_table.known_extra`."""
    if known is not None and (others := sorted(sampling.keys() - _BESIDE_EXTRA - set(known))):
        return f"sampling parameter {others[0]!r} is none that may be given here; known: {', '.join(sorted(known))}"
    body = sampling.get("extra_body")
    for given in (sampling, body if isinstance(body, Mapping) else {}):
        if taken := sorted(RESERVED.intersection(given)):
            return f"sampling parameter {taken[0]!r} is set by the gateway; leave it out of extra"
        if taken := sorted(_OF_THE_REQUEST.intersection(given)):
            field = taken[0].removeprefix("top_")
            return f"sampling parameter {taken[0]!r} belongs to the request; leave it out of extra and write Request({field}=...)"
        if given is body and (taken := sorted(set(_LENGTHS).intersection(given))):
            return (
                f"sampling parameter {taken[0]!r} is in extra_body, where the budget does not see it; write it beside extra_body"
            )
    for name in _LENGTHS:
        value = sampling.get(name)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            return f"sampling parameter {name!r} is {value!r}; expected a whole number from 1"
    return ""


def with_max_tokens(sampling: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters to send. Sets a missing `max_tokens`, since an answer of unlimited length has no maximum price."""
    sent = {name: value for name, value in sampling.items() if name != REVISION}
    if any(sent.get(name) is not None for name in _LENGTHS):
        return sent
    return {**sent, "max_tokens": DEFAULT_MAX_TOKENS}


@functools.lru_cache(maxsize=1024)
def longest_answer(sampling: Sampling) -> int:
    """Return the maximum tokens of one answer. A call for `n` answers may return `n` times as many."""
    return max(sampling.get("max_tokens") or 0, sampling.get("max_completion_tokens") or 0) or DEFAULT_MAX_TOKENS


@functools.lru_cache(maxsize=1024)
def most_bytes(sampling: Sampling, n: int = 1, logprobs: int | None = None) -> int:
    """Return a generous upper bound, in bytes, for the body of an answer with `n` texts."""
    a_token = _TOKEN_BYTES + (0 if logprobs is None else _LOGPROB_BYTES * (1 + logprobs))
    return _FLOOR_BYTES + longest_answer(sampling) * n * a_token


@functools.lru_cache(maxsize=1024)
def schema_tokens(sampling: Sampling) -> int:
    """Count the tokens of schemas, tools and similar parameters, which providers bill as part of the prompt."""
    nested = [value for name, value in sorted(sampling.items()) if isinstance(value, dict | list) and name != "extra_body"]
    return count_tokens("".join(json.dumps(value, default=str) for value in nested))


Role = Literal["system", "user", "assistant"]
Task = Literal["chat", "embed", "rerank", "search"]
SEARCH_TOKENS, SEARCH_DOCUMENTS = 500, 100
_ROLES = frozenset(get_args(Role))
_LONG, _LONGEST = 16_384, 1_000_000
"""Lengths in characters. If the JSON of a request's messages is shorter than the first number, the request keeps it for its body.
The JSON of longer texts, up to the second number, is cached for the next request."""
MOST_LOGPROBS = 20
"""Maximum number of log probabilities per token that any provider returns."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation."""

    role: Role
    content: str


def system(text: str) -> Message:
    """Return a system message, which defines how to answer."""
    return Message("system", text)


def user(text: str) -> Message:
    """Return a user message, such as a question."""
    return Message("user", text)


def assistant(text: str) -> Message:
    """Return an assistant message, which is an earlier answer of the model."""
    return Message("assistant", text)


@dataclass(frozen=True, slots=True, init=False)
class Request:
    """One call to one model. Its key is a hash of its fields, apart from `shared`, and of nothing else."""

    model: str
    messages: tuple[Message, ...]
    """The constructor also accepts a string, which is the text of a single user message."""
    sampling: Sampling
    """Parameters that are sent with the messages, such as temperature, max_tokens and seed."""
    prompt_hash: str = ""
    """sha256 of the prompt template, so that a changed template gives another key."""
    sample: int = 0
    """Index of the sample, if one prompt is sent several times."""
    lookup: str = ""
    """For `replay/...` and `answers/...` models only: the id of the recorded answer to return."""
    n: int = 1
    """Number of answers to request in one call. A provider without this feature returns fewer, and a local model returns one."""
    logprobs: int | None = None
    """Request the log probability of each token and of this many most likely alternatives (0 to 20); None: no log
    probabilities."""
    task: Task = "chat"
    """chat: answer the messages. embed: return one vector per input. rerank: score each input after the first by its relevance to
    the first. search: return the results of the user's search service for the single input, in the service's format."""
    inputs: tuple[str, ...] = ()
    """The texts of an `embed`, `rerank` or `search` request, which has no messages."""
    shared: int = field(default=0, compare=False)
    """Number of characters at the beginning of the last message that other requests share. It is not part of the key. For
    providers that cache only marked prefixes, the end of this prefix is marked."""
    _key: str = field(init=False, repr=False, compare=False)
    _json: str = field(init=False, repr=False, compare=False)

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
        shared: int = 0,
    ) -> None:
        """Raises ValueError if messages or inputs do not suit the task, if `n` is below 1, or if `logprobs` is not 0 to 20."""
        conversation = (Message("user", messages),) if isinstance(messages, str) else tuple(messages)
        if not conversation and not inputs:
            raise ValueError("a request has no message; expected at least one")
        if odd := [message.role for message in conversation if message.role not in _ROLES]:
            raise ValueError(f"a message has the role {odd[0]!r}; expected system, user or assistant")
        if (task == "chat") == bool(inputs):
            raise ValueError(f"a request of task {task!r} has {len(inputs)} inputs; expected messages for chat, else inputs")
        if n < 1:
            raise ValueError(f"a request asks for n={n} answers; expected at least 1")
        if logprobs is not None and not 0 <= logprobs <= MOST_LOGPROBS:
            raise ValueError(f"a request asks for logprobs={logprobs}; expected 0 to {MOST_LOGPROBS}, or None for none")
        parameters = sampling if isinstance(sampling, Sampling) else Sampling(sampling or {})
        given = model, conversation, parameters, prompt_hash, sample, lookup, n, logprobs, task
        for name, value in zip(self.__dataclass_fields__, (*given, tuple(inputs), shared, "", ""), strict=True):
            object.__setattr__(self, name, value)

    @property
    def prompt(self) -> str:
        """The whole input as one text: a single user message unchanged, several messages with their roles, or the inputs."""
        if self.inputs:
            return "\n".join(self.inputs)
        if len(self.messages) == 1 and self.messages[0].role == "user":
            return self.messages[0].content
        return join_messages((message.role, message.content) for message in self.messages)

    @property
    def asked(self) -> dict[str, Any]:
        """The messages, `n` and `logprobs` in OpenAI's format; for other tasks than chat, the task and its inputs."""
        if self.inputs:
            return self._wanted
        return {"messages": self.conversation(), **self._wanted}

    def conversation(self, cache: str = "") -> list[dict[str, Any]]:
        """Return the messages in OpenAI's format.

        `cache`: the lifetime (5m, 1h) of a cache for which `cache_control` in Anthropic's format marks the shared prefix; empty:
        no mark.
        """
        made: list[dict[str, Any]] = [{"role": message.role, "content": message.content} for message in self.messages]
        if cache and self.shared:
            text = made[-1]["content"]
            control = {"type": "ephemeral", **({} if cache == "5m" else {"ttl": cache})}
            marked = {"type": "text", "text": text[: self.shared], "cache_control": control}
            rest = text[self.shared :]
            made[-1]["content"] = [marked, *([{"type": "text", "text": rest}] if rest else [])]
        return made

    @property
    def _wanted(self) -> dict[str, Any]:
        if self.inputs:
            return {"task": self.task, "inputs": list(self.inputs)}
        return wanted(self.n, self.logprobs)

    def body(self, rest: str, cache: str = "") -> bytes:
        """Return the JSON body for a chat endpoint. `rest`: the JSON object with its other fields. `cache`: see `conversation`.
        Raises UnicodeEncodeError for lone surrogates."""
        for message in self.messages:
            if not message.content.isascii():
                message.content.encode()
        messages = json.dumps(self.conversation(cache)) if cache and self.shared else self._messages_json()
        return f'{{"messages":{messages},{rest[1:]}'.encode("ascii")

    @property
    def searches(self) -> tuple[int, int, int]:
        """The number of billed searches of a reranking or a search: (minimum, expected, maximum); zeros for other tasks.

        By Cohere's terms, one search covers up to 100 documents. If a document and the query together exceed 500 tokens, the
        document is split into pieces, each of which counts as a document.
        """
        if self.task != "rerank":
            return (1, 1, 1) if self.task == "search" else (0, 0, 0)
        query, *documents = self.inputs
        lengths = [count_tokens(query) + count_tokens(text) for text in documents]
        # No known tokenizer counts more than twice as many tokens as ours.
        counts = (len(documents), *(sum(1 + times * length // SEARCH_TOKENS for length in lengths) for times in (1, 2)))
        least, expected, most = (-(-pieces // SEARCH_DOCUMENTS) for pieces in counts)
        return least, expected, most

    @property
    def key(self) -> str:
        """sha256 (hex) of the canonical JSON of the fields. It is the same on every machine, and computed once."""
        if not self._key:
            # Include `n` and `logprobs` only if they are set, so that keys from before these fields existed stay valid.
            fields = {name: encoded(value) for name, value in self._wanted.items()}
            if not self.inputs:
                fields["messages"] = self._messages_json()
            fields |= {name: _quoted(getattr(self, name)) for name in ("model", "prompt_hash", "lookup")}
            fields |= {"sampling": canonical(self.sampling), "sample": str(self.sample)}
            text = ",".join([f'"{name}":{fields[name]}' for name in sorted(fields)])
            object.__setattr__(self, "_key", hashlib.sha256(f"{{{text}}}".encode("ascii")).hexdigest())
        return self._key

    @property
    def space(self) -> str:
        """sha256 (hex) of model and sampling parameters. Vectors with the same hash can be compared."""
        return hashlib.sha256(f"[{_quoted(self.model)},{canonical(self.sampling)}]".encode("ascii")).hexdigest()

    @property
    def keys(self) -> Iterator[str]:
        """The keys under which an answer may be stored, in order. If the answer under one key is unusable, the next key is
        used."""
        return itertools.chain([self.key], (f"{self.key}/{n}" for n in itertools.count(2)))

    def _messages_json(self) -> str:
        """Return the messages as canonical JSON, for the key and for the body."""
        if self._json:
            return self._json
        parts = [f'{{"content":{_quoted(message.content)},"role":"{message.role}"}}' for message in self.messages]
        made = f"[{','.join(parts)}]"
        if len(made) < _LONG:
            object.__setattr__(self, "_json", made)
        return made


def wanted(n: int, logprobs: int | None) -> dict[str, Any]:
    """Return `n` and `logprobs` in OpenAI's format."""
    return {**({"n": n} if n > 1 else {}), **({} if logprobs is None else {"logprobs": True, "top_logprobs": logprobs})}


def _quoted(text: str) -> str:
    return _quoted_long(text) if _LONG <= len(text) <= _LONGEST else encode_basestring_ascii(text)


# Cached, since the repeats of a query have the same prompt.
_quoted_long = functools.lru_cache(maxsize=8)(encode_basestring_ascii)


def join_messages(messages: Iterable[tuple[str, str]]) -> str:
    """Join a conversation of (role, text) pairs to one text. The roles stand for the tokens that a provider adds to each
    message."""
    return "\n\n".join(f"{role}:\n{text}" for role, text in messages)


Ask = Callable[[Request], Awaitable[Outcome[RawAnswer]]]
"""The gateway's interface for other packages. It takes a request, and returns a durable answer or the reason why there is
none."""
