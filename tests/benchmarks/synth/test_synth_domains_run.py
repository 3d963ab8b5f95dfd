"""The main job on haystacks of every shipped domain and of a user's domain; both runs are exported and imported again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from synth_runs import run_inline, write_files

from summhay_ray import api
from summhay_ray.benchmarks.summhay import ScoreResult
from summhay_ray.benchmarks.synth import MadeHaystack
from summhay_ray.engine import results_of, workload_of
from summhay_ray.haystack import read_released
from summhay_ray.store import RunStore, Store
from summhay_ray.synth import load_domain, parse_domain
from summhay_ray.synth.making.domains import domain_names

pytestmark = pytest.mark.core

OWN = """name: letters
genre: a letter from a village to a relative abroad
tone: warm, and a little formal
words: 200
method: chapters
participants: [Tante Ilse, Bruno]
insights_per_document: 3
prompts:
  query: |
    You ask, in the words of a grandchild, what the letters say of a theme.

    Answer with one JSON object and nothing else: {"query": "..."}

    Input:
    [[INPUT]]
"""
PRICED = {"model": "offline/writer", "max_tokens": 600, "price": {"input_per_mtok": 1.0, "output_per_mtok": 2.0}}
SPEC: dict[str, Any] = {
    "topics": [{"topic": "the storm of Calaford", "name": "storm"}],
    "subtopics": 2,
    "insights": 3,
    "documents": 10,
    "words": 150,
    "difficulty": {"least": 2, "documents_per_insight": 4, "distractors": 1, "conflicts": 1, "cross_references": 0.5},
    "models": {"outline": PRICED, "write": PRICED},
    "license": "CC-BY-SA-4.0",
    "seed": 11,
}
N_ASKED = 7
"""Insights that are asked about: two subtopics of three, and the other side of one."""
DOMAINS = (*domain_names(), "letters.yaml")
FIGURES = ("coverage", "citation", "citation_precision", "citation_recall", "joint", "n_scored", "n_expected", "n_covered")


@pytest.fixture(scope="module", params=[*(pytest.param(name, marks=pytest.mark.soak) for name in DOMAINS[:-1]), DOMAINS[-1]])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, RunStore]:
    """The synthesis of one haystack of a domain."""
    folder = tmp_path_factory.mktemp("domains")
    write_files(folder, {"letters.yaml": OWN, "spec.yaml": json.dumps({**SPEC, "domain": request.param})})
    run, _ = run_inline(api.load(folder / "spec.yaml"), Store(str(folder / "store")))
    return request.param, run


@pytest.fixture(scope="module")
def answered(made: tuple[str, RunStore]) -> RunStore:
    """A run of two summarizers over it, with three contexts for each summarizer."""
    _, run = made
    spec = {
        "haystacks": [one.entry for one in described(run)],
        "retrievers": ["bm25", "oracle", "full"],
        "token_budget": 700,
        "summarizers": ["offline/support", "offline/lead"],
        "judges": ["offline/judge"],
    }
    return run_inline(api.load(spec, store=run.store.uri), run.store)[0]


def described(run: RunStore) -> list[MadeHaystack]:
    found: list[MadeHaystack] = results_of(workload_of(run), run).scores.haystacks
    return found


def export(run: RunStore, folder: Path) -> list[Path]:
    return api.export(run.run_id, folder, run.store.uri)


def score_run(run: RunStore) -> ScoreResult:
    return api.score(run.run_id, run.store.uri)


def there_and_back(run: RunStore, folder: Path) -> tuple[list[Path], RunStore, list[Path]]:
    """The files of a run, their import into a separate store, and the files of that import."""
    first = export(run, folder / "first")
    store = Store(str(folder / "other"))
    imported = store.run(api.import_released([str(path) for path in first], store.uri).run)
    return first, imported, export(imported, folder / "second")


def bare(raw: dict[str, Any]) -> dict[str, Any]:
    """A haystack without the fields that a run added."""
    ours = {"retriever": {}, "summaries": {}, "eval_summaries": {}}
    return {**raw, "subtopics": [{**subtopic, **ours} for subtopic in raw["subtopics"]]}


def figures(result: ScoreResult) -> dict[tuple[str, str], dict[str, Any]]:
    """(retriever, model) -> its scores."""
    return {
        (one.retriever.removeprefix("released/"), one.model): {name: getattr(one, name) for name in FIGURES}
        for one in result.systems
    }


def test_every_summary_is_scored(answered: RunStore) -> None:
    assert answered.table("failures").height == 0
    # Two queries, three contexts, two summarizers.
    assert answered.table("summaries").height == 2 * 3 * 2
    found = figures(score_run(answered))
    assert {(one["n_scored"], one["n_expected"]) for one in found.values()} == {(N_ASKED, N_ASKED)} and len(found) == 6
    support = [found[retriever, "offline/support"]["joint"] for retriever in ("oracle", "full")]
    assert min(support) > 0.3, "what several documents say is found, and cited"


def test_a_run_s_summaries_and_judgments_come_back_to_the_byte(answered: RunStore, tmp_path: Path) -> None:
    first, imported, second = there_and_back(answered, tmp_path)
    assert [path.name for path in first] == ["storm.json"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    for name in ("summaries", "judgments", "scores"):
        assert imported.table(name).height == answered.table(name).height > 0, name
    assert imported.table("failures").height == 0
    assert figures(score_run(imported)) == figures(score_run(answered))


def test_the_synthesis_comes_back_to_the_byte_with_how_it_was_made(made: tuple[str, RunStore], tmp_path: Path) -> None:
    name, run = made
    [first], imported, [second] = there_and_back(run, tmp_path)
    assert first.read_bytes() == second.read_bytes()
    source = read_released(second.read_bytes(), second.name)
    domain = parse_domain(OWN, "letters.yaml") if name == "letters.yaml" else load_domain(name)
    [haystack] = described(run)
    assert (haystack.documents, haystack.subtopics, haystack.insights) == (10, 2, N_ASKED)
    told = source.raw["topic_metadata"]["synthesis"]
    assert source.raw["topic_metadata"]["domain"] == domain.name
    assert (told["license"], told["seed"], told["prompts"]) == ("CC-BY-SA-4.0", 11, domain.hashes())
    assert {stage: model["model"] for stage, model in told["models"].items()} == dict.fromkeys(
        ("outline", "write"), "offline/writer"
    )
    assert told["usd_micros"] == run.table("raw_answers")["usd_micros"].sum() > 0
    assert (told["checks"], told["calls"]) == (run.table("checks").height, run.table("raw_answers").height)
    assert len(told["distractors"]) == 1 and len(told["conflicts"]) == 1
    for table in ("haystacks", "subtopics", "insights", "documents"):
        assert imported.digests()[table] == run.digests()[table], table
    sheets = [tmp_path / "made.csv", tmp_path / "imported.csv"]
    for sheet, of in zip(sheets, (run, imported), strict=True):
        api.audit(of.run_id, sheet, of.store.uri)
    assert sheets[0].read_bytes() == sheets[1].read_bytes(), "what a person is asked to audit is the same"


def test_a_run_s_export_holds_the_haystack_as_it_was_made(made: tuple[str, RunStore], answered: RunStore, tmp_path: Path) -> None:
    [alone] = export(made[1], tmp_path / "alone")
    [with_summaries] = export(answered, tmp_path / "run")
    raw = json.loads(with_summaries.read_bytes())
    assert bare(raw) == json.loads(alone.read_bytes())
    assert raw["topic_metadata"]["synthesis"]["license"] == "CC-BY-SA-4.0"
    written = {key for subtopic in raw["subtopics"] for key in subtopic["summaries"]}
    assert len(written) == 6 and all(set(subtopic["eval_summaries"]) == written for subtopic in raw["subtopics"])
