"""Sheets that people fill in: CSV in UTF-8, which spreadsheets can open and save."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from summhay_ray.errors import UserError
from summhay_ray.inputs import read_file
from summhay_ray.text import quoted, unquoted

_LONGEST_FIELD = 100_000_000


def sheet(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> bytes:
    """Return a sheet. Texts that a spreadsheet would read as formulas are quoted."""
    buffer = io.StringIO(newline="")
    csv.writer(buffer).writerows([columns, *([*map(quoted, row)] for row in rows)])
    # Spreadsheets recognize UTF-8 by the byte order mark.
    return buffer.getvalue().encode("utf-8-sig", "replace")


def read_sheet(path: Path, columns: Iterable[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the rows that are not blank, with their numbers in a spreadsheet (the header is row 1). Raises UserError if the file
    is not a sheet with these columns."""
    try:
        text = read_file(path).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read ({error}); save the sheet as CSV in UTF-8") from error
    # Spreadsheets in some countries write semicolons.
    delimiter = max(",;\t", key=text.split("\n", 1)[0].count)
    known = csv.field_size_limit(_LONGEST_FIELD)
    try:
        head, *rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)) or [[]]
    except csv.Error as error:
        raise UserError(f"{path} is not CSV ({error}); save the sheet as CSV in UTF-8") from error
    finally:
        csv.field_size_limit(known)
    names = [name.strip().lower() for name in head]
    if missing := [name for name in columns if name not in names]:
        raise UserError(f"{path} has no column {missing[0]!r}; keep the first row of the sheet as it was written")
    for line, row in enumerate(rows, 2):
        if any(map(str.strip, row)):
            values = [unquoted(value).strip() for value in row]
            yield line, dict(zip(names, [*values, *[""] * (len(names) - len(values))], strict=False))
