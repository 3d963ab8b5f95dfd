"""Is this machine ready? Keys, prices, store, Ray and offline models, one line each. Part of the grid room."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
from dataclasses import dataclass

from summhay_ray.grid.cells import Grid
from summhay_ray.grid.local import local_names
from summhay_ray.llm import NoKey, count_tokens, is_local, key_of
from summhay_ray.store import Store, StoreError

PROVIDER_KEYS = {
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "gemini": "GEMINI_API_KEY",
    "cohere": "COHERE_API_KEY",
}
OTHER_NAMES = {"anthropic": ("ANTHROPIC_AUTH_TOKEN",), "gemini": ("GOOGLE_API_KEY",), "cohere": ("CO_API_KEY",)}
"""Variables that litellm reads in the place of the first one."""

_BARE_NAMES = {
    "openai": re.compile(r"(?:ft:)?(?:gpt-|chatgpt-|o[134](?:-|$))"),
    "anthropic": re.compile(r"claude-"),
    "cohere": re.compile(r"command(?:-|$)"),
}
"""Provider -> the models that litellm takes for its own without being told."""


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the doctor's: what, whether it is well, and what was seen or is to be done."""

    name: str
    ok: bool
    message: str


def examine(store_uri: str, grid: Grid | None = None) -> list[Check]:
    """All checks; with a grid also the keys and prices of its models."""
    checks = [_store(store_uri), _ray(), _tokenizer(), _offline()]
    if grid is None:
        seen = [f"{name} {'set' if os.environ.get(name) else 'not set'}" for name in PROVIDER_KEYS.values()]
        return [*checks, Check("keys", True, "; ".join(seen) + "; offline and replay models need none")]
    for model, settings in sorted(grid.settings().items()):
        price = settings.price
        rates = f"{price.input_per_mtok:g} / {price.output_per_mtok:g} dollars a million tokens in / out"
        checks.append(Check(f"price {model}", True, "local, free" if settings.local else rates))
        if not is_local(model):
            checks.append(key_check(model, settings.api_key_env))
    return checks


def missing_keys(grid: Grid) -> list[str]:
    """One line for each model whose key this machine's environment lacks; a model with an endpoint of its own may need none."""
    checks = [
        key_check(model, settings.api_key_env)
        for model, settings in sorted(grid.settings().items())
        if not settings.local and (settings.api_key_env or not settings.api_base)
    ]
    return [f"{check.name.removeprefix('key ')}: {check.message}" for check in checks if not check.ok]


def key_check(model: str, named: str | None) -> Check:
    """Whether the environment holds the model's key: in the variable that the spec names, else in its provider's own."""
    provider = _provider(model)
    variable = named or PROVIDER_KEYS.get(provider)
    if variable is None:
        return Check(f"key {model}", True, "the spec names none; the provider's own variables are used")
    others = () if named else OTHER_NAMES.get(provider, ())
    variable = next((name for name in (variable, *others) if os.environ.get(name)), variable)
    try:
        found = bool(key_of(variable, model))
    except NoKey as error:
        return Check(f"key {model}", False, str(error))
    where = "is set" if os.environ.get(variable) else "comes from a file"
    missing = f"{variable} is not set; export it, or the path of a file that holds it as {variable}_FILE, where the workers run"
    return Check(f"key {model}", found, f"{variable} {where}" if found else missing)


def _provider(model: str) -> str:
    root, slash, _ = model.partition("/")
    return root if slash else next((name for name, bare in _BARE_NAMES.items() if bare.match(model)), root)


def _store(uri: str) -> Check:
    try:
        store = Store(uri)
        folder = store.files.folder
        if folder is None:
            store.files.check()
        else:
            # Looking at a folder that is not there yet must not make it.
            parent = next(path for path in (folder, *folder.parents) if path.exists())
            if not os.access(parent, os.W_OK):
                return Check("store", False, f"{parent} is not writable; give another --store")
        return Check("store", True, f"{store.files.uri}: {len(store.run_ids())} runs")
    except StoreError as error:
        return Check("store", False, str(error))


def _ray() -> Check:
    if importlib.util.find_spec("ray") is None:
        return Check("ray", False, "not installed; pip install 'ray[data]'")
    return Check("ray", True, f"ray {importlib.metadata.version('ray')}, {os.cpu_count()} CPUs here")


def _tokenizer() -> Check:
    try:
        return Check(
            "tokens", True, f"cl100k works offline: {count_tokens('Summary of a Haystack')} tokens in 'Summary of a Haystack'"
        )
    except (OSError, LookupError, ValueError) as error:
        return Check("tokens", False, f"cl100k cannot be loaded: {error}")


def _offline() -> Check:
    return Check("offline models", True, ", ".join(local_names()))
