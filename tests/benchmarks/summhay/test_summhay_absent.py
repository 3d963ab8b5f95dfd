"""Queries that no document answers have a separate figure, and do not affect the others; and bullets that no document
supports."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from summhay_ray import api
from summhay_ray.haystack import InvalidHaystack, load_sample, read_released
from summhay_ray.judge import Verdict
from summhay_ray.outcome import Answer

pytestmark = pytest.mark.core

ABSENT = {
    "subtopic_id": "fees",
    "subtopic": "parking fees",
    "query": "What do the documents say about parking fees?",
    "insights": [],
    "absent": True,
}
SAYS_SO = "- The documents do not report anything about parking fees."
CLAIMS = "- Parking costs 5 euros a day [3]."


def spec_of(folder: Path, haystack: dict[str, Any], answers: dict[str, str]) -> dict[str, Any]:
    """A run of the haystack with the free summarizer, and a system with the given answers to queries, or a default answer."""
    (folder / "news.json").write_text(json.dumps(haystack), encoding="utf-8")
    (folder / "answers.jsonl").write_text(
        "".join(json.dumps({"query_id": query, "text": text}) + "\n" for query, text in answers.items()), encoding="utf-8"
    )
    spec: dict[str, Any] = {
        "haystacks": [str(folder / "news.json")],
        "retrievers": ["oracle"],
        "summarizers": ["offline/support", {"answers": str(folder / "answers.jsonl"), "name": "stack"}],
        "judges": ["offline/judge"],
        "executor": "inline",
    }
    return spec


def sample() -> dict[str, Any]:
    return json.loads(json.dumps(load_sample("news")))  # type: ignore[no-any-return]


def answers_to(haystack: dict[str, Any]) -> dict[str, str]:
    """The first insight of each query with right citations, and a bullet that no document supports."""
    found = {}
    for topic in haystack["subtopics"]:
        first = topic["insights"][0]
        number = next(n for n, one in enumerate(haystack["documents"], 1) if first["insight_id"] in one["insights_included"])
        made_up = "A zebra named Quentin painted 77 violet submarines in Ulaanbaatar."
        found[topic["subtopic_id"]] = f"- {first['insight']} [{number}]\n- {made_up} [{number}]"
    return found


def figures(result: Any, name: str = "stack") -> dict[str, Any]:
    return next(one for one in json.loads(json.dumps(result.to_json()))["systems"] if one["model"] == name)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Ran:
    """The sample without and with three absent queries, run in one store: the stack answers two of the three."""

    store: str
    without: Any
    found: Any


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    folder, plain = tmp_path_factory.mktemp("absent"), sample()
    without = api.run(spec_of(folder, plain, answers_to(plain)), str(folder / "store"))
    absent = [{**ABSENT, "subtopic_id": name} for name in ("fees", "fees-2", "fees-3")]
    given = {**answers_to(plain), "fees": SAYS_SO, "fees-2": CLAIMS}
    found = api.run(spec_of(folder, {**plain, "subtopics": [*plain["subtopics"], *absent]}, given), str(folder / "store"))
    return Ran(str(folder / "store"), without, found)


def test_such_queries_are_a_figure_of_their_own_and_part_of_no_other_and_a_missing_answer_is_not_silent(
    ran: Ran, tmp_path: Path
) -> None:
    store, without, found = ran.store, ran.without, ran.found
    own = ("invented", "n_absent", "n_absent_expected")
    assert [figures(found)[name] for name in own] == [0.5, 2, 3]
    assert [figures(found, "offline/support")[name] for name in own] == [0.0, 3, 3]
    assert [figures(without)[name] for name in own] == [None, 0, 0]
    for name in ("stack", "offline/support"):
        before, after = ({**figures(one, name), **dict.fromkeys(own)} for one in (without, found))
        assert after == before
    assert found.scores.queries.drop("haystack_id").equals(without.scores.queries.drop("haystack_id"))
    assert found.scores.retrieval.equals(without.scores.retrieval)
    assert found.table.filter(model="stack")["invented"].item() == 0.5
    [verdict] = api.explain(found.run, "news/fees-2/oracle_stack", store)["absent_answers"]
    assert (verdict["invents"], verdict["bullet"], verdict["raw_answer"]["key"]) == (1, 1, verdict["key"])
    assert "Question Without Answer:" in verdict["prompt"]
    api.make_report(found.run, store).write(str(tmp_path / "report"), "md")
    text = (tmp_path / "report" / "report.md").read_text(encoding="utf-8")
    assert "| oracle + stack |" in text[text.index("Claims without ground, judged by offline/judge") :]


def test_a_decision_says_who_invents_and_no_retriever_is_blamed_for_such_queries(ran: Ran, tmp_path: Path) -> None:
    compared = api.compare_systems(ran.found.run, store=ran.store)
    [said] = [line for line in compared.decision.limits if line.startswith("invented answers")]
    assert "oracle + stack gives most (50 %)" in said
    assert not any(line.startswith("invented") for line in api.compare_systems(ran.without.run, store=ran.store).decision.limits)
    nothing = {**ABSENT, "query": "Zyx?", "subtopic": "zyx"}
    spec = spec_of(tmp_path, {**sample(), "subtopics": [*sample()["subtopics"], nothing]}, answers_to(sample()))
    spec |= {"retrievers": ["bm25", "none"], "summarizers": spec["summarizers"][:1]}
    assert not any("no document has a word" in line for line in api.run(spec, str(tmp_path / "store")).warnings)


def test_cited_numbers_that_no_document_has_are_reported(ran: Ran, tmp_path: Path) -> None:
    last = len(sample()["documents"])
    [first, second, *_] = answers = answers_to(sample())
    answers |= {first: f"- It rained [{last}, {last + 1}].", second: "- It snowed [0][1]."}
    found = api.run(spec_of(tmp_path, sample(), answers), str(tmp_path / "store"))
    [said] = [line for line in found.warnings if "no document" in line]
    assert said.startswith("2 citations name no document") and f"the haystack has {last} documents" in said
    assert not any("name no document" in line for line in ran.without.warnings)


def test_a_decision_names_a_system_that_copies_the_documents(ran: Ran, tmp_path: Path) -> None:
    copied = [f"- {line} [{n}]" for n, one in enumerate(sample()["documents"], 1) for line in one["document_text"].split(". ")]
    spec = spec_of(tmp_path, sample(), dict.fromkeys(answers_to(sample()), "\n".join(copied)))
    run = api.run(spec, store := str(tmp_path / "store")).run
    [said] = [line for line in api.compare_systems(run, store=store).decision.limits if line.startswith("long answers")]
    found = re.search(r"oracle \+ stack gives (\d+) bullets a query for (\d+) insights", said)
    assert found and int(found[1]) >= len(copied) > 3 * int(found[2])
    assert not any(line.startswith("long") for line in api.compare_systems(ran.found.run, store=ran.store).decision.limits)


def test_another_judge_judges_them_again(ran: Ran) -> None:
    run, store = ran.found.run, ran.store
    name = "panel(offline,per_insight(offline))"
    api.rejudge(run, [name], store, executor="inline")
    assert figures(api.score(run, store, judge=name))["invented"] == 0.5
    assert api.table(run, "absent_answers", store).filter(pl.col("invents") == 1).height == 1


class NoJudge:
    """A user's own judge, which never judges whether an answer invents."""

    async def judge(self, insights: Sequence[Any], bullets: Sequence[str], settings: Any, ask: Any) -> list[Answer[Verdict]]:
        return [Answer(Verdict("NO_COVERAGE", '"NA"')) for _ in insights]


def test_the_claims_of_a_judge_of_ones_own_name_who_decided(tmp_path: Path) -> None:
    haystack = {**sample(), "subtopics": [*sample()["subtopics"], ABSENT]}
    spec = spec_of(tmp_path, haystack, {**answers_to(sample()), "fees": CLAIMS}) | {"judges": [f"{__name__}:NoJudge"]}
    result = api.run(spec, str(tmp_path / "store"))
    api.make_report(result.run, str(tmp_path / "store")).write(str(tmp_path / "report"), "md")
    text = (tmp_path / "report" / "report.md").read_text(encoding="utf-8")
    said = text[text.index("Claims without ground, judged by ") :].partition("|")[0]
    assert "NoJudge" in said and "offline/judge" in said


def test_bullets_that_nothing_supports_stand_beside_joint(ran: Ran) -> None:
    run, store = ran.without.run, ran.store
    before = api.score(run, store)
    assert {one.unsupported_bullets for one in before.systems} == {None}
    api.support(run, store=store, executor="inline")
    n = len(sample()["subtopics"])
    stack = figures(api.score(run, store))
    assert (stack["unsupported_bullets"], stack["n_bullets"]) == (0.5, 2 * n)
    assert figures(api.score(run, store), "offline/support")["unsupported_bullets"] == 0


@pytest.mark.parametrize(
    ("changed", "where"),
    [
        ({"absent": "yes"}, "absent: expected true or false"),
        ({"insights": [{"insight_id": "i", "insight": "Fees rose."}]}, "insights: expected an empty list"),
    ],
)
def test_a_subtopic_that_contradicts_itself_is_refused(changed: dict[str, Any], where: str) -> None:
    haystack = sample()
    haystack["subtopics"].append({**ABSENT, **changed})
    with pytest.raises(InvalidHaystack, match=where):
        read_released(json.dumps(haystack), "news.json")
