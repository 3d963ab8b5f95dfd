"""Answers that are numbers: embeddings of texts, scores of documents. Part of the llm room; `benchmark` reads them back.

The log stores them as JSON text: embeddings as `{"dimensions", "float32"}`, with little-endian 4-byte floats in base64; scores
as a list.
"""

from __future__ import annotations

import base64
import json
import math
from array import array
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from summhay_ray.llm.reply import Reply, Usage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def vectors_reply(body: Any, n: int) -> Reply:
    """The reply in the body of OpenAI's embeddings. Raises ValueError unless the body holds `n` vectors of equal length."""
    vectors = [_floats(entry) for entry in _in_order(_listed(body, "data"), n, "embedding")]
    if len({len(vector) for vector in vectors}) != 1 or not vectors[0]:
        raise ValueError("no embeddings: the vectors are empty or differ in length")
    packed = array("f", [number for vector in vectors for number in vector])
    text = json.dumps({"dimensions": len(vectors[0]), "float32": base64.b64encode(packed.tobytes()).decode("ascii")})
    rest = {name: value for name, value in body.items() if name != "data"}
    return Reply(text, "stop", _usage(body.get("usage")), rest, numbers=True)


def scores_reply(body: Any, n: int) -> Reply:
    """The reply in the body of Cohere's rerank. Raises ValueError unless the body holds `n` scores, one per document."""
    scores = [_number(entry) for entry in _in_order(_listed(body, "results"), n, "relevance_score")]
    meta = body.get("meta") if isinstance(body.get("meta"), Mapping) else {}
    billed = {**(meta.get("tokens") or {}), **(meta.get("billed_units") or {})}
    usage = _usage(body.get("usage")) or _usage(billed)
    rest = {name: value for name, value in body.items() if name != "results"}
    return Reply(json.dumps(scores), "stop", usage, rest, numbers=True)


def vectors_of(text: str) -> NDArray[np.float32]:
    """The vectors in an answer's text, with shape (texts, dimensions)."""
    import numpy as np

    packed = json.loads(text)
    values = np.frombuffer(base64.b64decode(packed["float32"]), dtype="<f4")
    return values.reshape(-1, packed["dimensions"]).copy()


def scores_of(text: str) -> list[float]:
    """The scores in an answer's text, one per document."""
    return [float(score) for score in json.loads(text)]


def _listed(body: Any, name: str) -> list[Any]:
    entries = body.get(name) if isinstance(body, Mapping) else None
    if not isinstance(entries, list):
        raise ValueError(f"the body has no list {name!r}")
    return entries


def _in_order(entries: Sequence[Any], n: int, name: str) -> list[Any]:
    """The field `name` of all entries, in the order of their indices. Raises ValueError unless these are 0 to n - 1."""
    placed = {entry.get("index"): entry.get(name) for entry in entries if isinstance(entry, Mapping)}
    if len(entries) != n or sorted(placed, key=str) != sorted(range(n), key=str):
        raise ValueError(f"{len(entries)} entries for {n} texts; expected one for each")
    return [placed[place] for place in range(n)]


def _floats(given: Any) -> list[float]:
    if isinstance(given, str):
        return list(array("f", base64.b64decode(given, validate=True)))
    if not isinstance(given, list):
        raise ValueError("a vector is not a list of numbers")
    return [_number(number) for number in given]


def _number(given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not math.isfinite(given):
        raise ValueError("a vector or score holds something that is not a finite number")
    return float(given)


def _usage(given: Any) -> Usage | None:
    """The input tokens and searches; None if neither is reported."""
    if not isinstance(given, Mapping):
        return None
    tokens = next((given[name] for name in ("prompt_tokens", "input_tokens", "total_tokens") if _counts(given.get(name))), None)
    searches = given.get("search_units") if _counts(given.get("search_units")) else 0
    return None if tokens is None and not searches else Usage(int(tokens or 0), 0, searches=int(searches or 0))


def _counts(given: Any) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool) and math.isfinite(given)
