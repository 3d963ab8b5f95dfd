"""Counts tokens with OpenAI's cl100k_base, offline.

tiktoken would download its vocabulary. litellm's package folder contains it, so it is read from there. Text is never interpreted
as a special token, since a document may contain `<|endoftext|>`.
"""

from __future__ import annotations

import functools
import importlib.util
import itertools
import os
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tiktoken

# tiktoken names a cached vocabulary by the sha1 of its download address.
_VOCABULARY = "9b5ad71b2ce5302211f9c61530b329a4922fc6a4"
_LOADING = threading.Lock()
_KEPT_LETTERS = 16_000_000
"""Maximum total length, in characters, of the texts in the cache."""
_ENTRY = 100
"""Overhead of one cached text, in characters."""
_LONG_TEXT = 500
"""Minimum length, in characters, of a text whose count is cached as a whole."""
_MOST_WHOLE = 65_536
"""Maximum number of cached counts of whole texts."""
_BLANK_LINE = "\n\n"
_LONG_PARAGRAPH = 1000
"""Minimum length, in characters, of a paragraph that is counted line by line."""
_LAST_WORDS = 100
"""Number of characters at the end of a long line that must contain the end of a word."""
_LETTERS_A_TOKEN = 6
"""Upper estimate of characters per token, for the first search of `first_tokens`."""

# cl100k_base splits at Unicode whitespace; Python's `\s` would add U+001C to U+001F.
_BLANKS = "\t\x0b\x0c \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_SPACES = _BLANKS + "\r\n"
_WORD_END = re.compile(f"(?<=[^{_SPACES}])(?=[{_BLANKS}])")
_LONG_RUN = 100_000
_PART = 200_000


def encode_tokens(text: str) -> list[int]:
    """Return the cl100k tokens of `text`, like tiktoken's `encode_ordinary`."""
    encoding = _encoding()
    return [token for part in _parts(text) for token in encoding.encode_ordinary(part)]


def token_pieces(text: str) -> list[bytes]:
    """Return the cl100k tokens of `text` as bytes; a token may be a part of a character."""
    return [_encoding().decode_single_token_bytes(token) for token in encode_tokens(text)]


def count_tokens(text: str) -> int:
    """Return the number of cl100k tokens in `text`, as tiktoken does. For a text without white space, the count may be off by one
    or two tokens per 200,000 characters.

    Counts are cached by paragraph, so that a document is counted once for all prompts. They are cached by line, too, so that a
    document is not counted again if it is cut at another place. Counts of longer texts are also cached by their 64-bit hash,
    since a run counts the same prompts as its plan, and repeats have the same prompt.
    """
    if len(text) < _LONG_TEXT:
        return _count_parts(text, _BLANK_LINE)
    count = _WHOLE.get(hash(text))
    if count is None:
        count = _count_parts(text, _BLANK_LINE)
        if len(_WHOLE) >= _MOST_WHOLE:
            _WHOLE.clear()
        _WHOLE[hash(text)] = count
    return count


_WHOLE: dict[int, int] = {}


def _count_parts(text: str, end: str) -> int:
    """Return the sum of the cached counts of the parts of `text`, which `end` separates."""
    whole, ended = _COUNTS[end]
    *parts, last = text.split(end)
    begins = [part[:1] for part in parts[1:]]
    begins.append(last[:1] or ".")
    if "" in begins or any(map(str.isspace, begins)):
        # Split only after the ends that are not followed by whitespace.
        joined = [[*parts, last][:1]]
        for part in [*parts, last][1:]:
            if not part or part[0].isspace():
                joined[-1].append(part)
            else:
                joined[-1].append("")
                joined.append([part])
        return sum(whole[end.join(some)] for some in joined)
    return sum(map(ended.__getitem__, parts)) + (whole[last] if last else 0)


@dataclass(eq=False)
class _Counts(dict[str, int]):
    """Text -> number of tokens of text + `end`. It is emptied when it grows too large.

    `lines`: count long texts line by line. `divided`: cache the count of a long line without its last words separately.

    Counting by paragraph is exact: no match of cl100k's splitting pattern continues from a line break to anything but whitespace.
    So a match ends wherever other text follows a run of line breaks, and the tokens of the parts in sequence are the tokens of
    the text.
    """

    end: str
    lines: bool
    divided: bool = True
    _letters: int = 0
    _keeping: threading.Lock = field(default_factory=threading.Lock)

    def __missing__(self, text: str) -> int:
        if self.lines and len(text) > _LONG_PARAGRAPH and "\n" in text:
            count = _count_parts(text + self.end, "\n")
        elif self.divided and len(text) > _LONG_PARAGRAPH and (last := _WORD_END.search(text, len(text) - _LAST_WORDS)):
            return _BEGINNINGS[text[: last.start()]] + _count(text[last.start() :] + self.end)
        else:
            count = _count(text + self.end)
        size = len(text) + _ENTRY
        if size <= _KEPT_LETTERS:
            # Long texts are counted in threads, hence the lock.
            with self._keeping:
                self._letters += size
                if self._letters > _KEPT_LETTERS:
                    self.clear()
                    self._letters = size
                self[text] = count
        return count


_COUNTS = {end: (_Counts("", end == _BLANK_LINE), _Counts(end, end == _BLANK_LINE)) for end in (_BLANK_LINE, "\n")}
"""Counts of whole texts, and of parts that end with a blank line or a line break."""
_BEGINNINGS = _Counts("", lines=False, divided=False)
"""Counts of long lines without their last words."""


# Cached, since all repeats of a query, and its plan, cut the same document at the same token.
@functools.lru_cache(maxsize=1024)
def first_tokens(text: str, n: int) -> str:
    """Return the first `n` cl100k tokens of `text` as text, or all of it if it has no more.

    If the cut is inside a character, the incomplete bytes are dropped.
    """
    encoding = _encoding()
    tokens: list[int] = []
    for part in _parts(text, max(_LONG_PARAGRAPH, n * _LETTERS_A_TOKEN)):
        tokens.extend(encoding.encode_ordinary(part))
        if len(tokens) > n:
            # A prefix of valid UTF-8 can be invalid only at its end, so this drops only a cut character.
            return encoding.decode_bytes(tokens[: max(n, 0)]).decode("utf-8", errors="ignore")
    return text


def _count(text: str) -> int:
    encoding, n = _encoding(), 0
    for part in _parts(text):
        # Long parts can be cut anywhere. tiktoken needs 40 bytes or more per character of a piece.
        step = _PART if len(part) > 2 * _PART else len(part) or 1
        n += sum(len(encoding.encode_ordinary(part[start : start + step])) for start in range(0, len(part), step))
    return n


@functools.cache
def _encoding() -> tiktoken.Encoding:
    """Load the encoding from the vocabulary in litellm's package, which is not imported. Raise FileNotFoundError if it is
    missing."""
    import tiktoken

    spec = importlib.util.find_spec("litellm")
    roots = (spec.submodule_search_locations or []) if spec else []
    folders = (Path(root) / "litellm_core_utils" / "tokenizers" for root in roots)
    folder = next((folder for folder in folders if (folder / _VOCABULARY).is_file()), None)
    if folder is None:
        mend = "install litellm>=1.100"
        raise FileNotFoundError(f"the cl100k_base vocabulary (tokenizers/{_VOCABULARY}) is not in the installed litellm; {mend}")
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


def _parts(text: str, part: int = _PART, run: int = _LONG_RUN) -> Iterator[str]:
    """Split `text` into pieces whose tokens, in sequence, are exactly the tokens of `text`.

    Long texts are split for two reasons: tiktoken overflows its stack on a million characters of whitespace before a word, and
    the first tokens should not require encoding ten megabytes. So long runs of whitespace, and text beyond `part` characters, are
    cut where the splitting pattern certainly ends a match. The pattern never looks behind, so the rest can be encoded as a
    separate text.
    """
    cuts: list[int] = []
    start = 0
    blanks = re.finditer(f"(?<![{_SPACES}])[{_SPACES}]{{{run},}}", text) if len(text) > min(part, run) else ()
    for blank in blanks:
        first, end = blank.span()
        if end == len(text):
            break
        # Before a word, the pattern matches a run of whitespace up to its last line break, then up to its last character. That
        # character belongs to the word.
        line = max(text.rfind("\n", first, end), text.rfind("\r", first, end)) + 1 or first
        cuts += [*_word_ends(text, start, first, part), line]
        if end - line >= 2:
            cuts.append(end - 1)
        start = max(line, end - 1)
    cuts += _word_ends(text, start, len(text), part)
    for begin, end in itertools.pairwise((0, *cuts, len(text))):
        yield text[begin:end]


def _word_ends(text: str, start: int, stop: int, part: int) -> Iterator[int]:
    """Yield offsets about `part` characters apart at which a word ends before a blank other than a line break. No match spans
    such an offset."""
    while stop - start > part:
        end = _WORD_END.search(text, start + part, stop)
        if end is None:
            return
        start = end.start()
        yield start
