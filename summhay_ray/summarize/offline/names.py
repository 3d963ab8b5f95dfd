"""The local model `offline/names`, which lists names or numbers in a text. Found by name; it reads only the prompt.

The instruction selects speakers of a transcript, counts of people, numbers of citations, or by default names of persons. The
rules use only the form of words, so the model is a lower bound for models that understand the text.
"""

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import ClassVar

from summhay_ray.llm import Request
from summhay_ray.summarize.offline.framed import SECTION, numbered, read_frame
from summhay_ray.text import FUNCTION_WORDS, MONTHS, TENS, TITLES, UNITS_OF_TEN, citations, name_words, turns

_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday", "christmas", "easter")
_CALENDAR = frozenset([*(month.lower() for month in MONTHS), *_DAYS])
_SAYING_WORDS = """
    said says say asked asks replied answered cried shouted whispered muttered nodded smiled laughed grinned shrugged sighed
    thought knew felt turned looked stood sat walked went came took
"""
_SAYING = frozenset(_SAYING_WORDS.split())
_NO_NAME_WORDS = """
    outside inside upstairs downstairs indoors outdoors nearby beside opposite beneath underneath overhead ahead behind beyond
    somewhere everywhere nowhere elsewhere somebody someone everybody everyone nobody anybody anyone nothing something everything
    then now here there once soon later afterwards suddenly finally meanwhile perhaps maybe next last first again today tomorrow
    yesterday tonight others another yes no
"""
_NO_NAMES = frozenset(_NO_NAME_WORDS.split())
"""Words that begin a sentence before a verb, as a name does: `Outside stood an old man`."""
_EPITHETS = frozenset(("old", "young", "little", "poor", "dear"))
_NEVER_NAMES = FUNCTION_WORDS | TITLES | _CALENDAR | _NO_NAMES | _EPITHETS
_CLAUSE = frozenset(("which", "that", "whom", "what", "as", "when", "while", "until", "because", "before", "after", "if", "than"))
_AUXILIARY = frozenset(("had", "would", "could", "did"))
"""Words before and after the subject of a clause. The subject may be a name: `which Tobias had meant to fell`."""
_PERSONS = frozenset(
    ("man", "woman", "boy", "girl", "child", "lady", "gentleman", "person", "fellow", "stranger", "niece", "nephew")
)
"""Words for a person before `called NAME` or `named NAME`."""
_WORD = re.compile(r"[^\W\d_]+(?:['’\-][^\W\d_]+)*")
_ENDS = re.compile(r"[.!?:;\"“”‘(\[\n*_—–-]\s*\Z")
_PEOPLE = (
    r"(?:people|persons?|men|women|children|boys|girls|adults|infants|patients?|participants?|subjects|volunteers?|nurses?|doctors?"
    r"|students?|pupils|workers?|employees|residents?|campers|stewards|members?|guests?|passengers?|visitors?"
    r"|drivers?|deaths|survivors?|controls|cases|respondents|individuals|customers|soldiers|officers?|passers-by|singers|teachers?)"
)
_SPELT = rf"(?:{'|'.join(TENS)})(?:-(?:{'|'.join(UNITS_OF_TEN)}))?|{'|'.join(UNITS_OF_TEN)}"
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
    revision: ClassVar[str] = "2"

    def answer(self, request: Request) -> str:
        """Return a list on one line, with semicolons between numbers and commas between names, or "None" for an empty list.

        Raises LookupError for a prompt without a context.
        """
        asked = read_frame(request.prompt)
        if asked is None:
            raise LookupError("offline/names answers prompts with '### Context:' and '### Instruction:'; this one has none")
        find, separator = _finder(asked.instruction)
        text = asked.context
        if named := _OF_SECTION.search(asked.instruction):
            text = dict(numbered(text, list(SECTION.finditer(text)))).get(int(named[1]), text)
        return separator.join(dict.fromkeys(find(text))) or "None"


def _finder(instruction: str) -> tuple[Callable[[str], Iterable[str]], str]:
    """Return the function that finds what the instruction asks for, and the separator of its list."""
    words = instruction.lower()
    if "speaker of" in words or "speakers" in words:
        return speakers, ", "
    if "citation" in words or "cited" in words:
        return cited_numbers, "; "
    if "integer" in words or "whole number" in words:
        return people_counts, "; "
    return person_names, ", "


def speakers(text: str) -> Iterator[str]:
    """Yield the words of speakers' names, which precede the colons of turns, without titles."""
    for name in dict.fromkeys(turns(text)):
        yield from name_words(name)


def person_names(text: str) -> Iterator[str]:
    """Yield the words of person names, without titles.

    A capitalized word is a name if it is next to a title, to `old` or `man called`, or to a verb such as "said". It also is one
    if it occurs twice inside sentences. The other parts of such a name (`Lucas Crane`) are names, too.
    """
    words = list(_WORD.finditer(text))
    lower = {word.group() for word in words if word.group().islower()}
    within: Counter[str] = Counter()
    marked: Counter[str] = Counter()
    for place, match in enumerate(words):
        word = re.sub(r"['’]s\Z", "", match.group())
        shaped = word[:1].isupper() and len(word) > 1 and not word.isupper() and _SHORT_FORM.search(word) is None
        if not shaped or word.lower() in lower or word.lower() in _NEVER_NAMES:
            continue
        before = words[place - 1].group().lower() if place else ""
        after = words[place + 1].group().lower() if place + 1 < len(words) else ""
        called = before in ("called", "named") and place > 1 and words[place - 2].group().lower() in _PERSONS
        marked[word] += (
            before in TITLES | _EPITHETS | _SAYING or after in _SAYING or called or (before in _CLAUSE and after in _AUXILIARY)
        )
        within[word] += bool(place) and _ENDS.search(text, max(0, match.start() - 3), match.start()) is None
    found = {word for word in within if marked[word] or within[word] > 1}
    for first, second in itertools.pairwise(words):
        one, other = first.group(), re.sub(r"['’]s\Z", "", second.group())
        beside = text[first.end() : second.start()] == " "
        if beside and one in found and other in within:
            found.add(other)
        elif beside and other in found and one in within and _ENDS.search(text, max(0, first.start() - 3), first.start()) is None:
            found.add(one)
    yield from (word for match in words if (word := re.sub(r"['’]s\Z", "", match.group())) in found)


def people_counts(text: str) -> Iterator[str]:
    """Yield whole numbers before a word for people, in digits or words, and numbers such as in `n = 40`."""
    for match in re.finditer(f"{_COUNT.pattern}|{_OF_SIZE.pattern}", text, re.IGNORECASE):
        said = (match[1] or match[2]).replace(",", "").lower()
        ten, _, one = said.partition("-")
        if said.isdigit():
            yield str(int(said))
        elif not one or 0 < UNITS_OF_TEN[one] < 10:
            yield str((UNITS_OF_TEN | TENS)[ten] + UNITS_OF_TEN.get(one, 0))


def cited_numbers(text: str) -> Iterator[str]:
    """Yield the numbers in citations, one by one, without the year in parentheses and the page after `at`."""
    for begin, end in citations(text):
        yield from _DIGITS.findall(re.split(r"\(|\bat\b", text[begin:end])[0])
