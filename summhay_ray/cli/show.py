"""How results are printed: one JSON document on stdout, or tables for a person. Part of the cli room."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from summhay_ray.report import Grid2D

PLAIN_WIDTH = 160


def console() -> Console:
    """Where results for a person go; wide where it is no terminal, so that no figure is cut."""
    return Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else PLAIN_WIDTH)


def document(content: Mapping[str, Any]) -> None:
    """The one JSON document of a command."""
    sys.stdout.write(json.dumps(content, ensure_ascii=True, allow_nan=False) + "\n")


def note(text: str) -> None:
    """A line for the person, on stderr."""
    sys.stderr.write(visible(text) + "\n")


def visible(text: str) -> str:
    """The text with control characters made visible: what a document says must not steer a terminal."""
    return "".join(letter if letter in "\n\t" or letter.isprintable() else f"\\x{ord(letter):02x}" for letter in text)


def tables(grids: Iterable[Grid2D]) -> None:
    """Print tables."""
    out = console()
    for grid in grids:
        table = Table(title=Text(visible(grid.title)), title_justify="left", header_style="bold")
        for index, column in enumerate(grid.columns):
            table.add_column(Text(visible(column)), justify="left" if index == 0 else "right", no_wrap=index > 0)
        for row in grid.rows:
            table.add_row(*(Text(visible(cell)) for cell in row))
        out.print(table)


def facts(pairs: Sequence[tuple[str, Any]]) -> None:
    """Print name and value, a line each."""
    width = max((len(name) for name, _ in pairs), default=0)
    for name, value in pairs:
        sys.stdout.write(f"{name.ljust(width)}  {visible(str(value))}\n")
