"""The provider-neutral transport: litellm, one attempt a call. Part of the llm room; imports litellm when it is first used."""

from __future__ import annotations

import functools
import os
from dataclasses import replace
from typing import Any

from summhay_ray.llm.answers import reply_of
from summhay_ray.llm.models import ModelSettings
from summhay_ray.llm.reply import Reply
from summhay_ray.llm.request import Request
from summhay_ray.llm.sampling import bounded
from summhay_ray.llm.transport import spare_collector


@functools.cache
def load_litellm() -> Any:
    """The litellm module, imported once (seconds), with its network look-ups and prints switched off."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("LITELLM_LOG", "ERROR")
    import litellm

    litellm.suppress_debug_info = True
    litellm.telemetry = False
    litellm.drop_params = False
    _spare_its_books()
    return litellm


def _spare_its_books() -> None:
    """Prices and logs are ours: litellm's sum of each call and its log entry, which nobody reads, cost a fifth of its speed."""
    from litellm.litellm_core_utils.litellm_logging import Logging

    async def nothing(*_: Any, **__: Any) -> None:
        return None

    for name, instead in (("response_cost_calculator", lambda *_, **__: None), ("async_success_handler", nothing)):
        # Another version may have no such thing: then it is as slow as it is.
        if hasattr(Logging, name):
            setattr(Logging, name, instead)


def _make_known(litellm: Any, settings: ModelSettings) -> None:
    """Enter a model that litellm's map lacks: else litellm searches for it several times a call, in all patterns that it has.

    What it makes of the price is not used.
    """
    if settings.local or not settings.api_base:
        return
    try:
        litellm.get_model_info(settings.model)
    # The border to litellm, which raises a bare Exception for a model that it does not know.
    except Exception:  # noqa: BLE001
        provider = settings.model.partition("/")[0]
        price = settings.price
        rates = {"input_cost_per_token": price.input_per_mtok / 1e6, "output_cost_per_token": price.output_per_mtok / 1e6}
        litellm.register_model({settings.model: {"litellm_provider": provider, "mode": "chat", **rates}})


class LitellmTransport:
    """Every provider that litellm knows, and the models that run in this process."""

    def __init__(self) -> None:
        self._litellm = load_litellm()
        self._known: set[str] = set()
        self._warm = False

    async def send(self, request: Request, settings: ModelSettings, key: str | None) -> Reply:
        """One call of `litellm.acompletion`. Raises litellm's errors, and those of the SDKs behind it."""
        if settings.model not in self._known:
            self._known.add(settings.model)
            _make_known(self._litellm, settings)
        arguments = bounded(request.sampling)
        if request.lookup:
            arguments["extra_body"] = {**arguments.get("extra_body", {}), "lookup": request.lookup}
        response = await self._litellm.acompletion(
            model=request.model,
            messages=[{"role": "user", "content": request.prompt}],
            api_base=settings.api_base,
            api_key=key,
            timeout=settings.timeout_s,
            max_retries=0,
            **arguments,
        )
        if not self._warm:
            # The first call imports most of litellm.
            self._warm = True
            spare_collector()
        reply = reply_of(response.model_dump(mode="json", warnings=False))
        return replace(reply, raw=None) if settings.local else reply

    async def close(self) -> None:
        """litellm's connections live as long as the process."""
