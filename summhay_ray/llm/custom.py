"""litellm's custom providers for models that run in the worker: `offline/...` and `replay/...`. Part of the llm room."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from summhay_ray.llm.local import LocalModel
from summhay_ray.llm.request import Request
from summhay_ray.llm.tokens import count
from summhay_ray.llm.via_litellm import load_litellm

litellm: Any = load_litellm()


class MissingAnswer(litellm.BadRequestError):  # type: ignore[misc]
    """A local model has no answer to give to this request."""


class LocalProvider(litellm.CustomLLM):  # type: ignore[misc]
    """One provider (`offline` or `replay`): answers with the local model of the name."""

    def __init__(self, provider: str, models: Mapping[str, LocalModel]) -> None:
        super().__init__()
        self._provider = provider
        self._models = dict(models)

    async def acompletion(self, *args: Any, **kwargs: Any) -> Any:
        """litellm's hook: the answer of the local model as a provider's response, with its own token counts."""
        name = f"{self._provider}/{kwargs['model']}"
        model = self._models.get(name) or self._models.get(f"{self._provider}/")
        if model is None:
            raise litellm.NotFoundError(f"no local model is named {name!r}", model=name, llm_provider=self._provider)
        prompt = kwargs["messages"][0]["content"]
        lookup = (kwargs.get("optional_params") or {}).get("extra_body", {}).get("lookup", "")
        try:
            text = model.answer(Request(model=name, prompt=prompt, lookup=lookup))
        except (KeyError, IndexError):
            # A mistake of the model's own, which its contract does not count as a missing answer.
            raise
        except LookupError as error:
            message = str(error.args[0]) if error.args else "no answer"
            raise MissingAnswer(message, model=name, llm_provider=self._provider) from error
        response = kwargs["model_response"]
        response.model = name
        response.choices[0].message.content = text
        response.choices[0].finish_reason = "stop"
        tokens_in, tokens_out = count(prompt), count(text)
        response.usage = litellm.Usage(prompt_tokens=tokens_in, completion_tokens=tokens_out, total_tokens=tokens_in + tokens_out)
        return response


def register(models: Mapping[str, LocalModel]) -> None:
    """Make the models (by full name, or by `provider/` for a family) known to litellm in this process; the last call counts."""
    providers = {name.split("/", 1)[0] for name in models}
    kept = [entry for entry in litellm.custom_provider_map if entry["provider"] not in providers]
    for provider in sorted(providers):
        mine = {name: model for name, model in models.items() if name.startswith(f"{provider}/")}
        kept.append({"provider": provider, "custom_handler": LocalProvider(provider, mine)})
    litellm.custom_provider_map = kept
    litellm.utils.custom_llm_setup()
