"""Tables in memory, for code that scores a run's tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl


class Frames(dict[str, pl.DataFrame]):
    """Stands in for `RunTables`: each table is one piece."""

    def pieces(self, name: str, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        yield self[name]
