"""Reads providers' keys, and hides them in all that is logged, reported or raised. Part of the llm room."""

from __future__ import annotations

import contextlib
import math
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

HIDDEN = "***"
_SHORTEST = 8
"""Shorter values (none, EMPTY, ...) are not secrets, and hiding them would damage texts."""
_LONGEST_WORD = 16
_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)$", re.IGNORECASE)
_KEY_LIKE = re.compile(r"\b(sk|key|AIza)[-_A-Za-z0-9]{12,}|(?<=://)[^\s/@]+(?=@)|(?<=[Bb]earer )[^\s\"',]{8,}")


class NoKey(Exception):
    """A key is missing, or cannot be read or sent. The message names the variable or the file, never their content."""


def key_in(*variables: str) -> str | None:
    """The first key that these variables hold, or the files named in `VARIABLE_FILE`; None without any. Raises NoKey.

    `gate` says which variables may be read for which URL.
    """
    for name in variables:
        if value := _value(name):
            return value
    return None


def _value(name: str) -> str | None:
    value = (os.environ.get(name) or "").strip() or _file_key(name)
    # No header can hold such a value. An SDK would print the key in its error, or raise one after which the call may be paid.
    if value and not (value.isascii() and value.isprintable()):
        raise NoKey(f"{name} (or the file that {name}_FILE names) holds more than a key: line breaks or letters no key has")
    return value


def _file_key(name: str) -> str | None:
    path = os.environ.get(f"{name}_FILE")
    if not path:
        return None
    try:
        return Path(path).read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError) as error:
        raise NoKey(f"{name}_FILE names {path!r}, which cannot be read as a key ({type(error).__name__})") from error


def known_secrets(api_key_env: str | None) -> list[str]:
    """The secret values in this process's environment and key files, longest first."""
    secrets = {value for name, value in os.environ.items() if name == api_key_env or _SECRET_NAME.search(name)}
    for name in [name.removesuffix("_FILE") for name in os.environ if name.endswith("_FILE")]:
        if name == api_key_env or _SECRET_NAME.search(name):
            with contextlib.suppress(NoKey):
                secrets.add(_file_key(name) or "")
    # Also without a final line break, as keys are sent.
    secrets |= {value.strip() for value in secrets}
    return sorted((value for value in secrets if len(value) >= _SHORTEST), key=len, reverse=True)


def answer_secrets(api_key_env: str | None) -> list[str]:
    """The secrets to hide in answers: only those that look random, since a common word in an answer is not a leak."""
    random_looking = [value for value in known_secrets(api_key_env) if len(value) >= _LONGEST_WORD and re.search(r"\d", value)]
    return [value for value in random_looking if re.search(r"[A-Za-z]", value) and not re.search(r"\s", value)]


def one_line(error: BaseException, secrets: Iterable[str]) -> str:
    """The error's message in one line of at most 500 characters, without anything that is or looks like a key."""
    text = " ".join(hidden(str(error), secrets).split())
    return _KEY_LIKE.sub(HIDDEN, text)[:500] or type(error).__name__


def hidden(value: Any, secrets: Iterable[str]) -> Any:
    """A JSON value without the secrets, lone surrogates (which no table can hold), NaN or infinity."""
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, HIDDEN)
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {str(name): hidden(inner, secrets) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [hidden(inner, secrets) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
