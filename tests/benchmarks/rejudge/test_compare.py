"""Two judges on one run: their agreement counts insights that both have scored."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from rejudged_runs import N_INSIGHTS, judged_again, rejudging, source_run

from summhay_ray.benchmarks.rejudge import compare_judges
from summhay_ray.benchmarks.summhay.results import judges as summhay_judges
from summhay_ray.engine import open_run
from summhay_ray.errors import UserError
from summhay_ray.records import COVERAGE_VALUE, Judgment, Score
from summhay_ray.report import report
from summhay_ray.store import Finished, RunStore, rows

pytestmark = pytest.mark.core

FULL, PARTIAL, NONE = "FULL_COVERAGE", "PARTIAL_COVERAGE", "NO_COVERAGE"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    """Two systems. The free judge judges them one insight per call, and again all insights together under another name."""
    found = source_run(tmp_path_factory.mktemp("source"), summarizers=["offline/lead", "offline/support"])
    judged_again(found, spec=judges(found, "{model: offline/judge, name: together, strategy: per_summary}"))
    return found


def judges(run: RunStore, *entries: str) -> str:
    path = Path(run.store.uri).parent / "judges.yaml"
    path.write_text(f"judges: [{', '.join(entries)}]", encoding="utf-8")
    return str(path)


def invented(run: RunStore, name: str, verdicts: Sequence[tuple[str, int | None, float]]) -> None:
    """A rejudge with these verdicts on the first cell's insights, in order: label, bullet, joint."""
    workload = rejudging(run, spec=judges(run, f"{{model: offline/judge, name: {name}, max_tokens: {100 + len(name)}}}"))
    cell = run.table("summaries")["cell_id"][0]
    insights = run.table("judgments", [cell])["insight_id"].to_list()
    held = open_run(workload, run.store)
    said = list(zip(range(len(verdicts)), insights, verdicts, strict=False))
    judged = [Judgment(cell, name, one, place, "", label, json.dumps(bullet or "NA")) for place, one, (label, bullet, _) in said]
    scored = [
        Score(cell, name, one, place, COVERAGE_VALUE[label], bullet, (), (), None, None, None, joint)
        for place, one, (label, bullet, joint) in said
    ]
    held.commit("item", [Finished(cell, {"judgments": judged, "scores": scored})])


def test_one_judge_against_itself_asked_otherwise(run: RunStore) -> None:
    found = compare_judges(run, ["offline/judge", "together"], rows=5)
    n = 2 * N_INSIGHTS
    assert found.judges == ("offline/judge", "together") and found.n_scored == (n, n)
    assert found.agreement.n == n == sum(sum(row.values()) for row in found.agreement.confusion.values())
    assert found.agreement.correlation is not None and found.agreement.correlation > 0.5
    assert {*found.systems["model"]} == {"offline/lead", "offline/support"} and {*found.systems["n"]} == {N_INSIGHTS}
    assert [joint[0] for joint in found.systems["joint"]] == sorted((joint[0] for joint in found.systems["joint"]), reverse=True)
    differences = found.differences.to_dicts()
    apart = [abs(one["values"][0] - one["values"][1]) for one in differences]
    assert len(apart) <= 5 and apart == sorted(apart, reverse=True)
    assert all(len({*one["labels"]}) == 2 or len({*one["bullets"]}) == 2 for one in differences)


def test_the_report_counts_the_same_agreement_a_piece_at_a_time(run: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    told = compare_judges(run, ["offline/judge", "together"]).agreement
    monkeypatch.setattr(summhay_judges, "SUMMARIES_AT_ONCE", 1)
    monkeypatch.setattr(rows, "TOGETHER", 1)
    table = report([run]).section("agreement").table
    assert table is not None
    [row] = [row for row in table.to_dicts() if (row["judge"], row["other judge"]) == ("offline/judge", "together")]
    assert (row["same label"], row["same bullet"], row["n"]) == (told.same_label, told.same_bullet, told.n)
    labels = [COVERAGE_VALUE[label] for label in told.confusion]
    counts = np.array([list(row.values()) for row in told.confusion.values()])
    pairs = [(a, b, counts[x, y]) for x, a in enumerate(labels) for y, b in enumerate(labels)]
    values = np.repeat([pair[:2] for pair in pairs], [pair[2] for pair in pairs], axis=0)
    assert row["correlation"] == pytest.approx(np.corrcoef(values.T)[0, 1])
    assert row["coverage less the other's"] == pytest.approx((values[:, 0] - values[:, 1]).mean())


def test_only_what_both_scored_counts(run: RunStore) -> None:
    invented(run, "five", [(FULL, 1, 0.8), (PARTIAL, 1, 0.2), (NONE, None, 0.0), (FULL, 2, 0.5), (FULL, 1, 0.3)])
    invented(run, "four", [(FULL, 1, 0.8), (NONE, None, 0.0), (NONE, None, 0.0), (FULL, 1, 0.4)])
    found = compare_judges(run, ["five", "four"])
    assert (found.n_scored, found.agreement.n, found.agreement.same_label) == ((5, 4), 4, 3 / 4)
    assert (found.agreement.n_linked, found.agreement.same_bullet) == (2, 1 / 2)
    [system] = found.systems.to_dicts()
    assert system["n"] == 4
    assert system["joint"] == pytest.approx([(0.8 + 0.2 + 0 + 0.5) / 4, (0.8 + 0 + 0 + 0.4) / 4])
    assert system["coverage"] == pytest.approx([(1 + 0.5 + 0 + 1) / 4, (1 + 0 + 0 + 1) / 4])
    assert (system["joint_ranks"], found.ranking["joint"].spearman) == ([1, 1], None), "one system has no ranking"
    first, second = found.differences.to_dicts()
    assert (first["labels"], first["bullets"]) == ([PARTIAL, NONE], [1, None])
    assert (second["labels"], second["bullets"]) == ([FULL, FULL], [2, 1])
    bullets = run.table("summaries")["bullets"][0].to_list()
    assert first["insight"] and first["texts"][1] is None and second["texts"] == [bullets[1], bullets[0]]


def test_the_agreement_is_printed_as_json_and_in_tables(run: RunStore) -> None:
    found = compare_judges(run, ["offline/judge", "together"])
    told = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert set(told) == {"run", "judges", "n_scored", "agreement", "ranking", "systems", "differences", "usd", "input_tokens"}
    assert set(told["ranking"]) == {"joint", "coverage"} and told["ranking"]["joint"]["n"] == 2
    sections = found.sections()
    [counts, labels, systems, differences] = [section.table for section in sections]
    assert counts is not None and labels is not None and systems is not None and differences is not None
    assert counts.row(0) == ("insights scored by both", f"{2 * N_INSIGHTS} (of {2 * N_INSIGHTS} and {2 * N_INSIGHTS})")
    assert sum(labels.select("full", "partial", "none").sum().row(0)) == 2 * N_INSIGHTS
    assert sections[2].title == "Systems by A, offline/judge, and by B, together: raw figures and their ranks"
    first = found.systems.row(0, named=True)
    assert systems.row(0, named=True)["joint A"] == first["joint"][0] and systems["rank A"].to_list() == [1, 2]
    assert sections[2].units == dict.fromkeys(("joint A", "joint B", "coverage A", "coverage B"), "%")
    assert differences.height == found.differences.height


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (["together"], "compare takes two judges: --judges A B"),
        (["together", "together"], "compare takes two judges"),
        (["together", "openai/gpt-4o"], "has no judgments by 'openai/gpt-4o'; it has those by offline/judge, together"),
        (["together", "nobody"], "has no judgments by 'nobody'"),
    ],
)
def test_who_cannot_be_compared_is_named(run: RunStore, wanted: list[str], expected: str) -> None:
    with pytest.raises(UserError, match=expected):
        compare_judges(run, wanted)
