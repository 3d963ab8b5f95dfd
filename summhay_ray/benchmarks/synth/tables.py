"""The table of the haystacks that a synthesis has made, one per topic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from summhay_ray.benchmark import RunStore, Table
from summhay_ray.benchmarks.summhay.haystacks.sources import STORE
from summhay_ray.benchmarks.synth.topics import stored_topics


@dataclass(frozen=True, slots=True)
class Made:
    """A haystack that a synthesis has made."""

    cell_id: Annotated[str, "id of the topic's item"]
    haystack_id: Annotated[str, "content hash of the haystack"]
    digest: Annotated[str, "sha256 of its released JSON in the store"]
    name: Annotated[str, "name of the haystack"]

    @property
    def entry(self) -> str:
        """Its entry in another run's spec."""
        return f"{STORE}{self.digest}/{self.name}.json"

    def source(self) -> dict[str, str]:
        """Its form among the sources in the record of a run."""
        return {"haystack_id": self.haystack_id, "name": self.name, "object": self.digest}


MADE = Table("made", Made, ("cell_id",))


def made_by(run: RunStore) -> dict[str, Made]:
    """Cell -> its haystack, for the finished topics of a synthesis, in the spec's order."""
    made = {row.cell_id: row for row in MADE.records(run.table(MADE.name))}
    return {cell: made[cell] for cell, _ in stored_topics(run.store, run.record) if cell in made}
