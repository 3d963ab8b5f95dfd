"""Tokens as OpenAI's cl100k_base counts them, offline. Part of the `llm` room; rooms above count and cut contexts with it.

tiktoken bundles no vocabulary and would ask the network; litellm's package folder holds it, so it is read from there.
Text is never read as a special token: a document may contain `<|endoftext|>`.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tiktoken

# tiktoken names a cached vocabulary by the sha1 of the address that it would fetch it from
_VOCABULARY = "9b5ad71b2ce5302211f9c61530b329a4922fc6a4"
_LOADING = threading.Lock()
_KEPT_COUNTS = 65_536

# The splitting pattern of cl100k_base takes whitespace in Unicode's sense; Python's `\s` would add U+001C to U+001F.
_BLANKS = "\t\x0b\x0c \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_SPACES = _BLANKS + "\r\n"
_WORD_END = re.compile(f"(?<=[^{_SPACES}])(?=[{_BLANKS}])")
_LONG_RUN = 100_000
_PART = 200_000


def encode(text: str) -> list[int]:
    """The cl100k tokens of `text`, the same as tiktoken's `encode_ordinary` gives."""
    encoding = _encoding()
    return [token for part in _parts(text) for token in encoding.encode_ordinary(part)]


def count(text: str) -> int:
    """How many cl100k tokens `text` has. Counts are remembered by content: one document is counted for many cells."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    known = _counts()
    found = known.get(digest)
    if found is None:
        encoding = _encoding()
        found = sum(len(encoding.encode_ordinary(part)) for part in _parts(text))
        if len(known) >= _KEPT_COUNTS:
            known.clear()
        known[digest] = found
    return found


def first_tokens(text: str, n: int) -> str:
    """The text of the first `n` cl100k tokens: a prefix of `text`, all of it where it has no more than `n`.

    A cut may fall inside a character; its incomplete bytes are dropped, so the text may be shorter than the tokens are.
    """
    encoding = _encoding()
    kept: list[int] = []
    for part in _parts(text):
        kept.extend(encoding.encode_ordinary(part))
        if len(kept) > n:
            # a prefix of valid UTF-8 can be invalid at its end only, so that nothing but a cut character is ignored
            return encoding.decode_bytes(kept[: max(n, 0)]).decode("utf-8", errors="ignore")
    return text


@functools.cache
def _counts() -> dict[bytes, int]:
    return {}


@functools.cache
def _encoding() -> tiktoken.Encoding:
    import tiktoken

    folder = _vocabulary_folder()
    with _LOADING:
        before = os.environ.get("TIKTOKEN_CACHE_DIR")
        os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)
        try:
            return tiktoken.get_encoding("cl100k_base")
        finally:
            if before is None:
                del os.environ["TIKTOKEN_CACHE_DIR"]
            else:
                os.environ["TIKTOKEN_CACHE_DIR"] = before


def _vocabulary_folder() -> Path:
    """Where litellm's package keeps the vocabulary, found without importing litellm. Raises FileNotFoundError."""
    spec = importlib.util.find_spec("litellm")
    for root in (spec.submodule_search_locations or []) if spec else []:
        folder = Path(root) / "litellm_core_utils" / "tokenizers"
        if (folder / _VOCABULARY).is_file():
            return folder
    raise FileNotFoundError(
        f"the cl100k_base vocabulary (tokenizers/{_VOCABULARY}) is not in the installed litellm; install litellm>=1.100"
    )


def _parts(text: str, part: int = _PART, run: int = _LONG_RUN) -> Iterator[str]:
    """`text` in pieces whose tokens, one after another, are exactly the tokens of `text`.

    tiktoken's pattern matcher overflows its stack on whitespace of a million characters before a word, and a cut of the
    first tokens should not encode ten megabytes: so long runs of whitespace, and text beyond `part` characters, are cut
    where the pattern certainly ends a match. Since it never looks behind, what follows such a place encodes as if alone.
    """
    start = 0
    for cut in _cuts(text, part, run):
        yield text[start:cut]
        start = cut
    yield text[start:]


def _cuts(text: str, part: int, run: int) -> Iterator[int]:
    if len(text) <= min(part, run):
        return
    start = 0
    for blank in _long_runs(run).finditer(text):
        first, end = blank.span()
        if end == len(text):
            break
        # A run before a word is matched up to its last line break, then up to its last character, which joins the word.
        line = max(text.rfind("\n", first, end), text.rfind("\r", first, end)) + 1 or first
        yield from _word_ends(text, start, first, part)
        yield line
        if end - line >= 2:
            yield end - 1
        start = max(line, end - 1)
    yield from _word_ends(text, start, len(text), part)


def _word_ends(text: str, start: int, stop: int, part: int) -> Iterator[int]:
    """Places about `part` characters apart where a blank that is no line break follows a word: no match spans them."""
    while stop - start > part:
        found = _WORD_END.search(text, start + part, stop)
        if found is None:
            return
        start = found.start()
        yield start


@functools.cache
def _long_runs(length: int) -> re.Pattern[str]:
    return re.compile(f"(?<![{_SPACES}])[{_SPACES}]{{{length},}}")
