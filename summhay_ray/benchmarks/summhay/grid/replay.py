"""`replay/<model>`: a local model that answers with the released summaries and judgments.

A request's `lookup` identifies the answer: haystack, subtopic and system for a summary, followed by an insight for a judgment.
The released judgments are by GPT-4o (SummHay, section 4.3), so only `replay/gpt-4o` can judge.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from summhay_ray.benchmark import Request
from summhay_ray.benchmarks.summhay.grid.grid import Cell
from summhay_ray.haystack import ReleasedFile, imported_rows
from summhay_ray.records import Judgment
from summhay_ray.summarize import bullets_of

JUDGE = "replay/gpt-4o"


@dataclass(frozen=True, slots=True)
class _Released:
    bullets: Mapping[tuple[str, str], tuple[str, ...]]
    judgments: Mapping[tuple[str, str, str], Judgment]


class Replay:
    """Answers from the sources of a run. `file`: returns the source of a haystack_id."""

    name: ClassVar[str] = "replay/"
    revision: ClassVar[str] = "1"

    def __init__(self, file: Callable[[str], ReleasedFile]) -> None:
        self._file = file
        self._released = lru_cache(maxsize=4)(self._read)

    def answer(self, request: Request) -> str:
        """Return the text of the released answer. Raises LookupError, which names what the release lacks."""
        if not request.lookup:
            raise LookupError(f"{request.model} only replays cells of a released haystack; this request names none")
        (haystack_id, subtopic_id, system), end = json.JSONDecoder().raw_decode(request.lookup)
        insight_id = request.lookup[end + 1 :]
        released = self._released(haystack_id)
        if not insight_id:
            which = f"summary {system!r} of subtopic {subtopic_id}"
            if (bullets := released.bullets.get((subtopic_id, system))) is None:
                raise LookupError(f"the release holds no {which}")
            text = "\n".join(bullets)
            if bullets_of(text) != bullets:
                raise LookupError(f"the released {which} has bullets that are not single lines, or a list of references")
            return text
        if request.model != JUDGE:
            raise LookupError(f"the release holds no judgments of {request.model}; only {JUDGE} judged it")
        judgment = released.judgments.get((subtopic_id, system, insight_id))
        if judgment is None:
            raise LookupError(f"the release holds no judgment of {system!r} on insight {insight_id}")
        return f'{{"coverage": {json.dumps(judgment.coverage)}, "bullet_id": {judgment.bullet_id or "null"}}}'

    def _read(self, haystack_id: str) -> _Released:
        rows = imported_rows(self._file(haystack_id))
        cells = {summary.cell_id: (summary.subtopic_id, summary.system) for summary in rows.summaries}
        judgments: dict[tuple[str, str, str], Judgment] = {}
        for judgment in rows.judgments:
            judgments.setdefault((*cells[judgment.cell_id], judgment.insight_id), judgment)
        return _Released({cells[summary.cell_id]: summary.bullets for summary in rows.summaries}, judgments)


def lookup_of(cell: Cell, model: str, system: str) -> str:
    """Return the lookup that identifies a `replay/` model's released summary; empty for other models. With `/` and an
    insight_id appended, it identifies the judgment of that insight.

    `system`: the system's name in the release.
    """
    return json.dumps([cell.unit.haystack_id, cell.unit.subtopic_id, system]) if model.startswith("replay/") else ""
