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


@functools.cache
def load_litellm() -> Any:
    """The litellm module, imported once (seconds), with its network look-ups and prints switched off."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("LITELLM_LOG", "ERROR")
    import litellm

    litellm.suppress_debug_info = True
    litellm.telemetry = False
    litellm.drop_params = False
    return litellm


class LitellmTransport:
    """Every provider that litellm knows, and the models that run in this process."""

    async def send(self, request: Request, settings: ModelSettings, key: str | None) -> Reply:
        """One call of `litellm.acompletion`. Raises litellm's errors, and those of the SDKs behind it."""
        litellm = load_litellm()
        arguments = bounded(request.sampling)
        if request.lookup:
            arguments["extra_body"] = {**arguments.get("extra_body", {}), "lookup": request.lookup}
        response = await litellm.acompletion(
            model=request.model,
            messages=[{"role": "user", "content": request.prompt}],
            api_base=settings.api_base,
            api_key=key,
            timeout=settings.timeout_s,
            max_retries=0,
            **arguments,
        )
        reply = reply_of(response.model_dump(mode="json", warnings=False))
        return replace(reply, raw=None) if settings.local else reply

    async def close(self) -> None:
        """litellm's connections live as long as the process."""
