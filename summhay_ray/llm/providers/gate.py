"""The gate: decides by the actual URL whether a request may be sent, and with which key.

Every transport asks here before each request of any kind (`direct` for its own, `outgoing` for those of litellm's SDKs). No other
code attaches a provider's key.
"""

from __future__ import annotations

import functools

from summhay_ray.llm.providers.model_settings import ModelSettings
from summhay_ray.llm.providers.provider_of_model import provider_of
from summhay_ray.llm.providers.provider_table import PROVIDERS, Place, is_owned, origin_of, own_variables, place_of
from summhay_ray.llm.providers.secrets import NoKey, key_in


def key_for(settings: ModelSettings, url: str | None) -> str | None:
    """The key that a request to the URL carries; None if it carries none. Raises NoKey if no such request may be sent.

    A request goes to the spec's `api_base`, or without one to the provider's own domains. It carries the key that the spec names
    in `api_key_env`. Otherwise it carries the provider's own key, but only at the provider's domains, on this machine, or if the
    provider is only a protocol. `url` is None if litellm chooses the address: the result is then the key for the provider's own
    domains, and `outgoing` asks again when the address is known.
    """
    names, place, needed = _admit(settings.model, settings.api_base, settings.api_key_env, url)
    key = key_in(*names)
    if not key and needed:
        mend = f"export {names[0]} where the workers run, or name another variable in api_key_env"
        raise NoKey(f"{settings.model}: no key; {mend}")
    if key and place == "http":
        base = f"api_base {settings.api_base}" if settings.api_base else url
        raise NoKey(f"{base} belongs to a provider that is reached over https: no key goes there in clear text; write https://")
    return key


# Every call asks, and a run has few models.
@functools.lru_cache
def _admit(model: str, api_base: str | None, api_key_env: str | None, url: str | None) -> tuple[tuple[str, ...], Place, bool]:
    """(The variables of the key for a request to the URL, the kind of place at the URL, whether a key is needed there.)

    Raises NoKey if the spec does not send the model's requests to the URL.
    """
    provider = provider_of(model)
    known, place = PROVIDERS.get(provider), place_of(provider, url)
    # litellm or the worker's environment may have an address of such a provider, but the spec names none.
    unknown_place = not api_base and not (known and known.domains)
    if url and not (api_base and origin_of(provider, url) == origin_of(provider, api_base)):
        at_home = place == "own" or unknown_place and not is_owned(url)
        if place_of(provider, api_base) != "own" or not at_home:
            host = origin_of(provider, url).partition("://")[2].rpartition(":")[0]
            whose = f"the api_base of {model}" if api_base else f"{provider}'s own; write it as api_base"
            raise NoKey(f"a request to {host} was not sent: the host is not {whose}")
    names: tuple[str, ...] = (api_key_env,) if api_key_env else ()
    if not names and provider and (place != "elsewhere" or unknown_place or known and known.anywhere):
        names = own_variables(provider)
    needed = place == "own" and bool(known and known.domains and not known.login and not known.token)
    return names, place, needed


def key_for_litellm(settings: ModelSettings) -> str | None:
    """The key to give to litellm. None only at the provider's own domain, where litellm may log in without a key.

    At other endpoints a placeholder replaces a missing key, since litellm would search for one. Raises NoKey.
    """
    model, provider = settings.model, provider_of(settings.model)
    known = PROVIDERS.get(provider)
    if known is None:
        mend = "write openai/NAME and its api_base" if provider else f"write PROVIDER/{model}"
        raise NoKey(f"{model}: its provider is unknown; {mend}")
    own = place_of(provider, settings.api_base) == "own"
    key = key_for(settings, settings.api_base)
    if not known.domains or not own and (key or not known.login) and known.variables:
        return key or NO_KEY
    if not own:
        mend = "name the endpoint's key in api_key_env" if known.variables else "reach the endpoint as openai/NAME"
        raise NoKey(f"{model}: the login of {provider} is sent to its own addresses only; leave api_base out, or {mend}")
    return key


def foreign_key(api_key_env: str | None, model: str, api_base: str | None = None) -> str:
    """Why a model's entry would send a key to a foreign endpoint, in one line; empty if it would not.

    A provider's key, which is in the provider's variables, may be sent to the provider's domains and to this machine.
    """
    provider = provider_of(model)
    if api_key_env and (provider not in PROVIDERS or api_key_env not in own_variables(provider)):
        return f"api_key_env: {api_key_env} is not its provider's own variable; --untrusted reads no other"
    known = PROVIDERS.get(provider)
    if place_of(provider, api_base) not in ("own", "here") and (api_key_env or known and known.anywhere):
        return f"api_base: its key would go to {api_base}; --untrusted sends a key to its provider's own domain only"
    return ""


NO_KEY = "no-key"
"""Placeholder for a missing key. Headers that hold it are not sent to a foreign endpoint."""
