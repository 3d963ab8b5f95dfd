"""Room summarize: `offline/names`, which lists names or numbers in a text. Found by name; reads only the prompt.

The instruction decides which: speakers of a transcript, counts of people, numbers of citations, or else names of persons. The
rules use the form of words only: a lower bound for models that understand the text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import ClassVar

from summhay_ray.llm import Request
from summhay_ray.summarize.offline.framed import SECTION, Framed, numbered, read_frame
from summhay_ray.text import FUNCTION_WORDS, MONTHS, citations, turns

_TITLE_WORDS = """
    mr mrs ms miss mx dr prof professor sir dame lord lady captain colonel major general sergeant lieutenant admiral doctor father
    mother brother sister aunt uncle king queen prince princess count countess baron inspector judge senator president minister
    secretary speaker chair chairman chairwoman reverend saint st rev hon right honourable
"""
_TITLES = frozenset(_TITLE_WORDS.split())
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday", "christmas", "easter")
_CALENDAR = frozenset([*(month.lower() for month in MONTHS), *_DAYS])
_SAYING_WORDS = """
    said says say asked asks replied answered cried shouted whispered muttered nodded smiled laughed grinned shrugged sighed
    thought knew felt turned looked stood sat walked went came took
"""
_SAYING = frozenset(_SAYING_WORDS.split())
_WORD = re.compile(r"[^\W\d_]+(?:['’\-][^\W\d_]+)*")
_ENDS = re.compile(r"[.!?:;\"“”‘(\[\n*_—–-]\s*\Z")
_ONES = (
    "zero one two three four five six seven eight nine ten "
    "eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_NUMBERS = {word: number for number, word in enumerate(_ONES.split())} | {
    word: 10 * number for number, word in enumerate(_TENS.split(), start=2)
}
_PEOPLE = (
    r"(?:people|persons?|men|women|children|boys|girls|adults|infants|patients?|participants?|subjects|volunteers?|nurses?|doctors?"
    r"|students?|pupils|workers?|employees|residents?|households?|families|campers|stewards|members?|guests?|passengers?|visitors?"
    r"|drivers?|deaths|survivors?|controls|cases|respondents|individuals|customers|soldiers|officers?|passers-by|singers|teachers?)"
)
_SPELT = rf"(?:{_TENS.replace(' ', '|')})(?:-(?:{_ONES.replace(' ', '|')}))?|{_ONES.replace(' ', '|')}"
_COUNT = re.compile(
    rf"(?<![\w.,%])(\d{{1,3}}(?:,\d{{3}})+|\d+|{_SPELT})\s+(?:[^\W\d][\w'’-]*\s+){{0,2}}?{_PEOPLE}\b", re.IGNORECASE
)
_OF_SIZE = re.compile(r"\b[nN]\s?=\s?(\d+)")
_OF_SECTION = re.compile(r"<(?:Section|Segment) (\d{1,6})> alone")
_SHORT_FORM = re.compile(r"['’](?:m|ll|d|ve|re|t)\Z")
_DIGITS = re.compile(r"\d+")


class Names:
    """Lists the names or numbers of the requested kind, without repeats, in the order of the text."""

    name: ClassVar[str] = "offline/names"
    revision: ClassVar[str] = "1"

    def answer(self, request: Request) -> str:
        """A list on one line, with semicolons between numbers and commas between names; the text "None" for an empty list.

        Raises LookupError for a prompt without a context.
        """
        asked = read_frame(request.prompt)
        if asked is None:
            raise LookupError("offline/names answers prompts with '### Context:' and '### Instruction:'; this one has none")
        find, separator = _finder(asked.instruction)
        return separator.join(dict.fromkeys(find(_part(asked)))) or "None"


def _part(asked: Framed) -> str:
    """The section that the instruction names, else the whole context."""
    named = _OF_SECTION.search(asked.instruction)
    parts = dict(numbered(asked.context, list(SECTION.finditer(asked.context)))) if named else {}
    return parts.get(int(named[1]), asked.context) if named else asked.context


def _finder(instruction: str) -> tuple[Callable[[str], Iterable[str]], str]:
    """(the function that finds what the instruction asks for, the separator of its list)."""
    words = instruction.lower()
    if "speaker of" in words or "speakers" in words:
        return speakers, ", "
    if "citation" in words or "cited" in words:
        return cited_numbers, "; "
    if "integer" in words or "whole number" in words:
        return people_counts, "; "
    return person_names, ", "


def speakers(text: str) -> Iterator[str]:
    """The words of speakers' names, before the colons of turns; without titles."""
    for name in dict.fromkeys(turns(text)):
        yield from (word for word in _WORD.findall(name) if word.lower() not in _TITLES | FUNCTION_WORDS and len(word) > 1)


def person_names(text: str) -> Iterator[str]:
    """Capitalized words next to a title or a verb such as "said", or twice inside sentences; without titles."""
    words = list(_WORD.finditer(text))
    lower = {word.group() for word in words if word.group().islower()}
    within: Counter[str] = Counter()
    marked: Counter[str] = Counter()
    for place, match in enumerate(words):
        word = re.sub(r"['’]s\Z", "", match.group())
        if not _is_name(word, lower):
            continue
        before = words[place - 1].group().lower() if place else ""
        after = words[place + 1].group().lower() if place + 1 < len(words) else ""
        marked[word] += before in _TITLES or after in _SAYING or before in _SAYING
        within[word] += bool(place) and _ENDS.search(text, max(0, match.start() - 3), match.start()) is None
    for match in words:
        word = re.sub(r"['’]s\Z", "", match.group())
        if marked[word] or within[word] > 1:
            yield word


def _is_name(word: str, lower: set[str]) -> bool:
    plain = word.lower()
    shaped = word[:1].isupper() and len(word) > 1 and not word.isupper() and _SHORT_FORM.search(word) is None
    return shaped and plain not in lower and plain not in FUNCTION_WORDS | _TITLES | _CALENDAR


def people_counts(text: str) -> Iterator[str]:
    """Whole numbers before a word for people, in digits or words, and numbers such as in `n = 40`."""
    for match in re.finditer(f"{_COUNT.pattern}|{_OF_SIZE.pattern}", text, re.IGNORECASE):
        said = (match[1] or match[2]).replace(",", "").lower()
        number = int(said) if said.isdigit() else _in_words(said)
        if number is not None:
            yield str(number)


def _in_words(said: str) -> int | None:
    ten, _, one = said.partition("-")
    if one and not 0 < _NUMBERS[one] < 10:
        return None
    return _NUMBERS[ten] + (_NUMBERS[one] if one else 0)


def cited_numbers(text: str) -> Iterator[str]:
    """The numbers in citations, one by one, without the year in parentheses."""
    for begin, end in citations(text):
        yield from _DIGITS.findall(text[begin:end].partition("(")[0])
