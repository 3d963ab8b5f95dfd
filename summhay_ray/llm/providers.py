"""The provider and the transport of a model, derived from its name. Part of the llm room."""

from __future__ import annotations

import re
from typing import Literal

from summhay_ray.llm.provider_table import PROVIDERS, SAMPLING, place_of
from summhay_ray.llm.request import Task

LOCAL_PREFIXES = ("offline/", "replay/", "answers/", "transformers/")
"""Prefixes of models that run in the worker: they have no key, price or limits."""

Transport = Literal["direct", "litellm", "local"]
"""How a model is reached. direct: our own client of OpenAI's protocol. litellm: that library. local: inside the worker."""

_BARE_NAMES = {
    "openai": re.compile(r"(?:ft:)?(?:gpt-|chatgpt-|o[134](?:-|$))"),
    "anthropic": re.compile(r"claude-"),
    "cohere": re.compile(r"command(?:-|$)"),
}
"""Provider -> the model names that litellm assigns to it without a prefix."""


def is_local(model: str) -> bool:
    """Whether the model runs in the worker and needs no key."""
    return model.startswith(LOCAL_PREFIXES)


def transport_of(model: str, api_base: str | None, written: str | None = None) -> Transport:
    """How the model is reached: as `written` in the spec, else directly if there is an endpoint of OpenAI's protocol.

    That is the case with an `api_base`, unless the prefix before the slash is a provider that needs litellm.
    """
    if is_local(model):
        return "local"
    if written is not None:
        return "direct" if written == "direct" else "litellm"
    provider = PROVIDERS.get(_provider(model))
    return "direct" if api_base and (provider is None or provider.protocol == "openai") else "litellm"


def is_service(model: str) -> bool:
    """Whether the name begins with a provider's prefix. Other embedding and reranking models run in this process."""
    return bool(_provider(model))


def lacking(model: str, task: Task, api_base: str | None) -> str:
    """Why the provider cannot be asked for this, in one line; empty if it can, or if the user's own endpoint is asked."""
    known = PROVIDERS.get(provider_of(model))
    if known is None or task in known.services or place_of(provider_of(model), api_base) != "own":
        return ""
    what = {"chat": "chat", "embed": "embeddings", "rerank": "reranking", "search": "search"}[task]
    return f"{provider_of(model)} has no {what} service; name a provider that has one, or api_base: URL of such an endpoint"


def known_extra(model: str, transport: Transport) -> frozenset[str] | None:
    """What `extra` may hold for a model that is asked through litellm; None for any other: nothing but an endpoint reads it."""
    if transport != "litellm":
        return None
    known = PROVIDERS.get(provider_of(model))
    return SAMPLING if known is None else known.extra


def provider_of(model: str) -> str:
    """The model's provider: the part before the first slash, else derived from the bare name; empty if unknown."""
    root, slash, _ = model.partition("/")
    return root if slash else next((name for name, bare in _BARE_NAMES.items() if bare.match(model)), "")


def wire_name(model: str) -> str:
    """The model's name to send to an endpoint of OpenAI's protocol: without litellm's provider prefix."""
    return model.partition("/")[2] if _provider(model) else model


def _provider(model: str) -> str:
    """The provider prefix that litellm would recognize in the name; empty if there is none."""
    prefix, slash, _ = model.partition("/")
    return prefix if slash and prefix in PROVIDERS else ""
