"""The provider and the transport of a model, derived from its name. Part of the llm room."""

from __future__ import annotations

import re
from typing import Literal

LOCAL_PREFIXES = ("offline/", "replay/", "answers/", "transformers/")
"""Prefixes of models that run in the worker: they have no key, price or limits."""

Transport = Literal["direct", "litellm", "local"]
"""How a model is reached. direct: our own client of OpenAI's protocol. litellm: that library. local: inside the worker."""

_OPENAI_NAMES = """
ai21 ai21_chat aiml apertis baseten cerebras chutes codestral cognition cometapi cortecs custom_openai darkbloom
dashscope deepinfra deepseek docker_model_runner edenai empower featherless_ai fireworks_ai friendliai galadriel github groq
helicone hosted_vllm hyperbolic inception lambda_ai libertai litellm_proxy llamafile lm_studio meta meta_llama mistral
modelscope moonshot morph nano-gpt nebius novita nscale nvidia_nim openai openai_like openrouter parasail perplexity
pinstripes poe prism publicai qwen_ai_platform qwencloud ragflow reka sail sambanova scx-ai synthetic tencent tensormesh
together_ai v0 vercel_ai_gateway vllm volcengine wandb xai xinference zai
"""
_OTHER_NAMES = """
amazon_nova anthropic anthropic_text azure azure_ai azure_text bedrock bedrock_mantle bytez chatgpt clarifai cloudflare cohere
cohere_chat compactifai databricks datarobot gdc gemini gigachat github_copilot gradient_ai heroku huggingface langgraph
lemonade maritalk minimax nlp_cloud oci ollama ollama_chat oobabooga ovhcloud petals predibase replicate sagemaker
sagemaker_chat sagemaker_nova sap scaleway snowflake text-completion-codestral text-completion-inception
text-completion-openai triton vertex_ai vertex_ai_beta watsonx watsonx_text xiaomi_mimo
"""
_OPENAI_PROVIDERS = frozenset(_OPENAI_NAMES.split())
"""litellm's provider prefixes (its `LlmProviders`) whose endpoints accept OpenAI's chat completions unchanged."""
_OTHER_PROVIDERS = frozenset(_OTHER_NAMES.split())
"""The prefixes that need litellm, since the provider has its own protocol, URL scheme or login."""
_PROVIDERS = _OPENAI_PROVIDERS | _OTHER_PROVIDERS

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
    return "direct" if api_base and _provider(model) not in _OTHER_PROVIDERS else "litellm"


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
    return prefix if slash and prefix in _PROVIDERS else ""
