"""Read the citations of a text (section 4.1).

All code reads citations with `read_citations`: for scores, for support without gold, and for the repair of citations.
"""

import functools
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Compat = Literal["default", "release"]
"""`release` reads and scores like the released scoring script; `default` also counts the citation forms that models use."""

_LONGEST = 18
"""Maximum digits of a number that is read exactly."""
MAX_RANGE = 10_000
"""Maximum number of documents in all ranges of one text. In a range beyond that, only the first and the last document count."""

_RELEASE_BRACKET = re.compile(r"\[([\d, ]+)\]")
_DIGITS = re.compile(r"\d+")

_ALIKE = {
    "[": "［【〔〖⟦",
    "]": "］】〕〗⟧",
    "(": "（",
    ")": "）",
    "<": "〈⟨＜",
    ">": "〉⟩＞",
    "{": "｛",
    "}": "｝",
    ",": "，、",
    ";": "；",
    ":": "：",
    "#": "＃№",
    "&": "＆",
    "-": "－‐‑‒–—―−~～〜",
}
_ASCII = str.maketrans({other: plain for plain, others in _ALIKE.items() for other in others})
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")

LABELS = (
    "articles?|documents?|docs?|conversations?|transcripts?|news|sources?|references?|refs?|citations?|passages?|files?|snippets?|"
    "numbers?|nos?|nr|dokumente?|quellen?|artikel|documentos?|fuentes?|fontes?|artículos?|documenti|documento|fonti|fonte|"
    "文档|文件|文書|文献|資料|资料|来源|出典|문서|출처|документы?|источники?|источник|джерел[оа]|المستندات|المستند|المصادر|المصدر"
)
"""Words that may precede a document's number or id, as part of a regular expression."""
_IN_BRACKETS = f"{LABELS}|cites?|excerpts?|chunks?|contexts?|evidence|results?|items?|papers?|texts?|urls?|links?"
_LABEL = rf"(?<![a-z])(?:{LABELS})(?![a-z])[.:]*"
_AND = r"(?<!\w)(?:and|und|et|y|e|en|og|och|i|и|та|و)(?!\w)|[和与及と]"
_LABELS = re.compile(rf"(?<![a-z])(?:{_IN_BRACKETS})(?![a-z])[.:]*|{_AND}", re.IGNORECASE)
_TAGS = "sup|cite|ref|source|doc(?:ument)?"
# Possessive quantifiers: a long bracket that is not a citation takes one pass.
_GROUP = re.compile(
    r"""(?P<outer>\[)?\\?\[(?P<bracket>[^\[\]]*)\](?P<link>\([^()\s]++\))?(?(outer)\](?:\([^()\s]++\))?)
    | <(?P<tag>TAGS)\b[^<>]*+>(?P<tagged>[^<>\[\]]{1,100})</(?P=tag)>
    | (?P<raised>⁽?[⁰¹²³⁴-⁹]++(?:[,⁻\s]*+[⁰¹²³⁴-⁹]++)*+⁾?|\^\{[\d,;\s-]++\}|\^\d{1,3}\^)
    | <(?P<angle>(?!\s)NUMBER|(?:LABEL|cite)[^<>\[\]/]{1,100}|ID(?:,\s?ID){0,20})\s?/?>
    | \{(?P<curly>NUMBER|LABEL[^{}]{1,300}|ID(?:,\s?ID){0,20})\}
    | \((?P<round>(?:(?:see|cf\.?|from|per)\s)?(?:NUMBER|LABEL[^()\[\]]{1,300})|ID(?:[,;]\s?ID){0,20})\)
    """.replace("LABEL", _LABEL)
    .replace("TAGS", _TAGS)
    .replace("NUMBER", r"\s*+\#?\d[^()\[\]{}<>]{0,300}")
    .replace("ID", r"[^()\[\]{}<>\s,;]{2,100}"),
    re.IGNORECASE | re.VERBOSE,
)
OTHER_CITATION = (
    rf"[{_ALIKE['[']}{_ALIKE[']']}\\⁰¹²³⁴-⁹]|<(?i:{_TAGS})\b|\^\d|\]\s*[{_ALIKE['-']}-]\s*\["
    rf"|(?i)[(（{{<｛〈⟨＜]\s*(?:(?:see|cf\.?|from|per)\s+)?(?:#?\d{{1,3}}\s*[^\d\s.]|(?:{LABELS})[^a-z])"
)
"""A regular expression, in polars's syntax, for texts that may have numeric citations in a form other than a bracket of
numbers."""
_SEE = re.compile(r"\A(?:see|cf\.?|from|per)\s+", re.IGNORECASE)
_NOISE = re.compile(
    r"†[^,;]*|\([^()]*\)|[§¶]+\s*\d+(?:\s*-\s*\d+)?|第?(?<!\d)\d++[页頁]"
    r"|(?<![a-z])(?:pp?|pages?|lines?|sections?|sec|chapters?|ch|paragraphs?|para|figures?|fig|tables?|s|seiten?|zeilen?|abs(?:atz)?|"
    r"kap(?:itel)?|págs?|páginas?|pagin[ae]|líneas?|стр|гл)(?![a-z])\.?\s*\d+(?:\s*-\s*\d+)?",
    re.IGNORECASE,
)
_TITLED = re.compile(rf"\s*(?:{_LABEL})?\s*#?(?P<name>\d+)\s*:\s+(?=\D*[^\W\d_]{{2}}).*", re.IGNORECASE | re.DOTALL)
_NUMBERS = re.compile(r"(?:\d++(?:\s*+(?:-|to|through|bis|\.{2,3}|…)\s*+\d++)?+(?:\s++#?|\Z))++")
_PIECE = re.compile(r"(\d+)(?:\s*(?:-|to|through|bis|\.{2,3}|…)\s*(\d+))?")
_LIKE_AN_ID = re.compile(r"(?=\S*[a-z])(?=\S*\d|\S+\.[a-z]{1,5}$)[\w./:#-]{2,}", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"\b(?:id|name|nr?|num(?:ber)?|index)\s*=")
_FILE = re.compile(r"\S+\.(?:txt|md|pdf|html?|json|docx?|csv|xml|eml|rst|tex)", re.IGNORECASE)
_SHORT = re.compile(rf"#?\d{{1,3}}(?!,\d{{3}})(?:\s*(?:[,;&-]|{_AND})\s*#?\d{{1,3}}(?!,\d{{3}}))*", re.IGNORECASE)
"""Numbers below 1000, which cannot be years."""
_PLAIN = re.compile(rf"[0-9]{{1,{_LONGEST}}}(?:, ?[0-9]{{1,{_LONGEST}}})*")
_LATEX = re.compile(r"(?:[_^$]|\\[a-z]+(?:\{[^{}]*\})*)\Z", re.IGNORECASE)
_CLAUSE_END = re.compile(r"[*_\"'”’»]*\s*(?:[.;!?。！？]|\Z|\n|[(<{\[])")
_QUOTES = " \t\n\"'`“”‘’«»<>*_"
_YEARS = 1000


_OPEN, _CLOSE = rf"\[{_ALIKE['[']}", rf"\]{_ALIKE[']']}"
MAY_BE_UNREAD = (
    rf"[{_OPEN}][^{_CLOSE}]*[^\d,; {_OPEN}{_CLOSE}-][^{_CLOSE}]*[{_CLOSE}]|[(（{{<｛〈⟨＜][^()]*(?:\d|\.\w)[^()]*[)）}}>｝〉⟩＞]"
)
"""A regular expression, in polars's syntax, for texts in which `read_citations` may leave a bracket unread."""


@dataclass(frozen=True, slots=True)
class Group:
    """A bracket, or another mark, that cites documents."""

    begin: int
    """Offset in the text, including the white space before the mark."""
    end: int
    members: tuple[int | str, ...] = ()
    """Numbers and unknown ids, in the order of the text."""
    by_id: int = 0
    """Number of members that are ids of documents."""
    ranges: int = 0
    """Number of ranges. A range such as `3-7` cites every document from 3 to 7."""
    loose: bool = False
    """Whether these are numbers in round brackets. They cite only in a text without other forms of citations."""


@dataclass(frozen=True, slots=True)
class Citations:
    """The citations of a text."""

    numbers: tuple[int, ...]
    """Sorted numbers of documents, without repetition. They include numbers of documents that do not exist."""
    groups: tuple[Group, ...] = ()
    unread: tuple[str, ...] = ()
    """Brackets that look like a citation but were not read, as they are in the text."""
    unknown: tuple[str, ...] = ()
    """Members that look like an id but belong to no document."""


def read_citations(text: str, ids: Mapping[str, int] | None = None) -> Citations:
    """Read the citations of a bullet in all usual forms. `ids`: document id -> its number, from 1.

    These forms are read:
    - numbers and ids, alone or listed: `[1; 3]`, `[a.txt, 2]`
    - ranges: `[1-3]`, `[1]-[3]`
    - footnotes: `[^1]`, `【1†source】`, superscripts after a word or a full stop
    - words for a document: `[Documents 1 and 3]`, `(Doc 3)`, `[Source: a.txt]`
    - titles and pages: `[Document 1: title]`, `[1, p. 3]`
    - quotes, links, and escaped or full-width brackets

    An unknown member does not invalidate its bracket, but a bracket with prose is not a citation. In a reversed range, or one
    beyond MAX_RANGE, only the first and the last document count. A number of more than 18 digits is returned as 10**18 plus its
    last 18 digits, which is distinct and fits a table.
    """
    return _read_numbers(text) if not ids else _read(text, ids)


def extract_citations(bullet: str, compat: Compat = "default") -> tuple[int, ...]:
    """Return the sorted document numbers that a bullet cites, without repetition (section 4.1). They include numbers without a
    document.

    `release`: read every `[...]` that has only digits, commas and spaces. The released script crashes on a space between
    numbers (`[1 2]`); here the space separates them. `default`: see `read_citations`; an unknown id becomes a number above 2 *
    10**18.
    """
    if compat == "default":
        citations = read_citations(bullet)
        strangers = {2 * 10**_LONGEST + zlib.crc32(name.encode("utf-8", "replace")) for name in citations.unknown}
        return (*citations.numbers, *sorted(strangers)) if strangers else citations.numbers
    brackets = _RELEASE_BRACKET.findall(bullet)
    return tuple(sorted({_number(digits) for inside in brackets for digits in _DIGITS.findall(inside)}))


def ids_of(document_ids: Sequence[str]) -> dict[str, int]:
    """Map each document id to its number, from 1. Short forms of an id are included unless they belong to another document.

    The short forms are a file's name without its suffix, and the id of a line without its file (`FILE#ID`), unless it is a
    number.
    """
    ids = {document_id: number for number, document_id in enumerate(document_ids, start=1)}
    short = [(document_id.rpartition(".")[0], number) for document_id, number in ids.items() if "." in document_id]
    lines = [(document_id.rpartition("#")[2], number) for document_id, number in ids.items() if "#" in document_id]
    short += [(line, number) for line, number in lines if not line.isdecimal()]
    uses = Counter(form for form, _ in short)
    return {**{form: number for form, number in short if form and uses[form] == 1}, **ids}


def by_number(text: str, ids: Mapping[str, int]) -> str:
    """Rewrite citations of ids, such as `[a.txt, b.txt]`, as citations of numbers, such as `[1, 2]`. Other citations stay
    unchanged."""
    done, parts = 0, []
    for group in _read(text, ids).groups:
        if group.by_id:
            blank = text[group.begin : group.end]
            space = blank[: len(blank) - len(blank.lstrip())]
            parts += [text[done : group.begin], f"{space}[{', '.join(map(str, group.members))}]"]
            done = group.end
    return "".join([*parts, text[done:]])


# Cached, because one bullet often covers several insights.
_read_numbers = functools.lru_cache(maxsize=1024)(lambda text: _read(text, {}))


def _read(text: str, ids: Mapping[str, int]) -> Citations:
    plain, room = text.translate(_ASCII), MAX_RANGE
    groups: list[Group] = []
    unread: list[str] = []
    for match in _GROUP.finditer(plain):
        group = _group(match, text, ids, room)
        if isinstance(group, Group):
            # Join `[1]-[3]`, a range written in two brackets.
            if (
                groups
                and re.fullmatch(r"\s*-\s*", plain[groups[-1].end : match.start()] or " ")
                and _single(group)
                and _single(groups[-1])
            ):
                first, last = groups[-1].members[0], group.members[0]
                between, room = _range(int(first), int(last), room)
                group = Group(groups.pop().begin, group.end, tuple(between), 0, 1)
            room -= len(group.members) if group.ranges else 0
            groups.append(group)
        elif group:
            unread.append(group)
    if not all(group.loose for group in groups):
        groups = [group for group in groups if not group.loose]
        unread = [one for one in unread if not _SHORT.fullmatch(one.translate(_ASCII).strip("() "))]
    members = [one for group in groups for one in group.members]
    numbers, unknown = {one for one in members if isinstance(one, int)}, tuple(one for one in members if isinstance(one, str))
    return Citations(tuple(sorted(numbers)), tuple(groups), tuple(unread), unknown)


def _single(group: Group) -> bool:
    return len(group.members) == 1 and isinstance(group.members[0], int) and not group.by_id


def _group(match: re.Match[str], text: str, ids: Mapping[str, int], room: int) -> Group | str:
    """Return the citation in a match. If there is none, return the bracket itself if it looks like a citation, else an empty
    text."""
    begin, end = match.span()
    while begin and text[begin - 1].isspace():
        begin -= 1
    kind = next(name for name in ("bracket", "tagged", "raised", "angle", "curly", "round") if match[name] is not None)
    inside = " ".join(text[match.start(kind) : match.end(kind)].split())
    before = text[max(0, match.start() - 3) : match.start()]
    # `5 km²` and `f(1)` are not citations: such marks cite only after a full stop or the like, or after a word of three letters.
    stop = not before.strip(" \t") or before[-1] >= "\u2e80" or before[-1] in ".,;:!?\"'”’)]}>*_({<\n"
    attached = begin == match.start() and not stop and not (len(before) == 3 and before.isalpha())
    if kind == "raised":
        if attached:
            return ""
        inside = inside.translate(_SUPERSCRIPTS)
    bare = _SEE.sub("", _ATTRIBUTE.sub(" ", inside) if kind == "angle" else inside).strip()
    enclosed = kind in ("angle", "curly", "round")
    labelled = re.match(rf"(?:{_LABEL}|cite)", bare, re.IGNORECASE) if enclosed else None
    short = _SHORT.fullmatch(_NOISE.sub("", bare.translate(_ASCII)).strip(" ,;")) if enclosed else None
    if short and (attached or (kind == "curly" and _LATEX.search(text, max(0, match.start() - 40), match.start()))):
        return ""
    loose = short is not None and kind == "round"
    if short and loose:
        listed = len(_DIGITS.findall(short[0])) > 1 or _CLAUSE_END.match(text, end)
        if "-" in short[0] or not listed or not re.search(r"\w", text[max(0, begin - 100) : begin].rpartition("\n")[2]):
            # It may be the number of a list entry, an age, a result, or a citation.
            return text[match.start() : end]
    entries = list(_members(bare, ids, room, enclosed and not (labelled or short)))
    if not entries and match["link"]:
        target = match["link"][1:-1].removeprefix("#").removeprefix("./")
        entries = [(ids[target], 1, 0)] if target in ids else []
    if any(isinstance(member, int) for member, _, _ in entries):
        members = tuple(member for member, _, _ in entries)
        return Group(begin, end, members, sum(by_id for _, by_id, _ in entries), sum(ranges for _, _, ranges in entries), loose)
    looks_alike: object
    if enclosed:
        looks_alike = _FILE.search(bare) or (labelled and re.fullmatch(r"\S*\d\S*", bare[labelled.end() :].strip()))
    else:
        looks_alike = entries or re.search(r"\d", inside) or (re.search(_LABEL, inside, re.IGNORECASE) and len(inside) < 80)
    return match[0] if kind != "raised" and looks_alike else ""


def _members(inside: str, ids: Mapping[str, int], room: int, ids_alone: bool) -> Iterator[tuple[int | str, int, int]]:
    """Yield the members of a bracket as (number or unknown id, 1 if it was an id, 1 at the beginning of a range). Yields none
    if the bracket contains prose. `ids_alone`: ignore numbers."""
    if not ids and not ids_alone and _PLAIN.fullmatch(inside):
        # Most brackets hold only numbers. This reads them several times as fast.
        yield from ((int(number), 0, 0) for number in _DIGITS.findall(inside))
        return
    whole = _SEE.sub("", inside.strip(_QUOTES + "^\\{}⁽⁾"))
    if whole in ids:
        yield ids[whole], 1, 0
        return
    pieces: list[tuple[int | str, int, int]] = []
    odd = False
    for segment in re.split(r"[;；]", whole):
        if titled := _TITLED.fullmatch(segment.translate(_ASCII)):
            segment = titled["name"]
        for part in re.split(r"[,，、&＆|]", segment):
            for piece in [part] if part.strip(_QUOTES) in ids else re.split(_AND, part, flags=re.IGNORECASE):
                bare = _LABELS.sub(" ", _NOISE.sub(" ", piece.translate(_ASCII))).strip(_QUOTES + "#:.^@")
                # An id may be followed by a position in the document: `a.txt:3`.
                name = next((one for one in (piece.strip(_QUOTES), bare, re.split("[#:]", bare)[0]) if one in ids), None)
                if name is not None:
                    pieces.append((ids[name], 1, 0))
                elif not ids_alone and _NUMBERS.fullmatch(bare):
                    for first, last in _PIECE.findall(bare):
                        between, room = _range(_number(first), _number(last or first), room)
                        pieces += [(number, 0, int(bool(last) and place == 0)) for place, number in enumerate(between)]
                elif _LIKE_AN_ID.fullmatch(bare) or re.fullmatch(r"[^\s\d]+", bare):
                    odd |= not _LIKE_AN_ID.fullmatch(bare)
                    pieces.append((bare, 0, 0))
                elif bare:
                    return
    # A word before a year does not make a citation: `[Smith, 2020]`.
    cited = [member for member, by_id, _ in pieces if by_id or (isinstance(member, int) and member < _YEARS)]
    if (cited or not odd) and not (ids_alone and any(isinstance(one, str) and not _FILE.fullmatch(one) for one, _, _ in pieces)):
        yield from pieces


def _range(first: int, last: int, room: int) -> tuple[list[int], int]:
    """Return the numbers from `first` to `last`, and how many more documents ranges may cite."""
    span = last - first + 1
    if not 1 <= span <= room:
        return [first, last], room
    return list(range(first, last + 1)), room - (span if span > 1 else 0)


def _number(digits: str) -> int:
    """Return the value of `digits` (in any script). It is bounded, since Python refuses to parse thousands of digits."""
    tail = int(digits[-_LONGEST:])
    return tail + 10**_LONGEST if any(map(int, digits[:-_LONGEST])) else tail
