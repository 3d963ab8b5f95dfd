"""Parses JSON, and hashes the JSON content and texts that keys identify."""

import functools
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any


@functools.lru_cache(maxsize=256)
def text_hash(text: str) -> str:
    """Return the sha256 (hex) of a text. Cached, since every request needs the hash of its template."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def semantic_hash(content: Any) -> str:
    """Return the sha256 (hex) of the canonical JSON of `content`. 1.0 equals 1, and the order of fields does not matter."""
    return hashlib.sha256(canonical_json(content).encode("ascii")).hexdigest()


def canonical_json(content: Any) -> str:
    """Return the content as canonical JSON: sorted fields, no blanks, ASCII, whole floats as integers."""
    return encoded(_plain(content))


encoded = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode


def _plain(value: Any) -> Any:
    """Return the value in JSON types, with whole floats as integers, so that the temperatures 0 and 0.0 give the same key."""
    # A large run hashes many values, and these type checks are fast.
    kind = type(value)
    if kind is str or kind is int or value is None:
        return value
    if kind is dict or isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def parsed_json(content: str | bytes) -> Any:
    """Parse a JSON text.

    Raises ValueError, with a short reason, for invalid JSON and for a lone surrogate in a text or a key. A lone surrogate is half
    a character; neither UTF-8 nor the tables and requests that use it can encode one. Raises RecursionError if the JSON is nested
    too deeply.
    """
    value = json.loads(content)
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = ord(error.object[error.start])
        raise ValueError(f"a text has the lone surrogate \\u{half:04x}, which is half a character; write whole ones") from None
    return value


def read_json_lines(content: str | bytes, name: str, wrong: Callable[[str], Exception] = ValueError) -> Iterator[tuple[str, Any]]:
    """Yield (`name:line`, value) for each line that is not blank. For a line that is not JSON, raise `wrong` with the place and
    the reason.

    Only a line feed ends a line, since texts may contain other characters that break lines, such as U+2028.
    """
    lines: Sequence[str | bytes] = (
        content.split(b"\n") if isinstance(content, bytes) else content.removeprefix("\ufeff").split("\n")
    )
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                value = parsed_json(line)
            except (ValueError, RecursionError) as error:
                raise wrong(f"{name}:{number}: is no JSON ({' '.join(str(error).split())[:100]})") from None
            yield f"{name}:{number}", value
