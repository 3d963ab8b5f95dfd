"""Exports a run in the released JSON format."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from summhay_ray.haystack.identity import PREFIX, haystack_id_of
from summhay_ray.records import Judgment, Ranking, Summary


def export_run(
    raw: Mapping[str, Any],
    summaries: Iterable[Summary],
    judgments: Iterable[Judgment],
    rankings: Iterable[Ranking],
    judge: str = "",
) -> dict[str, Any]:
    """Return the haystack `raw` with the summaries, judgments and retriever scores of a run in place of its own.

    The format has room for only one judge: `judge`, or the run's only one. Repeats after the first get the suffix `#N` in their
    key. Raises ValueError if there are several judges and none is named, and for two summaries or retrievers with the same key.
    """
    identity = haystack_id_of(raw)
    by_subtopic: dict[str, list[Summary]] = {}
    for summary in summaries:
        if summary.haystack_id == identity:
            by_subtopic.setdefault(summary.subtopic_id, []).append(summary)
    cells = {summary.cell_id for written in by_subtopic.values() for summary in written}
    judged = _by_cell([judgment for judgment in judgments if judgment.cell_id in cells], judge)
    ranked: dict[str, list[Ranking]] = {}
    for ranking in rankings:
        if ranking.haystack_id == identity and ranking.retriever != "full":
            ranked.setdefault(ranking.subtopic_id, []).append(ranking)
    subtopics = []
    for subtopic in raw["subtopics"]:
        written = sorted(by_subtopic.get(subtopic["subtopic_id"], []), key=lambda summary: (summary.system, summary.repeat))
        scores = _scores(written, ranked.get(subtopic["subtopic_id"], []))
        subtopics.append({**subtopic, **_answers(subtopic, written, judged), "retriever": scores})
    return {**raw, "subtopics": subtopics}


def _by_cell(judgments: list[Judgment], judge: str) -> dict[str, list[Judgment]]:
    """Return cell_id -> the judgments of `judge`, or of the only judge."""
    judges = sorted({judgment.judge for judgment in judgments})
    if not judge and len(judges) > 1:
        raise ValueError(f"the released format has room for one judge; name one of {', '.join(judges)}")
    found: dict[str, list[Judgment]] = {}
    for judgment in judgments:
        if judgment.judge == (judge or judges[0]):
            found.setdefault(judgment.cell_id, []).append(judgment)
    return found


def _answers(subtopic: Mapping[str, Any], written: list[Summary], judged: Mapping[str, list[Judgment]]) -> dict[str, Any]:
    """Return the `summaries` and `eval_summaries` of a subtopic. The judgments of a summary are in the order of the insights."""
    order = {insight["insight_id"]: place for place, insight in enumerate(subtopic["insights"])}
    summaries: dict[str, list[str]] = {}
    evaluated: dict[str, list[dict[str, Any]]] = {}
    for summary in written:
        key = PREFIX + summary.system + (f"#{summary.repeat}" if summary.repeat else "")
        if key in summaries:
            raise ValueError(f"two summaries of subtopic {subtopic['subtopic_id']!r} would be exported as {key!r}")
        summaries[key] = list(summary.bullets)
        verdicts = judged.get(summary.cell_id, [])
        if verdicts:
            evaluated[key] = [
                {
                    "coverage": judgment.coverage,
                    **({"bullet_id": json.loads(judgment.bullet_id)} if judgment.bullet_id else {}),
                    "insight_id": judgment.insight_id,
                }
                for judgment in sorted(verdicts, key=lambda judgment: (order[judgment.insight_id], judgment.position))
            ]
    return {"summaries": summaries, "eval_summaries": evaluated}


def _scores(written: list[Summary], rankings: list[Ranking]) -> dict[str, dict[str, float]]:
    """Return retriever -> document_id -> score, in document order. A retriever that ranked nothing (`none`) has no scores. Every
    retriever of a summary is included, since readers need the names to split a system's key."""
    names = {summary.retriever for summary in written if summary.retriever != "full"} | {
        ranking.retriever for ranking in rankings
    }
    scores: dict[str, dict[str, float]] = {}
    for name in sorted(names):
        released = name.removeprefix("released/")
        if released in scores:
            raise ValueError(f"two retrievers would be exported as {released!r}: {released} and released/{released}")
        ranked = sorted((ranking for ranking in rankings if ranking.retriever == name), key=lambda ranking: ranking.number)
        scores[released] = {ranking.document_id: ranking.score for ranking in ranked}
    return scores
