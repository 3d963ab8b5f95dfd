"""Citations without gold, judged by the free judge, by a model over HTTP and by a cascade; and repaired citations."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest
from inline_runs import answered
from local_http import chatting
from typer.testing import CliRunner

from summhay_ray import api
from summhay_ray.citations import CitedDocuments
from summhay_ray.cli.app import app
from summhay_ray.engine import SpecError

pytestmark = pytest.mark.core

DOCUMENTS = {
    "a.txt": "The harbour was closed in March after the storm broke two piers. The council pays 4.2 million crowns for repairs.",
    "b.md": "# Bridge\nThe old bridge carries trams again since 12 May. Its railings were painted green by pupils of the school.",
    "c.txt": "After the storm in March two piers of the harbour were broken, and the council closed it. Boats moved north.",
}
ALPHA = """The answer has these points:
- The harbour was closed in March after a storm broke two piers [1][3].
- The council pays 4.2 million crowns for the repairs of the harbour [2].
- Trams use the old bridge again since 12 May [b.md].
- Pupils painted the railings green [1-3].
- The mayor resigned [7].
- A monument was unveiled [doc-99]
- Nobody says this."""
GERMAN = "Der Hafen wurde im März geschlossen, weil ein Sturm zwei Stege zerstört hatte, und der Rat bezahlt alles [1]."
LONG = f"{'The storm broke two piers of the harbour. ' * 250}[1]"


def files(folder: Path) -> tuple[Path, Path]:
    documents = folder / "documents"
    documents.mkdir()
    for name, text in DOCUMENTS.items():
        (documents / name).write_text(text, encoding="utf-8")
    lines = [
        {"query_id": "q1", "system": "alpha", "text": ALPHA},
        {"query_id": "q1", "system": "beta", "bullets": [GERMAN, "The old bridge carries trams again [2]", "港口在三月关闭 [1]"]},
        {"query_id": "q2", "system": "alpha", "bullets": [LONG, "", "[1]"], "shown": ["b.md"]},
        {"query_id": None, "system": "alpha", "bullets": ["Lines\u2028break [1]."]},
        {"query_id": "q3", "system": "alpha", "text": ""},
    ]
    answers = folder / "answers.jsonl"
    answers.write_text("\n".join(json.dumps(line, ensure_ascii=False) for line in lines), encoding="utf-8")
    return answers, documents


def test_values_are_the_same_in_every_process() -> None:
    """Sets have another order in each process, and the bullet states several facts in other forms than the document."""
    said = "In the year it hired 1200, then 45 percent, May 3rd, 2021, 2500000 USD and 120 minutes of rain at the plant."
    bullet = "On 3 May 2021 the plant hired 1,200 people, 45 % of them women, and paid $2.5 million for two hours of rain."
    program = (
        "import sys; from summhay_ray.citations import CitedDocuments; "
        "print(CitedDocuments([('a', sys.argv[1])]).index.support([sys.argv[2]]).values[0, 0])"
    )
    values = {
        subprocess.run(
            [sys.executable, "-c", program, said, bullet],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in "1245"
    }
    assert len(values) == 1, values


def test_answers_of_a_file_are_judged_and_every_flaw_is_reported(tmp_path: Path) -> None:
    answers, documents = files(tmp_path)
    store = str(tmp_path / "store")
    result = api.support(answers, store=store, documents=documents, executor="inline")
    assert (result.status, result.calls["made"]) == ("partial", 0)
    rows = api.table(result.run, "supports", store)
    judged = {(row["query_id"], row["system"], row["bullet"], row["document_id"]): row for row in rows.iter_rows(named=True)}

    def verdict(bullet: int, document: str, query: str = "q1", system: str = "alpha") -> str:
        return str(judged[query, system, bullet, document]["verdict"])

    assert [verdict(2, "a.txt"), verdict(2, "c.txt"), verdict(4, "b.md")] == ["supported"] * 3
    assert verdict(3, "b.md") != "supported" and judged["q1", "alpha", 3, "b.md"]["cited"]
    assert (verdict(3, "a.txt"), judged["q1", "alpha", 3, "a.txt"]["cited"]) == ("supported", False), "says it, and is not cited"
    assert [verdict(5, name) for name in DOCUMENTS] == ["not", "supported", "not"], "a range cites every document in it"
    assert judged["q1", "alpha", 4, "b.md"]["evidence"].startswith("The old bridge carries trams")
    assert verdict(1, "a.txt", "q2") == "supported", "a bullet of 2,000 words"
    assert judged["q1", "beta", 1, "a.txt"]["value"] is None and judged["q1", "beta", 3, "a.txt"]["value"] is None
    failed = {(row["system"], row["query_id"], row["error"]) for row in api.failures(result.run, store)}
    assert failed == {("beta", "q1", "other_language"), ("alpha", "q2", "no_words")}

    bullets = api.table(result.run, "support_bullets", store).sort("query_id", "system", "bullet")
    first = bullets.filter((pl.col("query_id") == "q1") & (pl.col("system") == "alpha"))
    assert first["heading"].to_list() == [True, *[False] * 7]
    assert first["out_of_range"].to_list()[5] == [7] and first["unreadable"].to_list()[6] == ["doc-99"]
    assert (first["ranges"].sum(), first["by_id"].sum()) == (1, 1)
    assert bullets["not_shown"].to_list()[-3] == ["a.txt"] and bullets["words"].max() > 2_000 - 1

    main = result.sections[0]
    assert main.table is not None
    shown = {row["system"]: row for row in main.table.iter_rows(named=True)}
    assert (shown["beta"]["n"], shown["beta"]["n_expected"], shown["beta"]["supported"]) == (1, 3, 1.0)
    assert shown["beta"]["supported_floor"] == pytest.approx(1 / 3), "what was not judged leaves no denominator"
    assert {"1 citations of numbers that no document has", "1 answers without a bullet"} <= set(main.notes)

    explained = api.explain(result.run, "q1/alpha/3", store)
    assert {row["document_id"] for row in explained["rows"]["supports"]} >= {"a.txt", "b.md"}
    again = api.support(answers, store=store, documents=documents, executor="inline")
    assert (again.run, again.calls["made"]) == (result.run, 0)


class Provider(NamedTuple):
    base: str
    asked: list[str]


@pytest.fixture
def provider() -> Iterator[Provider]:
    """It answers that a document supports a bullet if both have the word `storm` or `bridge`; one answer cannot be read."""
    asked: list[str] = []

    def text(messages: list[str]) -> str:
        asked.append(messages[-1])
        if "Pupils painted" in asked[-1] and "harbour was closed" in asked[-1]:
            return "I think so."
        said = {"verdict": "supported", "evidence": "The old bridge carries trams again since 12 May."}
        return json.dumps({"1": said, "2": said, "3": said} if "Document 1:" in asked[-1] else said)

    with chatting(text, input_tokens=100, output_tokens=20) as base:
        yield Provider(base, asked)


def spec(folder: Path, server: Provider, judge: str, **fields: Any) -> dict[str, Any]:
    reach = {"api_base": server.base, "api_key_env": "SUPPORT_KEY", "transport": "direct"}
    model = {**reach, "model": "openai/checker", "price": {"input_per_mtok": 1, "output_per_mtok": 1}}
    named = {"answers": str(folder / "answers.jsonl"), "documents": str(folder / "documents")}
    return {"kind": "support", **named, "judge": judge, "models": [model], "executor": "inline", **fields}


def test_a_model_is_asked_about_each_citation_or_each_bullet_and_a_cascade_about_the_least_certain(
    tmp_path: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUPPORT_KEY", "sk-support")
    files(tmp_path)
    store = str(tmp_path / "store")
    each = spec(tmp_path, provider, "openai/checker")
    planned = api.plan(each, store)
    result = api.run(each, store)
    asked = provider.asked
    n = api.table(result.run, "supports", store)["cited"].sum()
    assert (n, len(asked)) == (13, result.calls["made"])
    assert planned.stages[0].calls == result.calls["made"] + result.calls["reused"]
    rows = api.table(result.run, "supports", store).filter("cited")
    lost = rows.filter(pl.col("value").is_null())
    assert set(lost.select("bullet", "document_id").iter_rows()) == {(5, "a.txt")}, "an answer that cannot be read is no zero"
    assert rows.filter(pl.col("value") == 1.0).height == n - 1
    quoted = {row["document_id"]: row["evidence"] for row in rows.iter_rows(named=True) if row["bullet"] == 4}
    assert quoted == {"b.md": "The old bridge carries trams again since 12 May."}
    assert {row["error"] for row in api.failures(result.run, store)} == {"unreadable"}

    by_bullet = api.run(spec(tmp_path, provider, "openai/checker", per="bullet"), store)
    assert by_bullet.calls["made"] < n

    before = len(asked)
    cascade = api.run(spec(tmp_path, provider, "cascade(offline,openai/checker,0.2)"), store)
    assert len(asked) == before and cascade.calls["reused"] <= 6, "what is asked was answered already"
    judges = api.table(cascade.run, "supports", store).filter("cited")["judge"].to_list()
    assert {"offline/support-judge", "openai/checker"} <= set(judges)

    panel = api.run(spec(tmp_path, provider, "panel(openai/checker,offline)"), store)
    free = api.run({**spec(tmp_path, provider, "offline/support-judge"), "models": []}, store)
    assert len(asked) == before, "a member's answers are those of the same judge alone"
    values = [
        dict(
            api.table(one.run, "supports", store)
            .filter("cited")
            .select(pl.concat_str("bullet", "document_id"), "value")
            .iter_rows()
        )
        for one in (result, free, panel)
    ]
    for pair, value in values[2].items():
        ours, theirs = values[0][pair], values[1][pair]
        assert value == (None if None in (ours, theirs) else pytest.approx((ours + theirs) / 2, abs=1e-4))


def test_a_runs_summaries_are_judged_and_their_citations_repaired(tmp_path: Path) -> None:
    _, run = answered(tmp_path / "store", summarizers=["offline/support", {"model": "offline/support", "recite": "offline"}])
    store = run.store.uri
    judged = api.support(run.run_id, store=store, executor="inline")
    assert judged.status == "done"
    rows = api.table(judged.run, "supports", store)
    summaries = api.table(run.run_id, "summaries", store)
    assert set(rows["system"]) == set(summaries["system"])
    assert {name.endswith("+recite") for name in set(rows["system"])} == {True, False}

    for mode in ("both", "drop", "add"):
        repaired = api.recite(run.run_id, store, mode=mode)
        after = api.table(repaired.run, "supports", store)
        assert set(after["recited"]) <= {True, False}
        assert after.filter(~pl.col("cited") & ~pl.col("recited")).is_empty()
        dropped, added = (
            after.filter(one).height for one in (pl.col("cited") & ~pl.col("recited"), ~pl.col("cited") & pl.col("recited"))
        )
        assert (repaired.dropped, repaired.added) == (dropped, added)
        assert mode == "both" or (added if mode == "drop" else dropped) == 0
        assert mode != "both" or api.recite(run.run_id, store, mode=mode).run == repaired.run
    coverage = ["system", "haystack_id", "subtopic_id", "insight_id", "coverage"]
    both = api.recite(run.run_id, store)
    own, carried = (
        api.table(name, "judgments", store).select(*coverage[:4], "judge", "coverage") for name in (run.run_id, both.run)
    )
    assert own.sort(own.columns).equals(carried.sort(own.columns))
    figures = {system.system: system for system in api.score(both.run, store).systems}
    before = {system.system: system for system in api.score(run.run_id, store).systems}
    assert figures.keys() == before.keys()
    assert all(figures[name].coverage == before[name].coverage for name in figures)
    report = api.results(both.run, store).sections
    assert both.section().title and "post-processing that any system could have" in both.section().text and report is not None


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"judge": "per_summary(openai/gpt-4o)"}, "judges coverage"),
        ({"judge": "offlin"}, "did you mean 'offline'"),
        ({"models": ["openai/gpt-4o"]}, "is not asked by judge"),
        ({"of": "r1"}, "give `of`, a run, or `answers`"),
        ({"answers": "none.jsonl"}, "none.jsonl"),
    ],
)
def test_errors_in_a_spec_are_reported(tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    answers, documents = files(tmp_path)
    with pytest.raises(SpecError, match=message):
        api.load(
            {"kind": "support", "answers": str(answers), "documents": str(documents), **fields}, store=str(tmp_path / "store")
        )


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('{"query_id": "q", "text": "One [1]."}\n{"query_id": "q"}\n', r"answers.jsonl line 2: has no `text`"),
        ('{"query_id": "q", "te\n[1]\n{"text": 1}\n', r"line 1: is no JSON .* \(and 2 lines after it are wrong, too\)"),
        ('{"query_id": ["q"], "text": "One [1]."}\n', "line 1: query_id: expected a text or a number"),
    ],
)
def test_broken_lines_of_answers_are_named(tmp_path: Path, lines: str, message: str) -> None:
    answers, documents = files(tmp_path)
    answers.write_text(lines, encoding="utf-8")
    with pytest.raises(SpecError, match=message):
        api.support(answers, store=str(tmp_path / "store"), documents=documents)


def test_an_answer_may_bring_the_passages_that_it_cites(tmp_path: Path) -> None:
    """Without a folder, a line cites its own passages by number or id; a line without passages is refused."""
    passages = [{"id": "p7", "title": "Ferry", "text": "The ferry to the island runs every hour."}, "Bakers open before dawn."]
    line = {
        "query_id": "q",
        "passages": passages,
        "bullets": ["The ferry to the island runs every hour [p7].", "Bakers open [2]."],
    }
    (tmp_path / "a.jsonl").write_text(f"\ufeff{json.dumps(line)}\n", encoding="utf-8")
    result = api.support(tmp_path / "a.jsonl", store=str(tmp_path / "store"), executor="inline")
    rows = api.table(result.run, "supports", str(tmp_path / "store")).filter("cited").sort("bullet")
    assert rows["document_id"].to_list() == ["p7", "2"] and rows["verdict"].to_list()[0] == "supported"
    (tmp_path / "b.jsonl").write_text('{"query_id": "q", "text": "One [1]."}\n', encoding="utf-8")
    with pytest.raises(SpecError, match="line 1: has no `passages`"):
        api.support(tmp_path / "b.jsonl", store=str(tmp_path / "store"))


def test_terse_english_is_not_another_language(tmp_path: Path) -> None:
    documents = [
        "The committee voted. undici 5.0 was released, and it is semver-major.",
        "Two foxes were seen behind the school.",
    ]
    bullets = [
        "Matteo Antoine: fastify 4.0 shipped, Deno v2 stable, Snell Michaël absent. [1]",
        "Der Preis der Birnen ist gefallen, und die Feigen wurden weggeworfen. [2]",
        "Příliš žluťoučký kůň úpěl ďábelské ódy venku. [2]",
    ]
    (tmp_path / "a.jsonl").write_text(json.dumps({"passages": documents, "bullets": bullets}), encoding="utf-8")
    result = api.support(tmp_path / "a.jsonl", store=str(tmp_path / "store"), executor="inline")
    rows = api.table(result.run, "support_bullets", str(tmp_path / "store")).sort("bullet")
    assert rows["other_language"].to_list() == [False, True, True]


def test_support_judges_are_measured_against_labels(tmp_path: Path) -> None:
    """Two claims of three have their right verdict in one source; the other source has claims of one class only."""
    said, unsaid = "The ferry to the island runs every hour.", "Quarterly tax receipts doubled in Lisbon."
    claims = [(said, True, "a"), (unsaid, False, "a"), (said, False, "a"), (said, True, "b")]
    lines = [{"claim": claim, "references": [said], "label": label, "source": source} for claim, label, source in claims]
    (tmp_path / "l.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    options = ["judge-bench", str(tmp_path / "l.jsonl"), "--store", str(tmp_path / "store")]
    told = json.loads(CliRunner().invoke(app, [*options, "--json"]).stdout)["judges"]
    assert [(row["source"], row["n"], row["auc"], row["balanced_accuracy"]) for row in told] == [
        ("a", 3, (1 + 1 / 2) / 2, (1 + 1 / 2) / 2),
        ("b", 1, None, None),
        ("", 4, (1 + 1 / 2) / 2, (1 + 1 / 2) / 2),
    ]
    shown = CliRunner().invoke(app, options)
    assert shown.exit_code == 0 and "balanced accuracy" in shown.stdout
    (tmp_path / "l.jsonl").write_text(json.dumps({**lines[0], "label": "perhaps"}), encoding="utf-8")
    refused = CliRunner().invoke(app, options)
    assert isinstance(refused.exception, SpecError) and "l.jsonl:1: label: is 'perhaps'" in str(refused.exception)


def test_answers_as_trec_rag_has_them_are_judged_and_written_again(tmp_path: Path) -> None:
    _, documents = files(tmp_path)
    storm = "The harbour was closed in March after a storm broke two piers."
    lines = [
        {
            "metadata": {"team_id": "team", "run_id": "one", "topic_id": "7"},
            "responses": [
                {"text": storm, "citations": {"a.txt": 0.7, "c": 0.2}},
                {"text": "Trams use the old bridge again since 12 May.", "citations": ["b.md", "nowhere"]},
                {"text": "Nobody says this [1].", "citations": []},
            ],
            "references": ["a.txt", "c", "b.md", "nowhere"],
        },
        {
            "metadata": {"run_id": "two", "narrative_id": 7},
            "references": ["c.txt", "a.txt"],
            "answer": [{"text": storm, "citations": [0, 1, 9]}],
        },
    ]
    answers = tmp_path / "trec.jsonl"
    answers.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    store = str(tmp_path / "store")
    run = api.support(answers, store=store, documents=documents, executor="inline").run
    rows = api.table(run, "supports", store).filter("cited")
    cited = sorted(rows.select("query_id", "system", "bullet", "document_id").rows())
    first = [("7", "one", 1, "a.txt"), ("7", "one", 1, "c.txt"), ("7", "one", 2, "b.md")]
    assert cited == [*first, ("7", "two", 1, "a.txt"), ("7", "two", 1, "c.txt")]
    bullets = api.table(run, "support_bullets", store).sort("system", "bullet")
    assert bullets["unreadable"].to_list() == [[], ["nowhere"], [], ["9"]]
    assert bullets["cited"].to_list() == [2, 1, 0, 2] and set(rows["verdict"]) == {"supported"}
    written = api.export(run, tmp_path / "out", store, kind="trec-rag")
    assert [path.name for path in written] == ["one.jsonl", "two.jsonl"]
    line = json.loads(written[0].read_text(encoding="utf-8"))
    assert line["responses"][1] == {"text": lines[0]["responses"][1]["text"], "citations": ["b.md", "nowhere"]}  # type: ignore[index]
    assert line["metadata"]["topic_id"] == "7" and line["references"] == ["a.txt", "c.txt", "b.md", "nowhere"]


def test_citations_are_weighted_as_trec_rag_weights_them(tmp_path: Path) -> None:
    """Two answers, with sentences that are supported (cited twice, once wrongly), partly supported, and not cited."""
    storm, partly = (
        "The harbour was closed in March after a storm broke two piers",
        "The council of the town pays for a new school and for two ferries",
    )
    _, documents = files(tmp_path)
    lines = [
        {"query_id": "1", "system": "s", "bullets": [f"{storm} [1][2].", "Nobody says this."]},
        {"query_id": "2", "system": "s", "bullets": [f"{storm} [3].", f"{partly} [2].", "Monkeys won the derby in Uppsala [2]."]},
        {"query_id": "1", "system": "silent", "bullets": ["Nobody says this."]},
    ]
    answers = tmp_path / "weighted.jsonl"
    answers.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    store = str(tmp_path / "store")
    found = api.support(answers, store=store, documents=documents, executor="inline")
    verdicts = (
        api.table(found.run, "supports", store).filter("cited").sort("query_id", "bullet", "document_id")["verdict"].to_list()
    )
    assert verdicts == ["supported", "not", "supported", "partly", "not"]
    (section,) = [one for one in found.sections if one.name == "weighted"]
    assert section.table is not None
    first, silent = section.table.sort("system").rows(named=True)
    assert first["weighted_precision"] == pytest.approx(((1 + 0) / 2 + (1 + 0.5 + 0) / 3) / 2)
    assert first["weighted_recall"] == pytest.approx(((1 + 0) / 2 + (1 + 0.5 + 0) / 3) / 2)
    assert (silent["weighted_precision"], silent["weighted_recall"], silent["n"]) == (None, 0.0, 1)


OUTAGE = "The Frankfurt payment outage on 22 July 2021 lasted two hours and hit 58% of customers."
OTHERS = [
    f"The {what} was painted by volunteers in spring." for what in ("quay", "mill", "library", "hall", "weir", "tower", "fair")
]


@pytest.mark.parametrize("n_others", [1, 12])
def test_a_document_that_says_otherwise_supports_nothing_and_is_not_cited(tmp_path: Path, n_others: int) -> None:
    """With few documents and with many, a false number, date, name or denial is not supported, and the same fact in other words
    is."""
    (tmp_path / "documents").mkdir()
    for number, text in enumerate([OUTAGE, *(OTHERS * 2)[:n_others]]):
        (tmp_path / "documents" / f"{number:02}.txt").write_text(f"{text} {number} people came.\n", encoding="utf-8")
    bullets = [
        "On July 22nd, 2021 the Frankfurt payment outage lasted 2 hours and hit 58 percent of customers [00.txt].",
        "In July 2021 the Frankfurt payment outage hit customers for 120 minutes [00.txt].",
        "The Frankfurt payment outage on 22 July 2021 lasted nine hours and hit 58% of customers [00.txt].",
        "The Frankfurt payment outage on 5 March 2024 lasted two hours and hit 58% of customers [00.txt].",
        "The Tokyo payment outage on 22 July 2021 lasted two hours and hit 58% of customers [00.txt].",
        "The Frankfurt payment outage on 22 July 2021 did not happen and hit no customers [00.txt].",
    ]
    (tmp_path / "a.jsonl").write_text(json.dumps({"query_id": "q", "bullets": bullets}), encoding="utf-8")
    store = str(tmp_path / "store")
    result = api.support(tmp_path / "a.jsonl", documents=str(tmp_path / "documents"), store=store, executor="inline")
    rows = api.table(result.run, "supports", store).filter("cited").sort("bullet")
    assert [value >= 0.5 for value in rows["value"]] == [True, True, False, False, False, False]
    corpus = CitedDocuments([(path.name, path.read_text("utf-8")) for path in sorted((tmp_path / "documents").iterdir())])
    uncited = [bullet.replace(" [00.txt]", "") for bullet in bullets]
    assert ["[1]" in bullet for bullet in corpus.recite(uncited)] == [True, True, False, False, False, False]
