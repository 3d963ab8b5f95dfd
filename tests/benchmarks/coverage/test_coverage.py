"""Information coverage of any benchmark: ETHIC, SummHay and a user's own; and prompts split into context and query."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml
from coverage_evaluators import measure_evaluator
from simulated_provider import in_thread

import summhay_ray
from summhay_ray.benchmark import Request
from summhay_ray.benchmarks.coverage.evaluators import (
    EmbeddedCoverage,
    LexicalCoverage,
    chunk_question,
    verdict,
    verdicts,
    whole_question,
)
from summhay_ray.benchmarks.coverage.questions import split
from summhay_ray.errors import SpecError

pytestmark = pytest.mark.core

ROOT = Path(__file__).resolve().parents[3]


def rows(result: Any) -> dict[tuple[str, str], dict[str, Any]]:
    return {(one["evaluator"], one["group"]): one for one in result.to_json()["coverage"]}


def written(folder: Path, **fields: Any) -> str:
    (folder / "spec.yaml").write_text(yaml.safe_dump(fields), encoding="utf-8")
    return str(folder / "spec.yaml")


def test_ethic_needs_its_contexts_and_a_question_about_a_section_does_not(tmp_path: Path) -> None:
    found = summhay_ray.coverage(ROOT / "jobs" / "ethic.yaml", store=str(tmp_path), chunk_tokens=64, executor="inline")
    told = rows(found)
    # A right answer has the whole context. The figure is marked as such, and not part of the mean of all.
    summarizing = told["offline/coverage", "Summarizing/Books"]
    assert (summarizing["coverage"], summarizing["basis"]) == (1, "by construction")
    assert told["offline/coverage", "Lookup/Books"]["coverage"] < 0.5 < told["offline/coverage", "Recalling/Books"]["coverage"]
    whole = told["offline/coverage", "all"]
    assert (
        whole["basis"] == "references"
        and whole["n"] == whole["n_expected"] == 24
        and whole["ci"][0] < whole["coverage"] < whole["ci"][1]
    )
    [pair] = summhay_ray.compare_systems(found.run, found.run, store=str(tmp_path)).to_json()["pairs"]
    assert pair["paired"]["n_queries"] == whole["n"] and pair["paired"]["a"] == pytest.approx(whole["coverage"])
    again = summhay_ray.coverage(ROOT / "jobs" / "ethic.yaml", store=str(tmp_path), chunk_tokens=64, executor="inline")
    assert (again.run, again.calls["made"]) == (found.run, 0)
    stored = summhay_ray.score(found.run, str(tmp_path)).details  # type: ignore[union-attr]
    assert stored["coverage"] == found.to_json()["coverage"]


def test_summhay_and_a_benchmark_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = written(tmp_path, haystacks=["sample/news"], retrievers=["full", "oracle"], summarizers=["offline/lead"])
    found = summhay_ray.coverage(spec, store=str(tmp_path / "store"), sample=2, chunk_tokens=256, executor="inline")
    told = rows(found)["offline/coverage", "all"]
    assert told["n"] == 2 and 0.05 < told["coverage"] < 0.9 and told["chunks"] > 5
    for name in ("needle.py", "needle.yaml"):
        shutil.copy(ROOT / "examples" / name, tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    needle = summhay_ray.coverage(
        tmp_path / "needle.yaml", store=str(tmp_path / "store"), sample=3, executor="inline", chunk_tokens=64
    )
    assert rows(needle)["offline/coverage", "all"]["coverage"] < 0.3


def test_evaluators_are_held_against_each_other_and_a_lost_verdict_is_counted(tmp_path: Path) -> None:
    # A rater gives no final score: its chunks are failures, and its questions are not scored.
    names = ["offline/coverage", "offline/lead"]
    sample = {"sample": 1, "overrides": ['tasks=["Recalling"]', 'domains=["Books"]']}
    found = summhay_ray.coverage(
        ROOT / "jobs" / "ethic.yaml", names, str(tmp_path), executor="inline", chunk_tokens=128, **sample
    )
    told = rows(found)
    assert (told["offline/lead", "Recalling/Books"]["n"], told["offline/lead", "Recalling/Books"]["n_expected"]) == (0, 1)
    assert found.status == "partial" and told["offline/coverage", "Recalling/Books"]["n"] == 1


def test_a_question_with_a_lost_verdict_is_not_counted_as_scored(tmp_path: Path) -> None:
    asked: list[str] = []

    def judged(_: str, prompt: str) -> str:
        asked.append(prompt)
        return "I cannot say." if len(asked) == 1 else "# Final Score\n1"

    of = written(tmp_path, kind="ethic", models=["offline/names"], tasks=["Recalling"], domains=["Books"])
    with in_thread(judged) as provider:
        judge = {"model": "openai/judge", "api_base": provider.base, "price": 0}
        spec = {"kind": "coverage", "of": of, "sample": 1, "chunk_tokens": 128, "evaluators": [judge]}
        found = summhay_ray.run(spec, store=str(tmp_path / "store"), executor="inline")
    verdicts = summhay_ray.table(found.run, "coverage_chunks", str(tmp_path / "store"))
    assert found.status == "partial" and 0 < verdicts.height < verdicts["n_chunks"][0]
    told = rows(found)["openai/judge", "all"]
    assert (told["coverage"], told["n"], told["n_expected"]) == (1, 0, 1)
    assert told["coverage_floor"] == pytest.approx(verdicts.height / verdicts["n_chunks"][0])


def test_a_spec_of_coverage_names_what_it_measures(tmp_path: Path) -> None:
    of = written(tmp_path, kind="ethic", models=["offline/names"], domains=["Debates"])
    own = tmp_path / "own.yaml"
    own.write_text(json.dumps({"kind": "coverage", "of": of, "sample": 1, "most_chunks": 2}), encoding="utf-8")
    result = summhay_ray.coverage(own, store=str(tmp_path / "store"), executor="inline", overrides=["chunk_tokens=64"])
    assert summhay_ray.table(result.run, "coverage_chunks", str(tmp_path / "store")).height == 4
    assert summhay_ray.plan(own, store=str(tmp_path / "new")).stages[0].calls > 0
    with pytest.raises(SpecError, match="no file"):
        summhay_ray.run({"kind": "coverage", "of": "nowhere.yaml"}, store=str(tmp_path / "store"))


@pytest.mark.parametrize(
    ("prompt", "parts"),
    [
        (
            "### Context:\na\n\nb\n\nNow, respond to the instruction.\n\nWho?",
            ("a\n\nb", "Now, respond to the instruction.\n\nWho?"),
        ),
        ("Head\n\nArticle 1:\na\n\nArticle 2:\nb\n=== End of documents ===\n\nSubtopic: x\n\nWrite.", None),
        ("line 1\nline 2\n\nWhere is it?", ("line 1\nline 2", "Where is it?")),
        ("Where is it?", None),
    ],
)
def test_prompts_are_taken_apart(prompt: str, parts: tuple[str, str] | None) -> None:
    if parts is None and "Article" in prompt:
        context, query = split(prompt) or ("", "")
        assert context == "Article 1:\na\n\nArticle 2:\nb" and query.startswith("Head") and query.endswith("Write.")
    else:
        assert split(prompt) == parts


def test_agreement_is_of_what_is_measured(tmp_path: Path) -> None:
    shared = {"sample": 1, "chunk_tokens": 128, "overrides": ['domains=["Books"]'], "executor": "inline"}
    spec = {"kind": "coverage", "of": str(ROOT / "jobs" / "ethic.yaml"), "name": "twice", **shared}
    twice = [{"model": LexicalCoverage.name, "name": name} for name in ("one", "other")]
    found = summhay_ray.run({**spec, "evaluators": twice}, store=str(tmp_path))
    verdicts_there = summhay_ray.table(found.run, "coverage_chunks", str(tmp_path))
    measured_there = verdicts_there.filter(pl.col("basis") != "by construction").height / 2
    [row] = found.to_json()["agreement"]
    assert (row["same"], row["kappa"], row["n"]) == (1.0, 1.0, measured_there) and 2 * row["n"] < verdicts_there.height


def test_the_last_final_score_counts() -> None:
    assert verdict("# Final Score: 0\nNo:\n# Final Score :\n**1**") is True
    assert (verdict("# Final Score\n0"), verdict("1"), verdict("# Final Score\n2")) == (False, None, None)


SANG, FLOODED = "The choir sang in the church.", "The surge flooded the tram depot to a depth of 1.9 metres."
SURGE = "A surge of 1.9 metres flooded the depot."


def needed(
    evaluator: Any, passages: list[str], references: list[str], query: str = "What did the flood of March destroy?"
) -> list[bool]:
    return verdicts(evaluator.answer(Request("m", whole_question(passages, query, references))))


@pytest.mark.parametrize(
    ("passages", "references", "wanted"),
    [
        (["Anna met Boris.", "Annabel met Boris."], ["anna"], [True, False]),
        ([FLOODED, SANG], [SURGE], [True, False]),
        # If a passage supports a sentence completely, similar passages do not count.
        ([FLOODED, "A flooded depot of 1.9 metres.", SANG], [SURGE], [True, True, False]),
        ([FLOODED, "A surge of voices flooded the church.", SANG], [SURGE], [True, False, False]),
        # No passage has all words of the abstract: the passage with most of its rare words is needed.
        (["Two metres of surge flooded the yard by night.", SANG, "The trams were new."], [SURGE], [True, False, False]),
        ([SANG, "The trams were new."], [SURGE], [False, False]),
        (["What the flood of March destroyed.", SANG], [], [True, False]),
        ([SANG], ["", "  "], [False]),
        ([], [SURGE], []),
    ],
)
def test_words_show_what_a_passage_supports(passages: list[str], references: list[str], wanted: list[bool]) -> None:
    assert needed(LexicalCoverage(), passages, references) == wanted
    # No other model sees the right answer.
    assert all(one not in chunk_question("x", "y") for one in references if one.strip())


@pytest.mark.soak
@pytest.mark.embed
def test_vectors_recognize_other_words() -> None:
    references = ["The surge left the depot under two metres of water."]
    passages = ["After the surge the depot lay two metres under water.", SANG, ""]
    assert needed(EmbeddedCoverage(), passages, references) == [True, False, False]
    assert needed(EmbeddedCoverage(), ["Trams stood in the flooded yard.", SANG], references) == [True, False]


def test_an_abstract_is_found_in_the_documents_that_it_is_of(shared_data: Path) -> None:
    """ODSum's abstracts use other words than its meetings. The needed chunks must still be in the gold meetings."""
    [row] = measure_evaluator(shared_data, LexicalCoverage(), haystacks=(), meetings=2)
    # Gold documents are 29 % of the chunks.
    assert row["found"] > 0.9 and row["precision"] > 2 * row["by_chance"]
