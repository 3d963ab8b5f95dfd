"""Specs of benchmarks that compare words: their field `script`, and a warning if a tokenizer finds no word.

The benchmarks import it. It uses the door and the room text.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import ClassVar

import polars as pl
from pydantic import Field

from summhay_ray.benchmark import Spec
from summhay_ray.text import Script, is_latin

MEND_SCRIPT = "with script: auto, and without compat: release, every script has words"


class OfWordsSpec(Spec):
    """A spec of a benchmark that compares words."""

    LATER: ClassVar[frozenset[str]] = Spec.LATER | {"script"}

    script: Script = Field(
        default="auto",
        description="words in texts that are not Latin; auto: by ICU; latin: by the papers' rules, which find almost none",
    )

    def warn_of_foreign(self, what: str, texts: Iterable[Sequence[str]]) -> list[str]:
        """Warn about non-Latin texts that are read as Latin ones. `texts`: the texts that are compared with each other."""
        foreign = [] if self.script == "auto" else [not is_latin(*together) for together in texts]
        warning = (
            f"{what}: {sum(foreign)} of {len(foreign)} are not in Latin script, where script: latin finds no word; {MEND_SCRIPT}"
        )
        return [warning] if any(foreign) else []


def warn_of_unmatched(pieces: Iterable[pl.DataFrame], query: Sequence[str], retrievers: Collection[str], mend: str) -> list[str]:
    """Warn about each of the `retrievers` that scores 0 for every document of a query. `pieces`: rankings, with columns
    `query` (its id), retriever and score; each query's rows are in one piece."""
    zero = (pl.col("score") == 0).all().alias("zero")
    own = (piece.filter(pl.col("retriever").is_in(retrievers)) for piece in pieces)
    found = [piece.group_by("retriever", *query).agg(zero) for piece in own if piece.height]
    if not found:
        return []
    counts = pl.concat(found).group_by("retriever").agg(pl.col("zero").sum(), pl.len()).sort("retriever")
    return [
        f"{retriever}: in {zero} of {n} queries no document has a word of the query; they rank in document order{mend}"
        for retriever, zero, n in counts.iter_rows()
        if zero
    ]
