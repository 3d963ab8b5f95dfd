"""Providers' keys. Decides which key is sent to which URL, and hides keys in logs, reports and errors.

Every transport calls `key_for` before each request: `direct` for its own requests, and `via_litellm` for those of litellm's SDKs.
No other code adds a provider's key. The key depends on the URL to which the request really goes.

Secrets are recognized by their values, not by names or formats. These are the keys that were sent, and the values of the
variables for keys: `SECRET_VARIABLES`, every `api_key_env`, and the passwords of proxies.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import html
import json
import math
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from summhay_ray.llm import provider_table
from summhay_ray.llm.model_settings import ModelSettings

NO_KEY = "no-key"
"""Placeholder for a missing key. Headers that contain it are not sent to a foreign endpoint."""
HIDDEN = "***"

SHORTEST = 8
"""Minimum length of a secret. Shorter values (none, EMPTY, ...) are not secrets, and hiding them would damage texts."""

UNMISTAKABLE = 16
"""Minimum length of a secret that does not occur in a text by chance, since no word is so long."""

SENT: set[str] = set()
"""The values that this process has read or sent as keys, including login tokens."""

_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)$", re.IGNORECASE)
_SECRET_FIELD = re.compile(r"key|token|secret|password", re.IGNORECASE)
_SECRET_HEADER = re.compile(r"authorization$|cookie$|(?<!idempotency-)key$|(token|secret|password|sig)$", re.IGNORECASE)
_RANDOM = re.compile(rf"(?=\S*\d)(?=\S*[A-Za-z])\S{{{UNMISTAKABLE},}}")
_PROXY = re.compile(r"(?:\w+://)?([^:/@]*):([^/]*)@")
_KEY_LIKE = re.compile(r"\b(sk|key|AIza)[-_A-Za-z0-9]{12,}|(?<=://)[^\s/@]+(?=@)|(?<=[Bb]earer )[^\s\"',]{8,}")


class NoKey(Exception):
    """Raised if a key is missing, or cannot be read or sent. The message names the variable or the file, never its content."""


def key_in(*variables: str) -> str | None:
    """Return the first key in these variables, or in the files that `VARIABLE_FILE` names; None if there is none. Raises NoKey.

    `key_for` decides which variables may be read for which URL.
    """
    for name in variables:
        value = os.environ.get(name, "").strip()
        if not value and (path := os.environ.get(f"{name}_FILE")):
            try:
                value = Path(path).read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise NoKey(f"{name}_FILE names {path!r}, which cannot be read as a key ({type(error).__name__})") from error
        # No header can contain this value. An SDK would print the key in its error, or raise an error as if the call had been
        # sent.
        if value and not (value.isascii() and value.isprintable()):
            raise NoKey(f"{name} (or the file that {name}_FILE names) holds more than a key: line breaks or letters no key has")
        if value:
            SENT.add(value)
            return value
    return None


def find_key(settings: ModelSettings) -> tuple[bool, str]:
    """Return (whether the environment has the model's key, where it is or how to set it). The key is in the variable that the
    spec names, else in one of the provider's variables."""
    named = settings.api_key_env
    variables = (named,) if named else provider_table.needed_variables(provider_table.provider_of(settings.model))
    if settings.api_base and not named:
        return True, f"the spec names none for {settings.api_base}, which may need none"
    if not variables:
        return True, "the spec names none; the provider's own variables are used"
    try:
        found = next((variable for variable in variables if key_in(variable)), "")
    except NoKey as error:
        return False, str(error)
    if found:
        return True, f"{found} is set" if os.environ.get(found) else f"{found} comes from a file"
    mend = f"export it, or the path of a file that holds it as {variables[0]}_FILE, where the workers run"
    return False, f"{variables[0]} is not set; {mend}"


def note_sent(fields: Iterable[tuple[str, str]]) -> None:
    """Add the keys in a request's headers or query parameters to `SENT`. `fields`: (name, value) of each.

    A signature (`AWS4-HMAC-SHA256 Credential=..., ...`) is not a key, since it is useless for other requests.
    """
    for name, value in fields:
        words = value.split()
        if _SECRET_HEADER.search(name) and 1 <= len(words) <= 2:
            SENT.add(words[-1])


class Secrets:
    """Values to hide, of at least `SHORTEST` characters. They are found in every encoding of JSON, URLs and HTML."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        long_enough = {value for value in values if len(value) >= SHORTEST}
        self.values = tuple(sorted(long_enough, key=lambda value: (-len(value), value)))
        """The values, longest first."""
        # Search for a word first, which is much faster than for a pattern. Each encoding of a value contains the value's longest
        # plain word.
        self._words = [(max(re.findall(_PLAIN, value), key=len, default=""), value) for value in self.values]

    def unmistakable(self, but: str | None = None) -> Secrets:
        """Return the values of at least `UNMISTAKABLE` characters, except `but`. Texts with these values are refused, so there
        must be no false matches."""
        return Secrets(value for value in self.values if len(value) >= UNMISTAKABLE and value != but)

    def are_in(self, text: str) -> bool:
        """Return whether the text contains a secret."""
        return any(pattern.search(text) for pattern in self._patterns(text))

    def _patterns(self, text: str) -> Iterator[re.Pattern[str]]:
        return (_pattern_of(value) for word, value in self._words if word in text)

    def hide(self, value: Any) -> Any:
        """Return a JSON value without the secrets, lone surrogates (which tables cannot store), NaN or infinity.

        This also finds secrets that are split across the strings of a list, the tokens of log probabilities or the parts of a
        message.
        """
        if isinstance(value, str):
            for pattern in self._patterns(value):
                value = pattern.sub(HIDDEN, value)
            return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if isinstance(value, dict):
            return {self.hide(str(name)): self.hide(inner) for name, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self.hide(inner) for inner in self._hide_across(value)]
        return None if isinstance(value, float) and not math.isfinite(value) else value

    def _hide_across(self, entries: list[Any] | tuple[Any, ...]) -> Iterator[Any]:
        """Yield the entries of a list, without secrets that are split across their texts."""
        # The texts that may be parts of a longer text: strings, tokens, or parts of a message.
        held = [entry.get("token", entry.get("text")) if isinstance(entry, dict) else entry for entry in entries]
        texts = [text if isinstance(text, str) else "" for text in held]
        joined = "".join(texts)
        spans = [match.span() for pattern in self._patterns(joined) for match in pattern.finditer(joined)]
        end = 0
        for entry, text in zip(entries, texts, strict=True):
            begin, end = end, end + len(text)
            hits = [(first, last) for first, last in spans if first < end and begin < last]
            shown = text if all(begin <= first and last <= end for first, last in hits) else HIDDEN
            if not hits:
                yield entry
            elif isinstance(entry, str):
                yield shown
            elif "token" in entry:
                # `bytes` and the alternatives repeat the token.
                rest = {name: inner for name, inner in entry.items() if name not in ("bytes", "top_logprobs")}
                yield {**rest, "token": shown, **({"top_logprobs": []} if "top_logprobs" in entry else {})}
            else:
                yield {**entry, "text": shown}

    def one_line(self, error: BaseException) -> str:
        """Return the error's message in one line of at most 500 characters, without anything that is or looks like a key."""
        text = " ".join(self.hide(str(error)).split())
        return _KEY_LIKE.sub(HIDDEN, text)[:500] or type(error).__name__


def known_secrets(named: Iterable[str] = ()) -> Secrets:
    """Return the secrets of this process: `SENT`, and the current keys in its environment and key files. `named`: each
    `api_key_env`.

    Other variables whose names suggest a secret count only if their values look random, since a common word in an answer is not a
    leak.
    """
    names, values = {*provider_table.SECRET_VARIABLES, *named}, set(SENT)
    for variable, value in os.environ.items():
        name = variable.removesuffix("_FILE")
        if name in names or variable in names:
            values.update(_credentials(_content(value)))
        elif _SECRET_NAME.search(name):
            values.update(filter(_RANDOM.fullmatch, [value.strip(), _content(value) if name != variable else ""]))
        elif name.lower() in ("http_proxy", "https_proxy", "all_proxy") and (login := _PROXY.match(value)):
            # Add the password, and the form in which it is sent.
            user, password = map(unquote, login.groups())
            sent = base64.b64encode(f"{user}:{password}".encode("utf-8", "surrogateescape")).decode("ascii")
            values.update((login[2], password, sent))
    return Secrets(values)


def _content(value: str) -> str:
    """Return a variable's value, or the content of the file that it names."""
    # An unreadable file counts as having no key. Code that needs the key raises NoKey.
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if os.path.isfile(value):
            return Path(value).read_text(encoding="utf-8").strip()
    return value.strip()


def _credentials(text: str) -> Iterator[str]:
    """Yield the secrets in a key or in a credentials file: the whole text and each line. In JSON, only fields for keys count, not
    those for accounts."""
    try:
        yield from _fields(json.loads(text))
    except (AttributeError, ValueError, RecursionError):
        yield text
        yield from (line.strip() for line in text.splitlines() if not line.startswith("-----"))


def _fields(credentials: Any) -> Iterator[str]:
    for name, value in credentials.items():
        if isinstance(value, dict):
            yield from _fields(value)
        elif isinstance(value, str) and _SECRET_FIELD.search(name) and not value.startswith(("http://", "https://")):
            yield from _credentials(value.strip())


_PLAIN = r"[A-Za-z0-9._~-]+"
_ESCAPE = r"\\{{1,8}}u{}"
_WHITE = r"(?:\s|\+|%20|(?i:%0[9ad])|\\{1,8}(?:[nrt]|u00(?i:0[9ad]|20))){1,16}"


@functools.lru_cache(maxsize=1024)
def _pattern_of(value: str) -> re.Pattern[str]:
    """Return a pattern that matches all encodings of a value in JSON (even nested), URLs and HTML."""
    parts = re.split(r"(\s+)", value)
    return re.compile("".join(_WHITE if part.isspace() else "".join(map(_character, part)) for part in parts))


@functools.lru_cache
def _character(letter: str) -> str:
    if re.fullmatch(_PLAIN, letter):
        return re.escape(letter)
    units = re.findall("....", letter.encode("utf-16-be", "surrogatepass").hex())
    octets = re.findall("..", letter.encode("utf-8", "surrogatepass").hex())
    entity = html.escape(letter)
    forms = [entity, f"&#0?{ord(letter)};", f"(?i:&#x{ord(letter):x};)"] if entity != letter else []
    forms.append(r"\\{1,8}" if letter == "\\" else r"\\{0,8}" + re.escape(letter))
    forms.append(f"(?i:{''.join(map(_ESCAPE.format, units))}|%{'%'.join(octets)})")
    return f"(?:{'|'.join(forms)})"


def key_for(settings: ModelSettings, url: str | None) -> str | None:
    """Return the key to send with a request to the URL; None for no key. Raises NoKey if the request may not be sent.

    A request goes to the spec's `api_base` or, without one, to the provider's own domains. Its key is the one that the spec names
    in `api_key_env`. Otherwise it is the provider's own key, but only for the provider's domains, for this machine, or if the
    provider is only a protocol. `url` is None if litellm chooses the address. Then the result is the key for the provider's own
    domains, and `via_litellm` asks again when the address is known.
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


# The result is cached, since every call needs it and a run has few models.
@functools.lru_cache
def _admit(
    model: str, api_base: str | None, api_key_env: str | None, url: str | None
) -> tuple[tuple[str, ...], provider_table.Place, bool]:
    """Return (the variables of the key for a request to the URL, the kind of place at the URL, whether a key is needed there).

    Raises NoKey if, by the spec, the model's requests do not go to the URL.
    """
    provider = provider_table.provider_of(model)
    known, place = provider_table.PROVIDERS.get(provider), provider_table.place_of(provider, url)
    # litellm or the worker's environment may have an address for this provider, but the spec has none.
    unknown_place = not api_base and not (known and known.domains)
    if url and not (api_base and provider_table.origin_of(provider, url) == provider_table.origin_of(provider, api_base)):
        at_home = place == "own" or unknown_place and not provider_table.is_owned(url)
        if provider_table.place_of(provider, api_base) != "own" or not at_home:
            host = provider_table.origin_of(provider, url).partition("://")[2].rpartition(":")[0]
            whose = f"the api_base of {model}" if api_base else f"{provider}'s own; write it as api_base"
            raise NoKey(f"a request to {host} was not sent: the host is not {whose}")
    names: tuple[str, ...] = (api_key_env,) if api_key_env else ()
    if not names and provider and (place != "elsewhere" or unknown_place or known and known.anywhere):
        names = provider_table.own_variables(provider)
    needed = place == "own" and bool(known and known.domains and not known.login and not known.token)
    return names, place, needed


def key_for_litellm(settings: ModelSettings) -> str | None:
    """Return the key to pass to litellm. It is None only for the provider's own domain, where litellm may log in without a key.

    For other endpoints, a placeholder replaces a missing key, since litellm would search for a key. Raises NoKey.
    """
    model, provider = settings.model, provider_table.provider_of(settings.model)
    known = provider_table.PROVIDERS.get(provider)
    if known is None:
        mend = "write openai/NAME and its api_base" if provider else f"write PROVIDER/{model}"
        raise NoKey(f"{model}: its provider is unknown; {mend}")
    own = provider_table.place_of(provider, settings.api_base) == "own"
    key = key_for(settings, settings.api_base)
    if not known.domains or not own and (key or not known.login) and known.variables:
        return key or NO_KEY
    if not own:
        mend = "name the endpoint's key in api_key_env" if known.variables else "reach the endpoint as openai/NAME"
        raise NoKey(f"{model}: the login of {provider} is sent to its own addresses only; leave api_base out, or {mend}")
    return key


def foreign_key(api_key_env: str | None, model: str, api_base: str | None = None) -> str:
    """Return why a model's entry would send a key to a foreign endpoint, in one line; empty if it would not.

    The key in a provider's variables may be sent only to the provider's domains and to this machine.
    """
    provider = provider_table.provider_of(model)
    if api_key_env and (provider not in provider_table.PROVIDERS or api_key_env not in provider_table.own_variables(provider)):
        return f"api_key_env: {api_key_env} is not its provider's own variable; --untrusted reads no other"
    known = provider_table.PROVIDERS.get(provider)
    if provider_table.place_of(provider, api_base) not in ("own", "here") and (api_key_env or known and known.anywhere):
        return f"api_base: its key would go to {api_base}; --untrusted sends a key to its provider's own domain only"
    return ""
