"""Fit tables to the width of a terminal, by splitting their columns into parts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len

from summhay_ray.report.terminal_tables import TextTable

FRAME = 3
"""Width of a column in addition to its text: a border, and a space on either side."""
_NARROWEST = 4
_PIECE = re.compile(r"[^\s/_-]*[\s/_-]|[^\s/_-]+")
"""Text that stays on one line."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """A table or a part of one, with the width of each column in characters. Longer cells are folded."""

    grid: TextTable
    widths: tuple[int, ...]


def fitted(grid: TextTable, width: int) -> list[Fitted]:
    """The table split into parts that fit `width` characters. Every part repeats the columns that identify the rows.

    Columns that identify rows are folded if they exceed both two fifths of the width and the space that the others leave. Columns
    of figures are folded only if one alone exceeds the space next to the names.
    """
    available = width - 1
    natural = [max(map(cell_len, column)) for column in zip(grid.columns, *grid.rows, strict=True)]
    heads = natural[: grid.heads]
    for_heads = max(available * 2 // 5, available - sum(one + FRAME for one in natural[grid.heads :]))
    while sum(heads) + FRAME * len(heads) > for_heads and max(heads) > _NARROWEST:
        heads[heads.index(max(heads))] -= 1
    most = max(available - sum(heads) - FRAME * (len(heads) + 1), _NARROWEST)
    rest = [min(one, most) for one in natural[grid.heads :]]
    room = available - sum(one + FRAME for one in heads)
    parts = _parts(rest, room)
    found = []
    for index, part in enumerate(parts, start=1):
        places = [*range(grid.heads), *(grid.heads + place for place in part)]
        columns, *rows = (tuple(row[place] for place in places) for row in (grid.columns, *grid.rows))
        title = grid.title + (f" ({index}/{len(parts)})" if len(parts) > 1 else "")
        own = replace(grid, title=title, columns=columns, rows=tuple(rows))
        found.append(Fitted(own, (*heads, *(rest[place] for place in part))))
    return found


def folded(text: str, width: int) -> str:
    """The text with line breaks after a blank, a slash, a dash or an underscore if it is wider than the column; wider pieces
    stay whole."""
    if cell_len(text) <= width:
        return text
    lines = [""]
    for piece in _PIECE.findall(text):
        if lines[-1] and cell_len((lines[-1] + piece).rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return "\n".join(line.rstrip() for line in lines)


def _parts(widths: Sequence[int], room: int) -> list[list[int]]:
    """Indices of the columns in each part: as many as fit into `room`, but at least one."""
    parts: list[list[int]] = [[]]
    used = 0
    for place, width in enumerate(widths):
        if parts[-1] and used + width + FRAME > room:
            parts.append([])
            used = 0
        parts[-1].append(place)
        used += width + FRAME
    return parts
