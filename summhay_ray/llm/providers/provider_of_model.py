"""The provider of a model, derived from the model's name, and the services that it offers."""

from __future__ import annotations

import functools
import re
from typing import Literal

from summhay_ray.llm.messages.request import Task
from summhay_ray.llm.providers.provider_table import PROVIDERS, SAMPLING, place_of

LOCAL_PREFIXES = ("offline/", "replay/", "answers/", "transformers/")
"""Prefixes of models that run in the worker: they have no key, price or limits."""

_SERVICE = re.compile(r"/(chat/completions|completions|embeddings|rerank|responses|messages)/*$", re.IGNORECASE)
Transport = Literal["direct", "litellm", "local"]
"""How a model is reached. direct: our own client of OpenAI's protocol. litellm: that library. local: inside the worker."""


def is_local(model: str) -> bool:
    """Whether the model runs in the worker and needs no key."""
    return model.startswith(LOCAL_PREFIXES)


def is_service(model: str) -> bool:
    """Whether the name begins with a provider's prefix. Other embedding and reranking models run in this process."""
    return bool(_provider(model))


@functools.lru_cache
def lacking(model: str, task: Task, api_base: str | None) -> str:
    """Why the provider cannot do this task, in one line; empty if it can, or if the request goes to the user's own endpoint."""
    known = PROVIDERS.get(provider_of(model))
    if known is None or task in known.services or place_of(provider_of(model), api_base) != "own":
        return ""
    what = {"chat": "chat", "embed": "embeddings", "rerank": "reranking", "search": "search"}[task]
    return f"{provider_of(model)} has no {what} service; name a provider that has one, or api_base: URL of such an endpoint"


def address_of(model: str, api_base: str | None) -> str:
    """The base URL for direct requests: the `api_base`, else the one in the provider's row; empty without either."""
    known = PROVIDERS.get(provider_of(model))
    return api_base or (known.base if known else "")


def service_flaw(api_base: str, task: Task) -> str:
    """Why direct requests to an `api_base` are impossible for this model, in one line; empty if they are possible.

    The path of the service is added to the `api_base`, so it must not end with one. A search is sent to the URL itself, and the
    URL of a reranking may include its path.
    """
    service = _SERVICE.search(api_base)
    if service is None or task == "search" or task == "rerank" and re.search(r"/v[12]/rerank$", api_base):
        return ""
    return f"api_base: it ends with {service[0]}, and the path of the service is added to it; write {api_base[: service.start()]}"


@functools.lru_cache
def known_extra(model: str, transport: Transport, api_base: str | None) -> frozenset[str] | None:
    """Allowed fields of `extra` for a model at its provider or through litellm; None for a user's endpoint, which may take
    any."""
    if transport == "local" or transport == "direct" and api_base:
        return None
    known = PROVIDERS.get(provider_of(model))
    return SAMPLING if known is None else known.extra


# Every call asks for it, and a run has few models.
@functools.lru_cache
def provider_of(model: str) -> str:
    """The model's provider: the part before the first slash, else derived from the bare name; empty if unknown."""
    root, slash, _ = model.partition("/")
    if slash:
        return root
    return next((name for name, known in PROVIDERS.items() if known.bare and re.match(known.bare, model)), "")


def wire_name(model: str) -> str:
    """The model's name to send to an endpoint of OpenAI's protocol: without the provider's prefix."""
    prefix = _provider(model)
    if not prefix:
        return model
    name = model.partition("/")[2]
    return name if "/" in name else f"{PROVIDERS[prefix].models}{name}"


def _provider(model: str) -> str:
    """The provider's prefix in the name; empty if there is none."""
    prefix, slash, _ = model.partition("/")
    return prefix if slash and prefix in PROVIDERS else ""
