"""Runs for reports: with a hostile haystack, unfinished, with failures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from inline_runs import loaded
from made_up import finished

from summhay_ray.benchmarks.summhay import SummHay, import_released
from summhay_ray.engine import ITEM, open_run
from summhay_ray.store import RunStore, Store

EVIL = '</script><script>window.pwned=1</script><img src=x onerror="window.pwned=1">\x1b[31m\u202e=HYPERLINK("http://x")\x00'


def imported(store: Path, file: dict[str, Any], name: str = "evil.json") -> RunStore:
    """A released file as a run."""
    path = store.parent / name
    path.write_text(json.dumps(file))
    made = import_released([str(path)], Store(str(store)))
    return Store(str(store)).run(made.run)


def hostile_file(n_long: int) -> dict[str, Any]:
    """Texts of documents, models and names that try to break a page, in every text that a report shows."""
    systems = ["summary_subtopic_=cmd|' /C calc'!A0", "summary_subtopic_keywords_</script><b>x", "summary_subtopic_$x$\x1b[2J{}"]
    verdicts = [{"coverage": "FULL_COVERAGE", "bullet_id": 1, "insight_id": one} for one in ("i1", "<i>2")]
    insights = [[{"insight_id": f"i{1 - n}", "insight": EVIL}, {"insight_id": f"<i>{2 - n}", "insight": "=1+1"}] for n in (1, 0)]
    return {
        "topic_id": "t",
        "topic": EVIL,
        "topic_metadata": {},
        "subtopics": [
            {
                "subtopic_id": f"s{number}",
                "subtopic_name": EVIL,
                "subtopic": EVIL,
                "query": f"{EVIL} {number}",
                "insights": insights[number],
                "retriever": {"keywords": {"d1": 1.0}},
                "summaries": {system: [f"{EVIL} [1][2][999999]", "javascript:alert(1) [1]"] for system in systems},
                "eval_summaries": dict.fromkeys(systems, verdicts) if number else {},
            }
            for number in range(2)
        ],
        "documents": [
            {"document_id": f"{EVIL}1", "document_text": EVIL * 3, "insights_included": ["i1"]},
            {"document_id": "d2", "document_text": "x" * n_long, "insights_included": ["<i>2"]},
        ],
    }


def unfinished(store: Path) -> RunStore:
    """Half of the cells of a grid."""
    grid = loaded(retrievers=["bm25", "full"])
    assert isinstance(grid, SummHay)
    run = open_run(grid, Store(str(store)))
    import random

    cells = list(grid.items())
    for cell in cells[: len(cells) // 2]:
        insights = grid.grid.haystacks[str(cell.data["unit"][0])].insights_of(cell.data["unit"][1])
        run.commit(ITEM, [finished(grid, cell, insights, random.Random(cell.id))])
    return run


def with_failures(store: Path, file: dict[str, Any]) -> RunStore:
    """The file without three of its ten summaries: their judgments are failures."""
    for place, topic in enumerate(file["subtopics"]):
        for other, key in enumerate(list(topic["summaries"])):
            if (place + other) % 10 < 3:
                del topic["summaries"][key]
    return imported(store, file, "failing.json")
