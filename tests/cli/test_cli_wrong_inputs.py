"""One input in place of another: one line names the given and the expected input, on the command line and in Python."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import SUMMHAY, Said, write_json
from local_http import serving

from summhay_ray import api
from summhay_ray.engine import SpecError
from summhay_ray.haystack import load_sample

pytestmark = pytest.mark.core

Cli = Callable[..., Said]
SMALL: dict[str, Any] = {
    "haystacks": ["sample/news"],
    "retrievers": ["bm25"],
    "summarizers": ["offline/lead"],
    "judges": ["offline/judge"],
    "executor": "inline",
}


@pytest.mark.parametrize("line", ["run FILE", "synth FILE", "doctor FILE"])
def test_a_haystack_in_place_of_a_spec(cli: Cli, tmp_path: Path, line: str) -> None:
    write_json(tmp_path / "news.json", dict(load_sample("news")))
    said = cli(*line.replace("FILE", str(tmp_path / "news.json")).split()).refusal
    assert "news.json: this is a haystack and no spec; a spec names it, as in haystacks: [FILE.json]" in said


@pytest.mark.parametrize(
    ("command", "name", "content", "expected"),
    [
        ("run", "list.json", "[1, 2]", "expected a mapping of fields such as name: my-run, found list [1, 2]"),
        ("run", "empty.yaml", "", "expected a mapping of fields such as name: my-run, found an empty file; summhay init"),
        ("run", "twice.json", '{"name": "a", "name": "b"}', "not JSON: duplicate key 'name'; remove one"),
        ("run", "latin.yaml", b"name: caf\xe9", "is not text in UTF-8"),
        ("mine", "notes.txt", "hello", "is a file and no spec; give the folder that holds the documents, or a spec of kind mine"),
        ("mine", "run.yaml", "haystacks: [a.json]", "is of kind summhay; start it with: summhay run"),
        ("synth", "bare.yaml", "domain: news", "topics: field required"),
    ],
)
def test_a_file_in_place_of_another(
    cli: Cli, tmp_path: Path, command: str, name: str, content: str | bytes, expected: str
) -> None:
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    assert expected in cli(command, tmp_path / name).refusal


@pytest.mark.parametrize("price", [-1, "free", True])
def test_a_price_that_is_none(price: Any) -> None:
    with pytest.raises(SpecError, match=r"summarizers\[0\].price: expected 0, or dollars per million tokens"):
        api.load({**SMALL, "summarizers": [{"model": "openai/gpt-4o", "price": price}]})


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: api.run({}), "spec: haystacks: field required"),
        (lambda: api.run(None), "spec: expected text or a path or a mapping, found None"),  # type: ignore[arg-type]
        (lambda: api.run(SMALL, budget="5"), "budget: expected a number or None, found '5'"),  # type: ignore[arg-type]
        (lambda: api.run(SMALL, limit=2.5), "limit: expected a whole number or None, found 2.5"),  # type: ignore[arg-type]
        (lambda: api.run(SMALL, executor="rya"), "executor: expected 'auto' or 'inline' or 'ray' or None, found 'rya'"),
        (lambda: api.run(SMALL, overrides="seed=4"), "overrides: expected a list of text, found 'seed=4'"),
        (lambda: api.run(SMALL, watch="x"), "watch: expected a function or None, found 'x'"),  # type: ignore[arg-type]
        (lambda: api.score("r1", compat="relase"), "compat: expected 'default' or 'release', found 'relase'"),  # type: ignore[arg-type]
        (lambda: api.export_tables("r1", "out", kind="xml"), "kind: expected 'parquet' or 'csv' or 'jsonl'"),  # type: ignore[arg-type]
    ],
)
def test_an_argument_of_a_wrong_kind(call: Callable[[], object], expected: str) -> None:
    with pytest.raises(SpecError) as refused:
        call()
    assert str(refused.value).startswith(expected) and "\n" not in str(refused.value)


def test_completions_are_installed_and_the_command_ends_in_0(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path), "SHELL": "/bin/bash", "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    # The shell is the parent of the command.
    line = ["/bin/bash", "-c", f"{SUMMHAY} --install-completion; exit $?"]
    said = subprocess.run(line, capture_output=True, text=True, env=environment, timeout=60)
    assert (said.returncode, said.stderr) == (0, "") and "bash completion installed" in said.stdout


@pytest.fixture
def empty_search() -> Iterator[str]:
    """A search service that finds nothing."""
    with serving(lambda _: {"hits": []}) as address:
        yield f"{address}/search"


def test_a_search_that_finds_nothing_is_its_failure_and_no_empty_context(empty_search: str, tmp_path: Path) -> None:
    search = {"search": "mine", "api_base": empty_search, "results": "hits", "id": "id"}
    store = str(tmp_path / "store")
    run = api.run({**SMALL, "retrievers": [search, "none"]}, store).run
    failures = api.table(run, "failures", store)
    assert {*failures.filter(stage="context")["error"]} == {"nothing_found"}
    assert failures.filter(stage="context").height == 4
    assert {*api.table(run, "contexts", store)["retriever"]} == {"none"}


def test_retrievers_for_answers_from_a_file_are_reported_as_without_effect(cli: Cli, tmp_path: Path) -> None:
    topics = load_sample("news")["subtopics"]
    lines = [json.dumps({"query_id": topic["subtopic_id"], "text": "- Yes [1]."}) for topic in topics]
    (tmp_path / "answers.jsonl").write_text("\n".join(lines), encoding="utf-8")
    summarizers = [{"answers": "answers.jsonl", "name": "stack"}]
    write_json(tmp_path / "spec.yaml", {**SMALL, "summarizers": summarizers})
    for line in ("plan", "run"):
        assert "retrievers: bm25: without effect on stack" in cli(line, tmp_path / "spec.yaml", "--store", tmp_path / "s").err
    write_json(tmp_path / "spec.yaml", {**SMALL, "retrievers": ["none"], "summarizers": summarizers})
    assert "without effect" not in cli("plan", tmp_path / "spec.yaml", "--store", tmp_path / "s").err


FLOATY = """\
from summhay_ray.judge import Verdict
from summhay_ray.outcome import Answer

class Floaty:
    async def judge(self, insights, bullets, settings, ask):
        return [0.7 for _ in insights]

class Plain:
    def judge(self, insights, bullets, settings, ask):
        return [Answer(Verdict("NO_COVERAGE", "NA")) for _ in insights]
"""


def test_a_judge_that_returns_floats_learns_what_to_return(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "floaty_judge.py").write_text(FLOATY, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    store = str(tmp_path / "store")
    result = api.run({**SMALL, "judges": ["floaty_judge:Floaty", "floaty_judge:Plain"]}, store)
    messages = {one["message"] for one in api.failures(result.run, store)}
    assert messages and all("returned a list with 0.7 (float); expected a list of" in message for message in messages)
    assert all("Answer(Verdict(coverage, bullet_id))" in message for message in messages)
    [plain] = [one for one in api.score(result.run, store).systems if one.judge == "floaty_judge:Plain"]
    assert plain.n_scored == plain.n_expected > 0


def test_figures_of_the_paper_are_shown_for_its_haystacks_alone(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    api.make_report(api.run(SMALL, store).run, store).write(str(tmp_path / "own"), "md")
    own = (tmp_path / "own" / "report.md").read_text(encoding="utf-8")
    assert "People (paper)" not in own and "Figure 3" not in own
    haystack = dict(load_sample("news"))
    more = [
        {"document_id": f"more-{n}", "document_text": "Nothing.", "insights_included": []}
        for n in range(100 - len(haystack["documents"]))
    ]
    scores = dict.fromkeys(("random", "keywords", "vector", "dwzhu/e5-base-4k", "rerank3", "oracle"), {"more-0": 0.5})
    subtopics = [{**topic, "retriever": scores} for topic in haystack["subtopics"]]
    write_json(tmp_path / "paper.json", {**haystack, "documents": [*haystack["documents"], *more], "subtopics": subtopics})
    run = api.run({**SMALL, "haystacks": [str(tmp_path / "paper.json")]}, store).run
    api.make_report(run, store).write(str(tmp_path / "papers"), "md")
    papers = (tmp_path / "papers" / "report.md").read_text(encoding="utf-8")
    assert "People (paper)" in papers and "Figure 3" in papers
