"""Reads and writes tables for people, as CSV or XLSX, and undoes the changes that spreadsheets make.

In CSV, an apostrophe precedes a cell that a spreadsheet would take for a formula, a number or a date. The reader accepts commas,
semicolons and tabs, UTF-8 and UTF-16, rows and columns in any order, and empty rows.
"""

import csv
import datetime
import importlib.util
import io
import re
import zipfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError

from summhay_ray.errors import UserError
from summhay_ray.inputs import read_file
from summhay_ray.mine.reading import read_table
from summhay_ray.text import quoted, unquoted

ENDINGS = (".csv", ".xlsx")
LONGEST = 30_000
"""Maximum number of characters in a cell. Spreadsheets cut cells after 32,767."""
_NO_TEXT = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
_MONTH = r"(?:jan|feb|mar|mär|apr|may|mai|jun|jul|aug|sep|oct|okt|nov|dec|dez)[a-zä]*\.?"
_TURNED = re.compile(rf"'*(?=.*\d)(?:[\d\s.,:/+%-]|(?<=\d)e[+-]?(?=\d)|(?<![^\W\d]){_MONTH})+", re.IGNORECASE)
"""Matches texts that a spreadsheet would take for a number or a date. It also matches texts that `_guarded` has already
quoted."""
_COUNT = re.compile(r"0|[1-9]\d{0,8}")
"""Matches a number that spreadsheets do not change."""
_OLD_EXCEL, _ZIP = b"\xd0\xcf\x11\xe0", b"PK\x03\x04"
_WIDTHS = {"insight": 60, "query": 45, "documents": 45, "evidence": 80, "doubts": 30, "subtopic": 25, "question": 60}


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a sheet: its number in a spreadsheet, and its cells by column."""

    file: str
    number: int
    cells: Mapping[str, str]

    def wrong(self, column: str, what: str) -> UserError:
        """Return the error for a cell."""
        return _wrong(self.file, self.number, column, what)

    def holds(self, column: str, text: str) -> bool:
        """Whether the cell still contains `text`, except for spaces and quotation marks. Raise UserError if the cell has lost
        letters."""
        cell, whole = " ".join(self.cells[column].split()), " ".join(cell_text(text).split())
        if cell == whole or _unguarded(cell) == whole:
            return True
        if not whole.isascii() and cell in (whole.encode(code, "replace").decode(code) for code in ("ascii", "cp1252")):
            raise self.wrong(column, f"the spreadsheet has lost letters of {whole[:40]!r}; save it as CSV UTF-8, or as XLSX")
        return False

    def holds_number(self, column: str, text: str) -> bool:
        """Like `holds`, for a number, which a spreadsheet may write in another form."""
        try:
            return float(self.text(column).replace(",", ".")) == float(text)
        except ValueError:
            return self.holds(column, text)

    def whole(self, column: str) -> str:
        """Return the cell as it was written, without the leading apostrophe."""
        return _unguarded(self.cells[column].strip())

    def text(self, column: str) -> str:
        """Return the cell with single spaces."""
        return " ".join(self.whole(column).split())


def _wrong(file: str, number: int, column: str, what: str) -> UserError:
    return UserError(f"{file} row {number}, column {column}: {what}")


def cell_text(text: str) -> str:
    """Return the text in a form that a cell can hold. Blanks at its ends are removed, since readers drop them."""
    return _NO_TEXT.sub("\N{REPLACEMENT CHARACTER}", text.strip().replace("\r\n", "\n").replace("\r", "\n"))[:LONGEST]


def _guarded(text: str) -> str:
    return f"'{text}" if _TURNED.fullmatch(text) and not _COUNT.fullmatch(text) else quoted(text)


def _unguarded(text: str) -> str:
    return text[1:] if text.startswith("'") and _TURNED.fullmatch(text) else unquoted(text)


def check_new_sheet(path: Path) -> None:
    """Raise UserError unless a sheet can be written here: it must be a new file with a known extension in an existing folder."""
    if path.suffix.lower() not in ENDINGS:
        raise UserError(f"{path}: a sheet is a {' or '.join(ENDINGS)} file; give such a name")
    if path.suffix.lower() == ".xlsx" and importlib.util.find_spec("xlsxwriter") is None:
        raise UserError(f"{path}: XLSX needs a package: pip install 'summhay-ray[documents]'; or give a .csv file")
    if path.exists():
        raise UserError(f"{path} exists and may hold a person's work; give another file")
    if not path.absolute().parent.is_dir():
        raise UserError(f"{path.parent} is not a folder; make it first")


def write_cells(path: Path, columns: Sequence[str], rows: Sequence[Mapping[str, str]], marked: Collection[int] = ()) -> None:
    """Write a sheet in the format of its file's extension. Rows whose indices are in `marked` are coloured if the format has
    colours."""
    cells = [[cell_text(row[name]) for name in columns] for row in rows]
    if path.suffix.lower() != ".xlsx":
        buffer = io.StringIO(newline="")
        csv.writer(buffer).writerows([columns, *([*map(_guarded, row)] for row in cells)])
        path.write_text(buffer.getvalue(), encoding="utf-8-sig", newline="")
        return
    from xlsxwriter import Workbook

    with Workbook(path) as book:
        page = book.add_worksheet()
        # Written as text, even if it begins like a formula or looks like a date.
        look = {"num_format": "@", "text_wrap": True, "valign": "top"}
        plain, doubtful = book.add_format(look), book.add_format({**look, "bg_color": "#FFF2CC"})
        page.write_row(0, 0, columns, book.add_format({"bold": True}))
        for number, row in enumerate(cells):
            for place, text in enumerate(row):
                page.write_string(number + 1, place, text, doubtful if number in marked else plain)
        for place, name in enumerate(columns):
            page.set_column(place, place, _WIDTHS.get(name, 14))
        page.freeze_panes(1, 0)


def read_cells(path: Path) -> tuple[list[str], list[Row]]:
    """Read the columns of a sheet and its nonempty rows. Raise UserError, which names the unreadable part."""
    try:
        content = read_file(path)
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); give the sheet that a person has filled in") from error
    if content.startswith(_OLD_EXCEL):
        raise UserError(f"{path}: is an old or encrypted Excel file; save it as XLSX, without a password, or as CSV UTF-8")
    lines = _workbook(content, path) if content.startswith(_ZIP) else _table(content, path)
    head = [name.strip().lower() for name in next(lines, ())]
    while head and not head[-1]:
        head.pop()
    if twice := [name for place, name in enumerate(head) if name in head[:place]]:
        raise _wrong(str(path), 1, twice[0] or "without a name", "is there twice; leave the columns' names as written")
    rows = []
    for number, line in enumerate(lines, start=2):
        more = next((text for text in line[len(head) :] if text.strip()), None)
        if more is not None:
            raise UserError(f"{path} row {number}: {more[:40]!r} is in no column of the sheet; remove it")
        if any(text.strip() for text in line):
            rows.append(Row(str(path), number, dict(zip(head, [*line, *[""] * len(head)], strict=False))))
    return head, rows


def check_columns(file: str, columns: Sequence[str], head: Sequence[str], rows: Sequence[Row]) -> None:
    """Raise UserError for a missing column, or for one that sheets do not have."""
    if lacking := [name for name in columns if name not in head]:
        raise UserError(
            f"{file} row 1: has no column {lacking[0]}; give a sheet of summhay mine, with its columns' names as written"
        )
    for name in head:
        if name not in columns:
            number = next((row.number for row in rows if row.cells[name].strip()), 1)
            raise _wrong(file, number, name or "without a name", "is not a column of this sheet; remove it")


def _table(content: bytes, path: Path) -> Iterator[list[str]]:
    try:
        text = content.decode("utf-16" if content.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path} line {line}: is not UTF-8; save the sheet as CSV UTF-8, or as XLSX") from error
    reader = read_table(text, "insight_id")
    yield [*(reader.fieldnames or ())]
    try:
        yield from reader.reader
    except csv.Error as error:
        raise UserError(f"{path} line {reader.line_num}: is no CSV ({error}); save the sheet as CSV UTF-8") from error


def _workbook(content: bytes, path: Path) -> Iterator[list[str]]:
    if importlib.util.find_spec("openpyxl") is None:
        raise UserError(f"{path}: XLSX needs a package: pip install 'summhay-ray[documents]'; or save the sheet as CSV UTF-8")
    from openpyxl import load_workbook

    try:
        lines = [*load_workbook(io.BytesIO(content)).active.iter_rows()]
    except (zipfile.BadZipFile, ParseError, AttributeError, KeyError, ValueError, OSError) as error:
        raise UserError(f"{path}: is not a workbook that can be read ({error}); save the sheet as XLSX or CSV UTF-8") from error
    head = [str(cell.value or "") for cell in lines[0]] if lines else []
    for number, line in enumerate(lines, start=1):
        names = [*head, *[""] * len(line)]
        yield [_value(cell, str(path), number, name) for cell, name in zip(line, names, strict=False)]


def _value(cell: Any, file: str, number: int, column: str) -> str:
    value = cell.value
    if cell.data_type in "fe" or isinstance(value, datetime.date | datetime.time | datetime.timedelta):
        what = {"f": "is a formula", "e": "is an error of a formula"}.get(cell.data_type, "is a date for the spreadsheet")
        raise _wrong(file, number, column, f"{what} ({value}); write it as text, with an apostrophe before it")
    return str(int(value)) if isinstance(value, float) and value.is_integer() else "" if value is None else str(value)
