"""Citations judged by a model for natural language inference: alone, in a panel and in a cascade."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tiny_models import cross_encoder, entailer

from summhay_ray import api
from summhay_ray.citations import verdict_of
from summhay_ray.encoders import NoModel, load_pair_classifier

pytestmark = pytest.mark.embed

DOCUMENTS = {
    "a.txt": "Ripe apples and red plums sold at the market. The price of green pears fell. Rotten figs were thrown away.",
    "b.txt": "Green pears were bought in the market. Nobody bought figs.",
}
BULLETS = [
    "The price of pears fell at the market [1][2].",
    "Rotten figs were thrown away [1].",
    "Der Preis grüner Birnen ist gefallen, und die faulen Feigen wurden alle weggeworfen [1].",
    f"{'Apples and plums sold. ' * 500}[1]",
    "[2]",
]
PAIRS = {(1, "a.txt"), (1, "b.txt"), (2, "a.txt"), (3, "a.txt"), (4, "a.txt")}


def judged(folder: Path, judge: str) -> tuple[Any, dict[tuple[int, str], dict[str, Any]]]:
    result = api.support(folder / "a.jsonl", judge, str(folder / "s"), documents=folder / "docs", executor="inline")
    rows = api.table(result.run, "supports", str(folder / "s")).filter("cited").iter_rows(named=True)
    return result, {(row["bullet"], row["document_id"]): row for row in rows}


def test_a_citation_is_supported_as_far_as_a_passage_entails_the_bullet(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    for name, text in DOCUMENTS.items():
        (tmp_path / "docs" / name).write_text(text, encoding="utf-8")
    (tmp_path / "a.jsonl").write_text(json.dumps({"query_id": "q", "system": "one", "bullets": BULLETS}), encoding="utf-8")
    model = entailer(tmp_path / "entailer")
    nli = f"nli/{model}"

    result, alone = judged(tmp_path, nli)
    assert result.calls["made"] == 0
    failed = {(row["error"], row["message"].partition(":")[0]) for row in api.failures(result.run, str(tmp_path / "s"))}
    assert failed == {("no_words", "bullet 5, b.txt")}, "no length and no language of a bullet is a failure of such a model"
    assert {pair for pair, row in alone.items() if row["value"] is not None} == PAIRS and len({*map(str, alone.values())}) > 1
    classifier = load_pair_classifier(str(model), 2048)
    for bullet, document in sorted(PAIRS - {(4, "a.txt")}):
        sentences = [f"{text}." for text in DOCUMENTS[document].removesuffix(".").split(". ")]
        windows = [" ".join(sentences[place : place + 2]) for place in range(len(sentences))]
        plain = BULLETS[bullet - 1].replace(" [1]", "").replace("[2]", "")
        said = classifier.probabilities([(window, plain) for window in windows]).values[:, classifier.labels.index("entailment")]
        row = alone[bullet, document]
        assert row["value"] == pytest.approx(said.max(), abs=1e-3) and row["evidence"] == windows[said.argmax()]
        assert (row["verdict"], row["judge"]) == (verdict_of(row["value"]), nli)

    _, free = judged(tmp_path, "offline")
    held, panel = judged(tmp_path, f"panel({nli},offline)")
    votes = api.table(held.run, "support_votes", str(tmp_path / "s"))
    [figures] = held.to_json()["scores"]["panels"]
    assert (figures["members"], figures["n"]) == (2, len(PAIRS) - 1), "what both judged"
    for pair in PAIRS - {(3, "a.txt")}:
        own = votes.filter((pl.col("bullet") == pair[0]) & (pl.col("document_id") == pair[1]))
        assert dict(own.select("member", "verdict").iter_rows()) == {
            nli: alone[pair]["verdict"],
            "offline/support-judge": free[pair]["verdict"],
        }
        assert set(own["tied"]) == {alone[pair]["verdict"] != free[pair]["verdict"]}
        assert panel[pair]["verdict"] in set(own["verdict"])
        assert panel[pair]["value"] == pytest.approx((alone[pair]["value"] + free[pair]["value"]) / 2, abs=1e-4)
    assert panel[3, "a.txt"]["value"] is None, "a member without an opinion leaves the panel without one"

    cascade = f"cascade(offline,{nli},0.2)"
    _, both = judged(tmp_path, cascade)
    assert both[3, "a.txt"]["value"] == alone[3, "a.txt"]["value"], "what the free judge cannot judge is asked about"
    assert {row["judge"] for row in both.values()} >= {nli, "offline/support-judge"}
    assert api.plan(
        {"kind": "support", "answers": str(tmp_path / "a.jsonl"), "documents": str(tmp_path / "docs"), "judge": cascade}
    )

    other = cross_encoder(tmp_path / "other")
    for name, message in ((tmp_path / "none", "no such folder"), (other, "its classes are label_0; expected entailment")):
        with pytest.raises(NoModel, match=message):
            judged(tmp_path, f"nli/{name}")


@pytest.mark.parametrize("labels", [("LABEL_0", "LABEL_1"), ("supported", "not supported"), ("not_entailment", "entailment")])
def test_a_model_with_two_classes_gives_the_probability_of_support(tmp_path: Path, labels: tuple[str, str]) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"passages": [DOCUMENTS["b.txt"]], "bullets": ["Figs were bought [1]."]}))
    model = entailer(tmp_path / "two", labels)
    result = api.support(tmp_path / "a.jsonl", f"nli/{model}", str(tmp_path / "s"), executor="inline")
    (row,) = api.table(result.run, "supports", str(tmp_path / "s")).filter("cited").iter_rows(named=True)
    column = {"LABEL_0": 1, "supported": 0, "not_entailment": 1}[labels[0]]
    said = load_pair_classifier(str(model), 2048).probabilities([(row["evidence"], "Figs were bought.")]).values[0, column]
    assert row["value"] == pytest.approx(float(said), abs=1e-3)
