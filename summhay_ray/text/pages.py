"""Converts HTML pages to Markdown text with Python's own parser.

Headings, lists, quotations, code and tables become Markdown, so that `read_prose` recognizes them. Scripts, styles, navigation,
headers and footers are left out.
"""

import html.parser
import re

_ASIDE = ("script", "style", "nav", "footer", "header", "template", "noscript")
_BLOCKS = (
    *("p", "div", "section", "article", "main", "aside", "dl", "dt", "dd", "figure", "figcaption", "address", "form", "fieldset"),
    *("details", "summary", "hr"),
)
_HEADINGS = {"title": 1, "h1": 1, "h2": 2, "h3": 3, "h4": 4, "h5": 5, "h6": 6}
_LONGEST_CELL = 400
"""Maximum length of a table cell. A table with a longer cell is only used for layout, so its cells are read as paragraphs."""
_DEEPEST = 40
"""Maximum depth at which nested elements are converted. Each level adds marks to the text."""
_BLANK_LINES = re.compile(r"\n\s*\n")


def page_text(page: str) -> str:
    """Convert an HTML page, or a part of one, to Markdown."""
    reader = _Page()
    reader.feed(page)
    reader.close()
    return reader.text()


class _Page(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self._open: list[tuple[str, list[str]]] = [("", [])]
        """Open elements whose text is converted when they end: (tag, text so far)."""
        self._rows: list[list[list[str]]] = []
        """Rows of the open tables."""
        self._aside = self._pre = 0

    def text(self) -> str:
        """The converted text."""
        while len(self._open) > 1:
            self._end(self._open[-1][0])
        lines = (line.rstrip() for line in _BLANK_LINES.sub("\n\n", "".join(self._open[0][1])).split("\n"))
        return "\n".join(lines).strip("\n")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._aside += tag in _ASIDE
        if len(self._open) > _DEEPEST and tag not in ("td", "th", "tr"):
            self._put(" " if tag in ("a", "br") else "\n\n")
        elif tag in ("ul", "ol"):
            self._open.append((tag, []))
        elif tag == "table":
            self._rows.append([])
            self._open.append((tag, []))
        elif tag == "tr" and self._rows:
            self._until("table")
            self._rows[-1].append([])
        elif tag in ("td", "th") and self._rows:
            self._until("table")
            self._open.append((tag, []))
        elif tag in _HEADINGS or tag in ("li", "blockquote", "pre"):
            if tag == "li" and any(name == "li" for name, _ in self._open[-1:]):
                self._end("li")
            self._pre += tag == "pre"
            self._open.append((tag, []))
        elif tag == "a":
            self._open.append((tag, [dict(attrs).get("href") or ""]))
        elif tag == "br":
            self._put("\n")
        elif tag in _BLOCKS:
            self._put("\n\n")

    def handle_endtag(self, tag: str) -> None:
        self._aside -= tag in _ASIDE and self._aside > 0
        if any(name == tag for name, _ in self._open):
            while self._open[-1][0] != tag:
                self._end(self._open[-1][0])
            self._end(tag)
        elif tag in _BLOCKS:
            self._put("\n\n")

    def handle_data(self, data: str) -> None:
        if not self._aside:
            self._put(data if self._pre else re.sub(r"\s+", " ", data))

    def _put(self, text: str) -> None:
        self._open[-1][1].append(text)

    def _until(self, tag: str) -> None:
        while self._open[-1][0] != tag:
            self._end(self._open[-1][0])

    def _end(self, tag: str) -> None:
        """End the last open element, and add its text to the enclosing one."""
        _, parts = self._open.pop()
        if tag == "a":
            address, text = parts[0], "".join(parts[1:])
            # A block that consists of a link keeps its address, so that lists of links are recognized.
            around, before = self._open[-1]
            alone = around in ("li", "td") and not "".join(before).strip()
            self._put(f"[{text.strip()}]({address}) " if alone and text.strip() and not re.search(r"[\s()]", address) else text)
            return
        text = "".join(parts)
        if tag == "pre":
            self._pre -= 1
            self._put(f"\n\n```\n{text.strip(chr(10))}\n```\n\n")
            return
        lines = [" ".join(line.split()) if tag in _HEADINGS else line.rstrip() for line in text.strip().split("\n")]
        if tag in _HEADINGS:
            self._put(f"\n\n{'#' * _HEADINGS[tag]} {' '.join(lines)}\n\n" if any(lines) else "")
        elif tag in ("ul", "ol"):
            within = any(name == "li" for name, _ in self._open)
            self._put(f"\n{text.strip(chr(10))}\n" if within else f"\n\n{text.strip(chr(10))}\n\n")
        elif tag == "li":
            self._put(
                "\n- "
                + "\n".join(line if not place or not line else f"  {line}" for place, line in enumerate(_strip_lines(lines)))
            )
        elif tag == "blockquote":
            self._put("\n\n" + "\n".join(f"> {line}" for line in _strip_lines(lines)) + "\n\n")
        elif tag in ("td", "th"):
            self._rows[-1] = self._rows[-1] or [[]]
            self._rows[-1][-1].append(text.strip())
        elif tag == "table":
            self._put(f"{text}\n\n{_table(self._rows.pop())}\n\n")


def _strip_lines(lines: list[str]) -> list[str]:
    return [line if line.startswith(" ") and line.strip().startswith("- ") else line.strip() for line in lines]


def _table(rows: list[list[str]]) -> str:
    rows = [row for row in rows if any(row)]
    width = max(map(len, rows), default=0)
    if width < 2 or any(len(cell) > _LONGEST_CELL or "\n\n" in cell for row in rows for cell in row):
        return "\n\n".join(cell for row in rows for cell in row if cell)
    cells = [[" ".join(cell.split()).replace("|", "\\|") for cell in [*row, *[""] * (width - len(row))]] for row in rows]
    lines = [f"| {' | '.join(row)} |" for row in cells]
    return "\n".join([lines[0], "|" + "---|" * width, *lines[1:]])
