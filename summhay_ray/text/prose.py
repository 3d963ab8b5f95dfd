"""Extracts the prose of a document: its statements, and the omitted parts with the reason.

`read_prose` reads plain text and Markdown. HTML and Word files are converted to Markdown first. markdown-it-py finds the blocks,
and `lines` decides which of their lines are statements. Three kinds of statements are kept:

- `sentence`: a sentence, a turn of a conversation, or a list item that makes a statement;
- `row`: a row of a table as a record with its header (`Region: Frankfurt; Failed payments: 58 %`);
- `line`: an unmarked line that reads like a title. It is searched, since it may be a short statement, but it never becomes an
  insight.

In a text without markup, every line is kept word for word, unless it is clearly not prose.
"""

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from markdown_it import MarkdownIt
from markdown_it.common.utils import normalizeReference
from markdown_it.token import Token

from summhay_ray.text.lines import (
    CLOSING,
    DATE_KEYS,
    END,
    FEWEST,
    LEADERS,
    TURN,
    URL,
    WORD,
    LineKinds,
    Reason,
    is_code,
    is_wide,
)
from summhay_ray.text.pages import page_text
from summhay_ray.text.words import is_latin, sentences, sentences_of

Kind = Literal["sentence", "row", "line"]
LEAST_DOCUMENTS = 8
"""Minimum number of documents for recognizing boilerplate."""
_MARKUP = re.compile(
    r"""^[ ]{0,3}(?:\#{1,6}[ \t]|[-+*][ \t]+\S|\d{1,3}[.)][ \t]+\S|>|```|~~~|\|.*\|)
    |^[ ]{0,3}(?:</?[a-zA-Z][a-zA-Z0-9]*[ >/][^@\n]*$|<!--|\[[^\]]+\]:[ ])
    |\]\(|^(?:---|\+\+\+)[ \t]*$|^[ ]{0,3}\S.*\n[ ]{0,3}(?:=+|-+)[ \t]*$""",
    re.MULTILINE | re.VERBOSE,
)
"""Matches the markup of blocks. Emphasis and `<br>` alone do not make a text Markdown."""
_FRONT = re.compile(r"\A\ufeff?\s*(---|\+\+\+)[ \t]*\n(.*?)^(?:\1|\.\.\.)[ \t]*$\n?", re.DOTALL | re.MULTILINE)
_YAML_LINE = re.compile(r"\s|[#\]}-]|[\w.-]+(?: [\w.-]+){0,2}:(?:\s|$)")
_TOML_LINE = re.compile(r"\s|[#\]}\[\"']|[\w.-]+\s*=")
_INLINE = re.compile(r"[\\`*_\[\]<&!~]")
_LONGEST_INLINE = 20_000
"""Maximum length of a block in which emphasis and links are parsed."""
_TAGS = re.compile(
    r"</?(?:a|abbr|b|br|center|cite|code|del|div|em|font|hr|i|img|ins|kbd|p|q|s|samp|small|span|strike|strong|sub|summary|sup|table"
    r"|tbody|td|th|thead|tr|tt|u|var|details|li|ol|ul|h[1-6]|blockquote|pre|picture|source|video|figure)\b[^<>]*>|<!--.*?-->",
    re.IGNORECASE | re.DOTALL,
)
_BREAK = re.compile(r"<br\b[^<>]*>", re.IGNORECASE)
_DEFINITION = re.compile(r"[ ]{0,3}\[([^\[\]]+)\]:\s*<?([^\s<>]*[/#.][^\s<>]*)>?\s*(?:[\"'(].*)?\Z")
_HYPHENATED = re.compile(r"[^\W\d_]{2,}[-\u00ad\u2010]\Z")
_LIGATURES = str.maketrans({"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st", "\u00ad": ""})
_BULLET = re.compile(r"\s*[•●○◦▪▫■□‣∙·✓✔➢\uf0b7]\s*")
_NOTES = re.compile(r"\[\^[^\]\s]+\]:?|^\s*\[[ xX]\]\s+")
"""Matches the marks of footnotes and of tasks."""
_WRAPPED = 50
"""Minimum length, in characters, of a Markdown line that may be wrapped."""
_WRAPPED_WIDE = 20
"""Minimum length of such a line in Chinese and Japanese."""
_MORE_WORDS = """
    a an the of to in at by for from with without into onto between via per and or nor but as than which who whose is are was were
    be been has have had will would can could may might must should shall not if when while because since until although our their
    its his your my
"""
_BEFORE_MORE = frozenset(_MORE_WORDS.split())
"""Words that cannot end a sentence."""
_BEGINNING = 8
"""Number of first words in which two statements are compared, since the end of a form differs in each document."""
_CLOCK = re.compile(r"\d{1,2}:\d\d(?: ?[ap]\.?m\b)?")
_FEWEST_PAGES = 3
_LONGEST_JOINED = 4000
"""Maximum length of a paragraph to which further lines are joined."""
_LONGEST_RECORD = 400


@dataclass(frozen=True, slots=True)
class ProseStatement:
    """A statement of a document."""

    text: str
    line: int
    """The line of the document where its paragraph, item or row begins, from 1."""
    kind: Kind = "sentence"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A part of a document that is not prose."""

    text: str
    line: int
    reason: Reason


@dataclass(slots=True)
class Prose:
    """The prose of a document."""

    statements: list[ProseStatement] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    title: str = ""
    date: str = ""
    """The date as written in the document."""


Split = Callable[[str], list[str]]


def read_prose(text: str, split: Split | None = None) -> Prose:
    """Return the statements of a document in order, and the omitted parts. `split` splits a line into sentences; by default it
    depends on the line's script."""
    latin = is_latin(text)
    reader = _Reader(split or (sentences if latin else sentences_of), latin)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    body, first = reader.front_matter(reader.without_running_heads(text))
    if first or _MARKUP.search(body):
        reader.read_markdown(body, first)
    else:
        reader.read_plain(body)
    reader.prose.title, reader.prose.date = reader.kinds.title, reader.kinds.date
    return reader.prose


def boilerplate(documents: Iterable[Iterable[str]]) -> set[str]:
    """Return the statements that are boilerplate.

    A statement is boilerplate if more than half of the documents have it in the same words. It is also boilerplate if its first
    words begin a statement in at least 8 documents, and in more than a quarter of all documents. Times of day do not count
    ("adjourned at 11:05"). With fewer than 8 documents, there is no boilerplate.
    """
    forms: dict[str, tuple[str, str]] = {}
    counts: Counter[str] = Counter()
    n_documents = 0
    for texts in documents:
        own = set(texts)
        forms |= {text: _forms(text) for text in own - forms.keys()}
        counts.update({form for text in own for form in forms[text]})
        n_documents += 1
    if n_documents < LEAST_DOCUMENTS:
        return set()
    least = max(n_documents / 4, LEAST_DOCUMENTS - 1)
    return {text for text, (whole, begin) in forms.items() if counts[whole] > n_documents / 2 or counts[begin] > least}


def _forms(text: str) -> tuple[str, str]:
    """Return the text by which a statement is compared, without times of day, and its first words."""
    words = (_CLOCK.sub("#", text) if ":" in text else text).rstrip(".").split()
    return " ".join(words), " ".join(words[:_BEGINNING])


@functools.cache
def _parser() -> MarkdownIt:
    # The parser needs quadratic time for link definitions, so `_definitions` reads them.
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"]).disable("reference")
    # The addresses of links are not needed.
    for name, do in (("normalizeLink", str), ("normalizeLinkText", str), ("validateLink", bool)):
        setattr(parser, name, do)
    return parser


class _Reader:
    def __init__(self, split: Split, latin: bool, in_page: bool = False) -> None:
        """`in_page`: the text is from an HTML page. A tag in it is not HTML, because the page escaped it or left it open."""
        self.prose = Prose()
        self._split, self._latin, self._in_page = split, latin, in_page
        self.kinds = LineKinds(latin)
        self._width = 0
        self._words: Counter[str] | None = None
        self._body = ""
        self._links: dict[str, Any] = {}
        """The link definitions, in the parser's form."""

    def front_matter(self, text: str) -> tuple[str, int]:
        """Return the text below the front matter, and the number of lines before it."""
        head = _FRONT.match(text)
        given = _front_fields(*head.groups()) if head else None
        if head is None or given is None:
            return text, 0
        self.kinds.title = given.get("title", "")
        self.kinds.date = next((given[key] for key in DATE_KEYS if given.get(key)), "")
        skipped = text[: head.end()].count("\n")
        for number, line in enumerate(head[0].split("\n"), start=1):
            if line.strip() and number <= skipped:
                self._leave(line, number, "front matter")
        return text[head.end() :], skipped

    def without_running_heads(self, text: str) -> str:
        """Blank out lines that half of the pages have at their top or bottom. The text is divided into pages, as in a PDF
        file."""
        pages = text.count("\f")
        if pages < _FEWEST_PAGES:
            return text
        lines = text.split("\n")
        filled = [number for number, line in enumerate(lines) if line.strip()]
        begins = [place for place, number in enumerate(filled) if "\f" in lines[number] or place == 0]
        edges = {filled[one] for place in begins for one in range(place - 2, place + 2) if 0 <= one < len(filled)}
        bare = {number: lines[number].strip() for number in edges}
        # Ignore only page numbers, which change: a sentence with another number is another sentence.
        bare = {number: line if END.search(line) else re.sub(r"\d+", "#", line) for number, line in bare.items()}
        counts = Counter(bare.values())
        for number in sorted(edges):
            if 2 * counts[bare[number]] >= pages:
                self._leave(lines[number].strip(), number + 1, "boilerplate")
                lines[number] = ""
        return "\n".join(lines)

    # Plain text

    def read_plain(self, text: str) -> None:
        """Read a text without markup. Blank lines separate its paragraphs."""
        self._begin(text)
        lines: list[str] = []
        for number, line in enumerate([*text.split("\n"), ""]):
            if line.strip():
                lines.append(line)
            elif lines:
                self._paragraph(lines, number - len(lines), plain=True)
                lines = []

    def _begin(self, text: str) -> None:
        lengths = sorted(len(line.rstrip()) for line in text.split("\n") if line.strip())
        self._width = lengths[len(lengths) * 9 // 10] if len(lengths) > 2 else 0
        self._body = text

    # Markdown

    def read_markdown(self, text: str, first: int) -> None:
        """Read a Markdown text. `first`: number of lines before it."""
        self._begin(text)
        lines = text.split("\n")
        tokens: list[Token] = []
        parser = _parser()
        parser.block.parse("\n".join(self._definitions(lines, first)).replace("\0", " "), parser, self._links, tokens)
        covered = 0
        opened: list[str] = []
        for place, token in enumerate(tokens):
            if token.type.endswith("_open"):
                opened.append(token.type.removesuffix("_open"))
                if token.type == "table_open":
                    assert token.map is not None
                    self._read_unparsed(lines, covered, token.map[0], first)
                    covered = token.map[1]
                    self._table(tokens, place, first)
                continue
            if token.type.endswith("_close"):
                opened.pop()
                continue
            if token.map is None or "table" in opened:
                continue
            begin, end = token.map
            self._read_unparsed(lines, covered, begin, first)
            covered = max(covered, end)
            number = first + begin
            if opened.count("blockquote") > 1 and token.type != "hr":
                self._leave("\n".join(lines[begin:end]), number + 1, "quote in a quote")
            elif token.type == "inline":
                if opened[-1] == "heading":
                    self._heading(token, tokens[place - 1], number)
                else:
                    self._inline(token.content, lines[begin:end], number, item=opened.count("list_item"))
            elif token.type in ("fence", "code_block"):
                self._code(token, lines[begin:end], number)
            elif token.type == "html_block" and self._in_page:
                self._paragraph(token.content.splitlines(), number)
            elif token.type == "html_block":
                self._page(token.content, number)
        self._read_unparsed(lines, covered, len(lines), first)

    def _definitions(self, lines: Sequence[str], first: int) -> Iterator[str]:
        """Yield the lines, but record each link definition and yield an empty line for it."""
        references = self._links.setdefault("references", {})
        for number, line in enumerate(lines):
            found = _DEFINITION.match(line)
            if found:
                references.setdefault(normalizeReference(found[1]), {"href": found[2], "title": ""})
                self._leave(line.strip(), first + number + 1, "links")
            yield "" if found else line

    def _read_unparsed(self, lines: Sequence[str], begin: int, end: int, first: int) -> None:
        """Read lines that the parser skipped because they are nested too deeply."""
        for number in range(begin, end):
            line = lines[number].strip(" \t>-*+")
            if re.search(r"\w", line) and not _DEFINITION.match(lines[number]):
                self._paragraph([line], first + number)

    def _heading(self, token: Token, opening: Token, number: int) -> None:
        text = _flat(_plain_inline(token.content, self._links)[0])
        level = int(opening.tag[1])
        if opening.markup in ("=", "-") and ("\n" in token.content or END.search(text)):
            # A paragraph underlined as a heading.
            self._inline(token.content, token.content.split("\n"), number)
        elif END.search(text) and self.kinds.states(text, item=0) and len(WORD.findall(text)) >= FEWEST:
            self._keep(text, number, "sentence")
        else:
            self.kinds.open_section(text, level)
            self.kinds.title = self.kinds.title or text
            self._leave(text, number + 1, "heading")

    def _inline(self, content: str, source: Sequence[str], number: int, item: int = 0) -> None:
        text, linked, bold = _plain_inline(content, self._links)
        lines = text.split("\n")
        if bold and len(lines) == 1 and not END.search(text) and len(text) <= 100 and not item:
            self.kinds.open_section(text, 7)
            self._leave(text, number + 1, "heading")
            return
        written = source if len(source) == len(lines) else lines
        self._paragraph(lines, number, item=item, linked=linked, source=written)

    def _code(self, token: Token, source: Sequence[str], number: int) -> None:
        unclosed = token.type == "fence" and not re.match(r"[\s>]*(?:```|~~~)", source[-1]) and len(source) > 1
        if unclosed or (token.type == "code_block" and not is_code(token.content)):
            # An unclosed fence would hide the rest of the document. Plain text may be indented.
            lines: list[str] = []
            for place, line in enumerate([*token.content.split("\n"), ""]):
                if line.strip():
                    lines.append(line.strip())
                elif lines:
                    self._paragraph(lines, number + place - len(lines) + unclosed)
                    lines = []
        else:
            self._leave(token.content.strip("\n"), number + 1, "code")

    def _page(self, content: str, number: int) -> None:
        """Read a block of HTML within Markdown."""
        if content.lstrip().startswith("<!--"):
            comment, closed, rest = content.partition("-->")
            if closed:
                self._leave(comment.strip(), number + 1, "code")
            content = rest if closed else content.replace("<!--", "", 1)
        inner = _Reader(self._split, self._latin, in_page=True)
        inner.kinds.section = self.kinds.section
        text = page_text(content)
        if text.strip():
            inner.read_markdown(text, 0)
        for statement in inner.prose.statements:
            self.prose.statements.append(ProseStatement(statement.text, number + 1, statement.kind))
        for left in inner.prose.left_out:
            self._leave(left.text, number + 1, left.reason)

    def _table(self, tokens: Sequence[Token], begin: int, first: int) -> None:
        header: list[str] = []
        cells: list[str] = []
        number, head = 0, False
        for place in range(begin, len(tokens)):
            token = tokens[place]
            if token.type == "table_close":
                return
            if token.type in ("thead_open", "tbody_open"):
                head = token.type == "thead_open"
            elif token.type == "tr_open":
                cells, number = [], token.map[0] if token.map else number + 1
            elif token.type == "inline":
                cells.append(_flat(_plain_inline(token.content, self._links)[0]))
            elif token.type == "tr_close" and (head or (not any(header) and _is_header(cells))):
                # A Word table without a header row gets an empty one.
                header = cells
                if any(cells):
                    self._leave(" | ".join(cells), first + number + 1, "heading")
            elif token.type == "tr_close":
                self._row(header, cells, first + number)

    def _row(self, header: Sequence[str], cells: Sequence[str], number: int) -> None:
        pairs = [(name, cell) for name, cell in zip([*header, *[""] * len(cells)], cells, strict=False) if re.search(r"\w", cell)]
        record = "; ".join(f"{name}: {cell}" if name and name != cell else cell for name, cell in pairs)
        if not pairs:
            return
        if "attendance" in self.kinds.section.values():
            self._leave(record, number + 1, "attendance")
        elif (
            not any(len(cell) > 1 for _, cell in pairs)
            or URL.sub("", record) == ""
            or (len(pairs) == 1 and not self.kinds.states(pairs[0][1], item=1))
        ):
            self._leave(record, number + 1, "no sentence")
        elif len(record) <= _LONGEST_RECORD:
            self._keep(record, number, "row", whole=True)
        else:
            for name, cell in pairs:
                self._keep(f"{name}: {cell}" if name and len(cell) <= 100 else cell, number, "row")

    # Lines

    def _paragraph(
        self,
        lines: Sequence[str],
        number: int,
        plain: bool = False,
        item: int = 0,
        linked: Sequence[float] = (),
        source: Sequence[str] = (),
    ) -> None:
        """Keep or omit the lines of a paragraph that begins after `number` lines. `item`: its depth in lists."""
        for place, text in self._join_lines(lines, source, item):
            bullet = _BULLET.match(text)
            depth, raw = (1, False) if bullet else (item, plain)
            text = text[bullet.end() :] if bullet else text
            at, share = number + place, linked[place] if place < len(linked) else 0.0
            if reason := self.kinds.reason(text, depth, share, raw):
                self._leave(text.strip(), at + 1, reason)
                continue
            kind: Kind = "sentence" if self.kinds.states(text, depth) else "line"
            if kind == "line" and not depth and "agenda" in self.kinds.section.values():
                # A title without markup.
                self.kinds.open_section(text, 7)
            self._keep(text, at, kind, raw)

    def _join_lines(self, lines: Sequence[str], source: Sequence[str], item: int) -> Iterator[tuple[int, str]]:
        """Yield (index of the first line, text) for each logical line of a paragraph, joining wrapped lines.

        `source`: the original lines of a Markdown paragraph; empty for plain text.
        """
        text, begin, last = lines[0], 0, lines[0]
        for place, line in enumerate(lines[1:], start=1):
            if len(text) < _LONGEST_JOINED and self._wraps(text, last, line, source[place - 1 : place + 1], item):
                if _HYPHENATED.search(last.rstrip()) and line.lstrip()[:1].islower():
                    text = self._join_hyphenated(text.rstrip(), line.lstrip())
                else:
                    blank = "" if is_wide(text.rstrip()[-1:]) and is_wide(line.lstrip()[:1]) else " "
                    text = f"{text.rstrip()}{blank}{line.lstrip()}"
            else:
                yield begin, text
                text, begin = line, place
            last = line
        yield begin, text

    def _wraps(self, text: str, last: str, line: str, source: Sequence[str], item: int) -> bool:
        """Whether a line continues the sentence in `text`, whose last line is `last`."""
        meant = bool(source) and last.endswith("  ")
        last, line = last.rstrip(), line.strip()
        if (
            not last
            or not line
            or CLOSING.fullmatch(last)
            or TURN.match(line)
            or line[0] in "<[|–—*-"
            or _BULLET.match(line)
            or LEADERS.search(last)
        ):
            return False
        if item and source and source[1][:1] in " \t":
            return True
        if meant and not line[0].islower():
            return False
        ends = bool(END.search(last)) or last.endswith((":", "："))
        if source:
            # Markdown joins the lines of a paragraph, but the author probably ended a short line on purpose.
            full = len(source[0].rstrip()) >= _WRAPPED
        else:
            full = is_wide(last[-1]) and len(last) >= _WRAPPED_WIDE
            full |= self._width >= 40 and len(last) + 1 + min(12, len(line.split(None, 1)[0])) > self._width >= len(last) * 0.8
        if line[0].islower():
            # In a text without capitals, such as a chat, a lower-case letter may begin a sentence.
            return full or (not ends or last.endswith(".")) and not text.lstrip()[:1].islower()
        goes_on = last.endswith((",", "(")) or last.rsplit(None, 1)[-1] in _BEFORE_MORE
        return goes_on or (full and not last.endswith((":", "：")))

    def _join_hyphenated(self, text: str, line: str) -> str:
        """Join two lines if the first ends in a hyphen. The hyphen may divide a word or belong to it."""
        if self._words is None:
            self._words = Counter(word.lower() for word in re.findall(r"\w+", self._body))
        second = re.match(r"\w+", line)
        # The second half is a separate word if it occurs elsewhere in the text, too.
        compound = second is not None and not text.endswith("\u00ad") and self._words[second[0].lower()] > 1
        return f"{text}{line}" if compound else f"{text[:-1]}{line}"

    def _keep(self, text: str, number: int, kind: Kind, raw: bool = False, whole: bool = False) -> None:
        if not raw or not text.isascii():
            text = text.translate(_LIGATURES)
        letters = text.split()
        if "  " in text and len(letters) >= 5 and sum(len(one) == 1 for one in letters) >= 0.8 * len(letters):
            # Some PDF files have one blank between letters, and two or more between words.
            text = " ".join(word.replace(" ", "") for word in re.split(r"\s{2,}", text.strip()))
        if not raw:
            text = " ".join(text.split())
        pieces = [text] if whole else self._split(text)
        self.prose.statements += [ProseStatement(one, number + 1, kind) for one in pieces if raw or re.search(r"\w", one)]

    def _leave(self, text: str, line: int, reason: Reason) -> None:
        if text.strip():
            self.prose.left_out.append(LeftOut(text, line, reason))


def _front_fields(mark: str, content: str) -> dict[str, str] | None:
    """Return the unparsed fields of front matter, which is YAML between `---` or TOML between `+++`. Return None for other
    content."""
    lines = [line for line in content.split("\n") if line.strip()]
    known = _YAML_LINE if mark == "---" else _TOML_LINE
    if not lines or not all(map(known.match, lines)):
        return None
    pairs = (re.split(r"\s*[:=]\s*", line, maxsplit=1) for line in lines if not line[0].isspace())
    return {pair[0].lower(): pair[1].strip().strip("\"'") for pair in pairs if len(pair) == 2}


def _plain_inline(content: str, links: dict[str, Any]) -> tuple[str, list[float], bool]:
    """Return the plain text of a block, the share of links in each line, and whether the whole block is bold.

    Emphasis, images and link addresses are left out. Two spaces at the end of a line keep its line break. `links`: the link
    definitions.
    """
    if not _INLINE.search(content) and "  \n" not in content:
        return content, [], False
    if len(content) > _LONGEST_INLINE:
        return _TAGS.sub(" ", content), [], False
    tokens: list[Token] = []
    parser = _parser()
    parser.inline.parse(content, parser, links, tokens)
    parts: list[str] = []
    sizes, linked = [0], [0]
    in_link = bold = in_bold = 0
    for token in tokens:
        if token.type in ("link_open", "link_close"):
            in_link += token.nesting
        elif token.type in ("strong_open", "strong_close", "em_open", "em_close"):
            bold += token.nesting
        elif token.type in ("softbreak", "hardbreak") or (token.type == "html_inline" and _BREAK.match(token.content)):
            parts.append("\n" if token.type == "softbreak" else "  \n")
            sizes.append(0)
            linked.append(0)
        elif token.type != "image" and not (token.type == "html_inline" and _TAGS.fullmatch(token.content)):
            parts.append(token.content)
            size = len(token.content.strip())
            sizes[-1] += size
            linked[-1] += size if in_link else 0
            in_bold += size if bold else 0
    shares = [part / max(1, whole) for part, whole in zip(linked, sizes, strict=True)]
    return _NOTES.sub("", "".join(parts)), shares, 0 < in_bold == sum(sizes)


def _flat(text: str) -> str:
    return " ".join(text.split())


def _is_header(cells: Sequence[str]) -> bool:
    """Whether the first row of a table names its columns."""
    return all(cell and len(cell) <= 40 and not re.search(r"\d|[.!?]\Z", cell) for cell in cells)
