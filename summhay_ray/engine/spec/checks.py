"""Checks for `spec.py`: a model's entry must have no secrets and no reserved parameters; an untrusted spec must stay in its
folder."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel

from summhay_ray.errors import UserError
from summhay_ray.inputs import real_path
from summhay_ray.llm import RESERVED, foreign_key

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET_WORDS = {"auth", "authorization", "bearer", "credential", "credentials", "passwd", "password", "private", "pwd"} | {
    *("secret", "token")
}
_KEY_LIKE = re.compile(r"\b(sk|key|AIza)[-_][-_A-Za-z0-9]{12,}|PRIVATE KEY")
_URL = re.compile(r"https?://[^\s/\\]+(/\S*)?", re.IGNORECASE)
_PUBLIC = re.compile(r"[\w.-]+\.[a-z]{2,}(/.*)?", re.IGNORECASE)
_OWN = {
    "api_base": "api_base",
    "base_url": "api_base",
    "max_completion_tokens": "max_tokens",
    "max_tokens": "max_tokens",
    "model": "model",
    "revision": "revision",
    "seed": "seed",
    "temperature": "temperature",
    "timeout": "timeout_s",
}
"""Name of a parameter -> the field of a model's entry that sets it. So `extra` must not set it, too."""


def flaw(extra: Mapping[str, Any], api_base: str | None, api_key_env: str | None, priced: bool) -> str:
    """Return what is wrong with these fields of an entry, in one line without secrets; empty if nothing is wrong.

    `priced`: whether the entry has its own `price`. Other service tiers need one, since known prices are for the standard tier.
    """
    if extra and (wrong := _flaw_of_extra(extra, priced)):
        return wrong
    if api_key_env is not None and not _VARIABLE.fullmatch(api_key_env):
        return "api_key_env: expected the name of an environment variable, such as OPENAI_API_KEY, and never the key itself"
    if api_base is not None and not _plain_url(api_base):
        return "api_base: expected a URL without user, password or query; keys do not belong in a spec"
    if api_base is not None and not _URL.fullmatch(api_base):
        if _URL.fullmatch(f"http://{api_base}") and "://" not in api_base:
            scheme = "https" if _PUBLIC.fullmatch(api_base) else "http"
            return f"api_base: {api_base} has no scheme; write {scheme}://{api_base}"
        return f"api_base: {api_base!r} is no URL; write http:// or https:// and a host, such as http://localhost:8000/v1"
    return ""


def _flaw_of_extra(extra: Mapping[str, Any], priced: bool) -> str:
    """Return what is wrong with an entry's `extra`, which is not empty; see `flaw`."""
    for path, name in _names(extra):
        words = re.split(r"[^a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower())
        if "key" in name.lower() or not _SECRET_WORDS.isdisjoint(words):
            return f"extra.{path}: keys do not belong in a spec; name the variable in api_key_env"
    if _KEY_LIKE.search(repr(extra)):
        return "extra: a value looks like a key; keys do not belong in a spec; name the variable in api_key_env"
    body = extra.get("extra_body")
    for name in [*extra, *(body if isinstance(body, Mapping) else ())]:
        if name in _OWN:
            return f"extra.{name}: write {_OWN[name]} next to extra, not in it"
        if name in RESERVED:
            return f"extra.{name}: leave it out; this package decides how a call is made, so that it is made and paid only once"
        if name == "n":
            return "extra.n: leave it out and write repeats: N; only the first answer to a call is read"
        if name in ("logprobs", "top_logprobs"):
            return f"extra.{name}: leave it out; what reads log probabilities asks for them itself"
    try:
        json.dumps(extra, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        return f"extra: cannot be sent as JSON ({error}); write text, numbers, true, false, null, lists and mappings"
    tiers = [held.get("service_tier") for held in (extra, body) if isinstance(held, Mapping)]
    if "flex" in tiers:
        return "extra.service_tier: write service_tier: flex next to extra, where it is not part of an answer's key"
    if not priced and any(tier not in (None, "auto", "default", "standard") for tier in tiers):
        return "extra.service_tier: the known price is the standard tier's; add price: {...}"
    return ""


def endpoint_flaw(endpoint_url: str) -> str:
    """Return what is wrong with the URL of the store's S3 service, in one line; empty if nothing is wrong."""
    if _URL.match(endpoint_url) and _plain_url(endpoint_url):
        return ""
    return "endpoint_url: expected http:// or https:// and a host, such as http://127.0.0.1:9000, without user, password or query"


def _names(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    # Stop at a mapping that contains itself. The JSON check refuses it later.
    if depth > 20:
        return
    if isinstance(value, Mapping):
        for name, inner in value.items():
            here = f"{path}.{name}" if path else str(name)
            yield here, str(name)
            yield from _names(inner, here, depth + 1)
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from _names(inner, f"{path}[{index}]", depth + 1)


def _plain_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        _ = parts.port  # Raises ValueError for an invalid port.
    except ValueError:
        return False
    return "@" not in parts.netloc and not parts.query and not parts.fragment and ";" not in url and not _KEY_LIKE.search(url)


_FORM, _WORD = re.compile(r"\w+\(.*\)", re.DOTALL), re.compile(r"[^\s(),]+")


def check_untrusted(spec: Any, folder: Path) -> None:
    """Raise UserError if a spec in `folder` names a file outside the folder, a key for a foreign endpoint, or a service for the
    store."""
    if spec.endpoint_url is not None:
        raise UserError("endpoint_url: it would get the store's credentials; --untrusted takes it from --store alone")
    for model in spec.model_entries():
        if wrong := foreign_key(model.api_key_env, model.model, model.api_base):
            raise UserError(f"{model.label}: {wrong}")
    for text in (value for value in values_in(spec) if isinstance(value, str)):
        # A local model's name may contain a folder, as in `transformers/FOLDER`. A form such as `panel(A,B)` may contain several.
        names = [text, *(_WORD.findall(text) if _FORM.fullmatch(text) else ())]
        for entry in filter(None, (part for name in names for part in (name, name.partition("/")[2]))):
            place = folder / os.path.expanduser(entry)
            if os.path.lexists(place):
                real_path(place, folder)
                # Libraries open the files in a model's folder themselves, so check here that none is a link to another place.
                for file in place.rglob("*") if place != folder else ():
                    real_path(file, folder)


def values_in(value: Any) -> Iterator[Any]:
    """Yield a spec or a part of one, and every value inside it, in order. Keys of mappings are left out."""
    yield value
    if isinstance(value, BaseModel):
        value = [getattr(value, name) for name in type(value).model_fields]
    elif isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, list | tuple):
        return
    for inner in value:
        yield from values_in(inner)
