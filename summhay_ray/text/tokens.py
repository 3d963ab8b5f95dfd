"""Tokens as OpenAI's cl100k_base counts them, offline. Part of the text room; imported from `summhay_ray.text`.

tiktoken bundles no vocabulary and would ask the network; litellm's package folder holds it, so it is read from there.
Text is never read as a special token: a document may contain `<|endoftext|>`.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tiktoken

# tiktoken names a cached vocabulary by the sha1 of the address that it would fetch it from
_VOCABULARY = "9b5ad71b2ce5302211f9c61530b329a4922fc6a4"
_LOADING = threading.Lock()
_KEPT_LETTERS = 16_000_000
"""Texts whose counts are remembered have so many letters together at most."""
_ENTRY = 100
"""What an entry takes beside its letters."""
_BLANK_LINE = "\n\n"

# The splitting pattern of cl100k_base takes whitespace in Unicode's sense; Python's `\s` would add U+001C to U+001F.
_BLANKS = "\t\x0b\x0c \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_SPACES = _BLANKS + "\r\n"
_WORD_END = re.compile(f"(?<=[^{_SPACES}])(?=[{_BLANKS}])")
_LONG_RUN = 100_000
_PART = 200_000


def encode_tokens(text: str) -> list[int]:
    """The cl100k tokens of `text`, the same as tiktoken's `encode_ordinary` gives."""
    encoding = _encoding()
    return [token for part in _parts(text) for token in encoding.encode_ordinary(part)]


def token_pieces(text: str) -> list[bytes]:
    """The cl100k tokens of `text` as bytes, of which one may hold a part of a character."""
    return [_encoding().decode_single_token_bytes(token) for token in encode_tokens(text)]


def count_tokens(text: str) -> int:
    """How many cl100k tokens `text` has, the same number as tiktoken's; but for a token or two in each 200,000 characters of a
    text that has no place to cut it.

    Counts are remembered by paragraph, so that a document is counted once, in however many prompts it stands.
    """
    whole, ended = _counts()
    *paragraphs, last = text.split(_BLANK_LINE)
    begins = [paragraph[:1] for paragraph in paragraphs[1:]]
    begins.append(last[:1] or ".")
    if "" in begins or any(map(str.isspace, begins)):
        return sum(map(whole.__getitem__, _joined([*paragraphs, last])))
    return sum(map(ended.__getitem__, paragraphs)) + (whole[last] if last else 0)


def _joined(paragraphs: list[str]) -> list[str]:
    """The text whose paragraphs these are, cut after a blank line wherever a new paragraph does not begin with whitespace."""
    parts = [[paragraphs[0]]]
    for paragraph in paragraphs[1:]:
        if not paragraph or paragraph[0].isspace():
            parts[-1].append(paragraph)
        else:
            parts[-1].append("")
            parts.append([paragraph])
    return [_BLANK_LINE.join(part) for part in parts]


class _Counts(dict[str, int]):
    """Text -> the tokens of it and `end`; forgets all where it grows too large.

    No match of the pattern goes on from a line break to anything but whitespace. So where a run of line breaks ends before
    something else, a match ends, too, and at the end of a text such a run is matched as it is before a word: the tokens of
    the parts that `count_tokens` looks up are, one after another, the tokens of the text.
    """

    def __init__(self, end: str) -> None:
        super().__init__()
        self._end = end
        self._letters = 0
        self._keeping = threading.Lock()

    def __missing__(self, text: str) -> int:
        encoding = _encoding()
        found = sum(len(encoding.encode_ordinary(part)) for part in _short(_parts(text + self._end)))
        size = len(text) + _ENTRY
        if size <= _KEPT_LETTERS:
            # Long texts are counted in threads.
            with self._keeping:
                self._letters += size
                if self._letters > _KEPT_LETTERS:
                    self.clear()
                    self._letters = size
                self[text] = found
        return found


# Every repeat of a query, and its plan, cuts the same document at the same place.
@functools.lru_cache(maxsize=1024)
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
def _counts() -> tuple[_Counts, _Counts]:
    """Of texts as they are, and of paragraphs with the blank line that ends them."""
    return _Counts(""), _Counts(_BLANK_LINE)


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


def _short(parts: Iterable[str]) -> Iterator[str]:
    """The parts, those without a place to cut them cut anyway: one piece takes 40 bytes and more a character in tiktoken."""
    for part in parts:
        step = _PART if len(part) > 2 * _PART else len(part) or 1
        yield from (part[start : start + step] for start in range(0, len(part), step))


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
