"""Answers that are numbers: embeddings of texts, and scores of documents.

The log stores them as JSON text: embeddings as `{"dimensions", "float32"}`, with little-endian 4-byte floats in base64; scores as
a list. All numbers are finite as 4-byte floats. If an answer has other numbers, or lacks a vector or score for a text, it has a
*flaw*: it is stored and paid for, but not used.
"""

from __future__ import annotations

import base64
import json
import math
from array import array
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from summhay_ray.llm.request import MOST_TOKENS, Reply, Request, Usage
from summhay_ray.store import Dimensions

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SHOWN = 2000
"""Maximum number of characters that are kept of a body with a flaw."""


def vectors_reply(body: Any, n: int) -> Reply:
    """Read the reply from a body in the format of OpenAI's embeddings. Raises ValueError unless it has an entry for each of the
    `n` texts."""
    entries, rest = _entries(body, "data", n, ("embedding",))
    usage = _usage(body.get("usage"))
    vectors: list[array[float]] = []
    for place, entry in enumerate(entries):
        try:
            vectors.append(_vector(entry))
        except ValueError as error:
            return _flawed(entry, usage, rest, f"the vector at index {place} {error}")
        if len(vectors[-1]) != len(vectors[0]):
            flaw = f"the vector at index {place} has {len(vectors[-1])} dimensions, and the first {len(vectors[0])}"
            return _flawed(entry, usage, rest, flaw)
    packed = base64.b64encode(b"".join(vector.tobytes() for vector in vectors)).decode("ascii")
    text = json.dumps({"dimensions": len(vectors[0]), "float32": packed})
    zeros = sum(not any(vector) for vector in vectors)
    return Reply(text, "stop", usage, rest, numbers=True, zero_vectors=zeros)


def scores_reply(body: Any, n: int) -> Reply:
    """Read the reply from a body in the format of Cohere's rerank. Raises ValueError unless it has an entry for each of the `n`
    documents."""
    entries, rest = _entries(body, "results", n, ("relevance_score", "score"))
    meta = _mapping(body.get("meta"))
    usage = _usage(body.get("usage")) or _usage({**_mapping(meta.get("tokens")), **_mapping(meta.get("billed_units"))})
    for place, entry in enumerate(entries):
        try:
            _float32([entry])
        except ValueError as error:
            return _flawed(entry, usage, rest, f"the score at index {place} {error}")
    return Reply(json.dumps([float(score) for score in entries]), "stop", usage, rest, numbers=True)


def _flawed(entry: Any, usage: Usage | None, rest: Any, flaw: str) -> Reply:
    return Reply(json.dumps(entry)[:SHOWN], "stop", usage, rest, numbers=True, flaw=flaw)


def vectors_of(text: str) -> NDArray[np.float32]:
    """Return the vectors in an answer's text, with shape (texts, dimensions)."""
    import numpy as np

    packed = json.loads(text)
    values = np.frombuffer(base64.b64decode(packed["float32"]), dtype="<f4")
    return values.reshape(-1, packed["dimensions"]).copy()


def scores_of(text: str) -> list[float]:
    """Return the scores in an answer's text, one per document."""
    return [float(score) for score in json.loads(text)]


def flaw_of(request: Request, text: str) -> str:
    """Return what is wrong with a stored answer to a request for vectors or scores; empty if nothing is wrong. Earlier versions
    stored answers without this check."""
    try:
        if request.task == "rerank":
            _float32(json.loads(text))
        elif request.task == "search":
            json.loads(text)
        elif not _finite(vectors_of(text)):
            return f"a vector {NOT_FINITE}"
    except (ValueError, KeyError, TypeError) as error:
        return f"the stored answer {error}"
    return ""


def is_usable(request: Request, text: str, dimensions: Dimensions) -> bool:
    """Return whether stored vectors or scores have no flaw. Vectors must also have the same length as the model's other
    vectors."""
    if flaw_of(request, text):
        return False
    return request.task != "embed" or dimensions.fits(request.space, dimensions_of(text))


def dimensions_of(text: str) -> int:
    """Return the number of dimensions of the vectors in an answer's text."""
    return int(json.loads(text)["dimensions"])


NOT_FINITE = "holds a number that is not finite as a 4-byte float"


def _entries(body: Any, name: str, n: int, fields: tuple[str, ...]) -> tuple[list[Any], dict[str, Any]]:
    """Return one value of each entry in the list `name`, and the rest of the body. The value is the first of `fields` in the
    entry.

    The values are in the order of the entries' indices or, without indices, in the order of the list. Raises ValueError unless
    the indices are 0 to n - 1.
    """
    entries = body.get(name) if isinstance(body, Mapping) else None
    if not isinstance(entries, list):
        raise ValueError(f"the body has no list {name!r}")
    indices = [entry.get("index") if isinstance(entry, Mapping) else False for entry in entries]
    if all(index is None for index in indices):
        indices = list(range(len(entries)))
    if len(entries) != n or any(type(index) is not int for index in indices) or {*indices} != {*range(n)}:
        raise ValueError(f"{len(entries)} entries for {n} texts; expected one for each")
    values = [next((entry[field] for field in fields if field in entry), None) for entry in entries]
    placed = dict(zip(indices, values, strict=True))
    return [placed[place] for place in range(n)], {key: inner for key, inner in body.items() if key != name}


def _vector(given: Any) -> array[float]:
    """Read a vector from a list of numbers, or from 4-byte floats in base64. Raises ValueError if it is empty or not finite."""
    if not isinstance(given, str):
        found = _float32(given)
    else:
        try:
            found = array("f", base64.b64decode(given, validate=True))
        except ValueError as error:
            raise ValueError(f"is not 4-byte floats in base64 ({error})") from error
    if not found:
        raise ValueError("is empty")
    if not _finite(found):
        raise ValueError(NOT_FINITE)
    return found


def _float32(given: Any) -> array[float]:
    """Convert a list of numbers to 4-byte floats. Raises ValueError unless all are finite."""
    if not isinstance(given, list) or any(type(number) not in (int, float) for number in given):
        raise ValueError("is not made of numbers")
    try:
        found = array("f", given)
    except OverflowError:
        raise ValueError(NOT_FINITE) from None
    if not _finite(found):
        raise ValueError(NOT_FINITE)
    return found


def _finite(numbers: Any) -> bool:
    import numpy as np

    return bool(np.isfinite(np.asarray(numbers, dtype=np.float32)).all())


def _mapping(given: Any) -> Mapping[str, Any]:
    return given if isinstance(given, Mapping) else {}


def _usage(given: Any) -> Usage | None:
    """Return the reported input tokens and searches; None if neither is reported."""
    counts = {
        name: min(int(number), MOST_TOKENS)
        for name, number in _mapping(given).items()
        if (type(number) in (int, float) and 0 <= number < math.inf)
    }
    tokens = next((counts[name] for name in ("prompt_tokens", "input_tokens", "total_tokens") if name in counts), None)
    searches = counts.get("search_units", 0)
    return None if tokens is None and not searches else Usage(tokens or 0, 0, searches=searches)
