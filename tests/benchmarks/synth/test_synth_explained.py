"""`explain` of a synthesis: from a haystack's name to its checks, from a document to its plan and its answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from synth_runs import run_inline, small

from summhay_ray import api
from summhay_ray.benchmarks.synth import MadeHaystack
from summhay_ray.benchmarks.synth import make_haystack as making
from summhay_ray.benchmarks.synth.topics import Made, made_by
from summhay_ray.cli import explained
from summhay_ray.engine import results_of, workload_of
from summhay_ray.store import RunStore, Store, StoreError
from summhay_ray.synth import Unverified

pytestmark = pytest.mark.core

TWO = {"topics": ["the new tram line in Calaford", {"topic": "the dispute about the ferry", "name": "ferry"}]}
MIXED = {"difficulty": {"least": 2, "documents_per_insight": 3, "distractors": 1, "cross_references": 0.5}}


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    """Two topics; one of their subtopics is a distractor."""
    return run_inline(small(**TWO, **MIXED), Store(str(tmp_path_factory.mktemp("explained"))))[0]


def explain(run: RunStore, key: str) -> dict[str, Any]:
    """Call the function that users call."""
    return api.explain(run.run_id, key, run.store.uri)


def ferry(run: RunStore) -> Made:
    return next(one for one in made_by(run).values() if one.name == "ferry")


def found_by(run: RunStore) -> list[MadeHaystack]:
    found: list[MadeHaystack] = results_of(workload_of(run), run).scores.haystacks
    return found


def test_a_haystack_goes_by_its_name_its_id_and_its_cell(done: RunStore) -> None:
    made = ferry(done)
    found = explain(done, "ferry")
    for key in (made.haystack_id, made.haystack_id[:8], made.cell_id, made.cell_id[:12]):
        assert explain(done, key) == found
    described = next(one for one in found_by(done) if one.name == "ferry")
    names = ("name", "haystack_id", "entry", "documents", "subtopics", "insights", "tokens", "words", "checks", "usd")
    names += ("distractors",)
    assert {name: found["haystack"][name] for name in names} == {name: getattr(described, name) for name in names}
    # Two queries and one distractor, with two insights each.
    assert (described.subtopics, described.distractors, described.insights) == (2, 1, 4)
    assert found["haystack"]["models"]["write"]["model"] == "offline/writer"


MENDED = [
    # A near-copy was written again, and the pair is no near-copy any more.
    ("document_copy", 0, "d2", "d1", "no", "yes"),
    ("document_copy", 0, "", "", "no", "yes"),
    ("document_copy", 1, "", "", "no", "no"),
    # A query revealed an insight of another subtopic, and was requested again.
    ("query_leak", 0, "s1", "s2-i1", "no", "yes"),
    ("query_leak", 1, "s1", "s1-i1", "no", "no"),
    # It was first compared with a subtopic that was dropped; a new one was compared with a kept subtopic, and dropped.
    ("subtopic_distinct", 0, "s9", "s1", "yes", "no"),
    ("insight_distinct", 0, "s1-i1", "s9-i1", "yes", "no"),
    ("insight_distinct", 1, "s1-i1", "s1-i2", "yes", "yes"),
    ("insight_distinct", 1, "s1-i9", "s1-i1", "yes", "no"),
    # A check found it in a conversation's chapter, and the document has it.
    ("chapter_insight", 10, "d1", "s1-i1", "s1-i1", "no"),
    # The text of a document before editing.
    ("document_insight", 90, "d3", "s1-i1", "no", "yes"),
    ("document_insight", 91, "d3", "s1-i1", "no", "no"),
]
STANDING = [
    # The offline check was not sure enough to drop it.
    ("insight_subtopic", 90, "s1-i1", "s1", "s1", "s2"),
    # The plan was corrected.
    ("document_insight", 99, "d1", "s1-i1", "yes", "no"),
    ("document_reference", 0, "d3", "d2", "yes", "no"),
]


@pytest.mark.parametrize("made", [True, False])
def test_repaired_flaws_are_not_reported_as_flaws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: bool) -> None:
    real = making.synthesize

    async def mends(job: Any, asker: Any) -> Any:
        found = await real(job, asker)
        names = ("kind", "round", "subject", "object", "expected", "found")
        more = [
            replace(found.checks[0], position=90_000 + place, **dict(zip(names, one, strict=True)))
            for place, one in enumerate([*MENDED, *STANDING])
        ]
        checks = (*found.checks, *more)
        return replace(found, checks=checks) if made else Unverified("documents", "unsound_truth", "too much", checks)

    monkeypatch.setattr(making, "synthesize", mends)
    run, _ = run_inline(small(), Store(str(tmp_path)))
    found = explain(run, run.table("checks")["cell_id"][0])
    told = [tuple(one[name] for name in ("kind", "round", "subject", "object", "expected", "found")) for one in found["amiss"]]
    if made:
        assert told == STANDING
    else:
        # Without a haystack, a dropped item may be the reason of the failure.
        assert told == [one for one in MENDED if "s9" in one or one[2] == "s1-i9"] + STANDING
    assert sum(kind["unexpected"] for kind in found["checks_by_kind"]) == sum(one[4] != one[5] for one in [*MENDED, *STANDING])


def test_its_documents_carry_what_the_release_says_and_the_distractors(done: RunStore) -> None:
    found = explain(done, "ferry")
    assert [one["document_id"] for one in found["documents"]] == [f"d{number}" for number in range(1, 7)]
    assert any(one["distractors"] for one in found["documents"]) and any(one["refers_to"] for one in found["documents"])
    for row in found["documents"]:
        one = explain(done, f"ferry/{row['document_id']}")["document"]
        assert {name: one[name] for name in row} == row
        held = {plan["insight_id"] for plan in one["plan"] if plan["found"]}
        assert held == {*row["insights"], *row["distractors"]}, "distractors are found as the others are"
        assert all(plan["insight"] for plan in one["plan"]) and len(one["text"].split()) == row["words"]


def test_a_document_shows_its_evidence_and_the_answer_that_wrote_it(done: RunStore) -> None:
    made = ferry(done)
    found = explain(done, "ferry/d2")
    assert explain(done, f"{made.haystack_id}/d2") == found == explain(done, f"{made.cell_id[:10]}/d2")
    document = found["document"]
    for plan in document["plan"]:
        if plan["found"]:
            assert " ".join(plan["evidence"].split())[:40] in " ".join(document["text"].split())
    [written] = [one for one in document["answers"] if one["task"] == "document"]
    raw = explain(done, written["key"])
    assert raw["raw_answer"]["text"].strip() == document["text"] and '"task": "document"' in raw["prompt"]
    assert {one["subject"] for one in found["checks"]} == {"d2"}


def test_a_missing_name_is_reported_with_the_known_ones(done: RunStore) -> None:
    known = "it has: the_new_tram_line_in_calaford, ferry"
    with pytest.raises(StoreError, match="has no cell or answer 'harbour', and no haystack of that name"):
        explain(done, "harbour")
    with pytest.raises(StoreError, match=f"key 'tram' is too short .*{known}"):
        explain(done, "tram")
    with pytest.raises(StoreError, match="haystack ferry has no document 'd77'"):
        explain(done, "ferry/d77")


def test_a_topic_that_failed_shows_what_failed_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = making.synthesize

    async def fails(job: Any, asker: Any) -> Any:
        found = await real(job, asker)
        amiss = [one for one in found.checks if one.kind == "document_insight" and one.found == "yes"][0]
        return Unverified("documents", "unsound_truth", "document 1 holds too much", (*found.checks, _again(amiss, "no")))

    def _again(check: Any, found: str) -> Any:
        return replace(check, position=99_999, round=check.round + 1, found=found)

    monkeypatch.setattr(making, "synthesize", fails)
    run, _ = run_inline(small(**TWO), Store(str(tmp_path)))
    found = explain(run, "ferry")
    assert (found["haystack"], found["documents"], found["failures"][0]["error"]) == (None, [], "unsound_truth")
    assert [(one["kind"], one["found"], one["position"]) for one in found["amiss"]][-1] == ("document_insight", "no", 99_999)
    with pytest.raises(StoreError, match="topic 'ferry' of run .* has no haystack, so it has no documents"):
        explain(run, "ferry/d1")


@pytest.mark.parametrize("key", ["ferry", "ferry/d2"])
def test_a_person_reads_it_at_80_columns(
    done: RunStore, key: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = shower(monkeypatch)(explain(done, key), capsys)
    lines = shown.splitlines()
    # An entry is meant to be copied, so it is not broken into lines.
    assert all(len(line) <= 80 for line in lines if "store/" not in line)
    if key == "ferry":
        assert ["haystack_id", ferry(done).haystack_id] in [line.split()[:2] for line in lines]
        assert " 2 subtopics + 1 distracting, 4 insights" in " ".join(shown.split())
        assert "insight_specific" in shown and "│ d6 " in shown and f"summhay explain {done.run_id} ferry/d1" in shown
    else:
        assert (
            "planned, found" in shown and "evidence  " in shown and "--- text" in shown and "Answers that it stands on" in shown
        )


def shower(monkeypatch: pytest.MonkeyPatch) -> Callable[[Mapping[str, Any], Any], str]:
    from summhay_ray.cli import show

    monkeypatch.setattr(show, "PLAIN_WIDTH", 80)

    def printed(found: Mapping[str, Any], capsys: Any) -> str:
        explained.show(found)
        text: str = capsys.readouterr().out
        return text

    return printed
