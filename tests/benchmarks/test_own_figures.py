"""Figures of a user's own benchmark: rows of one item are one piece of evidence, and failures count as missing in every table."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import summhay_ray
from summhay_ray.benchmark import Unreadable, read_json
from summhay_ray.llm import RawAnswer
from summhay_ray.report import markdown

pytestmark = pytest.mark.core

CODE = '''
"""A benchmark."""
import asyncio
from dataclasses import dataclass
import polars as pl
from summhay_ray.benchmark import *

class AspectsSpec(Spec):
    models: list[Model] = [ModelSpec(model=f"offline/{name}") for name in ("sure", "odd", "mute")]

@dataclass(frozen=True)
class Row:
    question: str
    system: str
    aspect: int
    right: bool

class Sure:
    """Is always right."""
    name, revision = "offline/sure", "1"
    def answer(self, request):
        return '{"right": true}'

class Odd(Sure):
    name = "offline/odd"
    def answer(self, request):
        if "q3, aspect 1" in request.prompt:
            return "I cannot say."
        right = "q1" not in request.prompt and "q2, aspect 0" not in request.prompt
        return f'Well:\\n```json\\n{{"right": {str(right).lower()}}}\\n```'

class Mute(Sure):
    name = "offline/mute"
    def answer(self, request):
        return "..."

class Aspects(Benchmark[AspectsSpec]):
    stages = (Stage("ask", example='{"right": true}'),)
    tables = (Table("answers", Row, key=("question", "system", "aspect")),)
    own_models = (Sure, Odd, Mute)

    def items(self):
        for model in self.spec.models:
            for n in range(6):
                yield Item(f"{model.label}/q{n}", model=model, data={"question": f"q{n}", "aspects": [0, 1, 2]})

    async def answer(self, item, ask):
        asked = [ask("ask", f"{item.data['question']}, aspect {aspect}") for aspect in item.data["aspects"]]
        replies = await asyncio.gather(*asked)  # the answers of one item
        return {"answers": [
            Row(item.data["question"], item.model, aspect, read_json(reply, "right")["right"])
            for aspect, reply in zip(item.data["aspects"], replies)
        ]}

    def score(self, tables):
        answers = tables["answers"]
        return {
            "by_system": mean_interval(answers, "right", by="system"),
            "by_aspect": mean_interval(answers, "right", by=("system", "aspect")),
            "clustered": mean_interval(answers, "right", by="system", cluster="question"),
            "of_items": mean_interval(answers, "right", by="system", expected=tables["items"].rename({"model": "system"})),
            "own": answers.group_by("system").agg(pl.col("right").mean(), n=pl.len()).sort("system"),
            "items": tables["items"],
        }

    def report(self, scores):
        return [Section(name, table=scores[name], units={"right": "%"}) for name in ("by_system", "own")]
'''
KEPT = """
        rows = []
        for aspect, reply in zip(item.data["aspects"], await asyncio.gather(*asked, return_exceptions=True)):
            try:
                if isinstance(reply, BaseException):
                    raise reply
                rows.append(Row(item.data["question"], item.model, aspect, read_json(reply, "right")["right"]))
            except NoReply as none:
                ask.record(none)
        return {"answers": rows}
"""


@pytest.fixture
def aspects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Runs the benchmark with this code, in a separate store."""
    monkeypatch.syspath_prepend(tmp_path)
    names = []

    def run(code: str = CODE) -> summhay_ray.RunResult:
        names.append(f"aspects_{abs(hash((code, tmp_path)))}")
        (tmp_path / f"{names[-1]}.py").write_text(code)
        return summhay_ray.run({"kind": f"{names[-1]}:Aspects"}, store=str(tmp_path / "store"), executor="inline")

    yield run
    for name in names:
        sys.modules.pop(name, None)


def rows_by(frame: pl.DataFrame, *by: str) -> dict[Any, dict[str, Any]]:
    return {tuple(row[name] for name in by) if len(by) > 1 else row[by[0]]: row for row in frame.to_dicts()}


def test_rows_of_an_item_are_clustered_and_what_failed_is_missed(aspects: Any) -> None:
    result = aspects()
    assert dict(result.cells) == {"total": 18, "done": 11, "failed": 7}
    found = rows_by(result.scores["by_system"], "system")
    sure, odd = found["offline/sure"], found["offline/odd"]
    # Six items, each right: Clopper and Pearson's interval of 6 of 6, not of 18 of 18.
    assert (sure["n"], sure["n_expected"], sure["right_floor"]) == (18, 18, 1.0)
    assert (sure["right_low"], sure["right_high"]) == (pytest.approx(0.025 ** (1 / 6)), 1.0)
    # The five answered items have 3 + 0 + 2 + 3 + 3 of 15. The sixth item lacks three rows.
    assert (odd["right"], odd["n"], odd["n_expected"]) == (pytest.approx(11 / 15), 15, 18)
    assert odd["right_floor"] == pytest.approx(11 / 18)
    # Five items are too few for an interval, with any number of rows.
    clustered = rows_by(result.scores["clustered"], "system")["offline/odd"]
    assert odd["right_reason"] == clustered["right_reason"] == "too few independent values: 5, an interval needs 6"
    assert (odd["right_low"], odd["right_high"]) == (None, None)
    # A model that answered nothing is listed, too, if the items name it.
    mute = found["offline/mute"]
    assert (mute["right"], mute["n"], mute["n_expected"]) == (None, 0, 18) and mute["right_floor"] == 0.0
    # Expected items count as many rows as an answered item has.
    assert result.scores["of_items"].equals(result.scores["by_system"])
    # In groups with one row per item, nothing is clustered, and one row is missing.
    aspect = rows_by(result.scores["by_aspect"], "system", "aspect")["offline/odd", 1]
    assert (aspect["n"], aspect["n_expected"], aspect["right_floor"]) == (5, 6, pytest.approx(4 / 6))
    sure = rows_by(result.scores["by_aspect"], "system", "aspect")["offline/sure", 1]
    assert sure["right_low"] == pytest.approx(6 / (6 + 1.959964**2)), "Wilson's of 6 of 6"


def test_a_table_that_the_benchmark_counts_itself_has_the_star_too(aspects: Any) -> None:
    result = aspects()
    own = rows_by(result.scores["own"], "system")
    assert (own["offline/sure"]["n_expected"], own["offline/odd"]["n_expected"]) == (18, 18)
    assert own["offline/odd"]["n"] == 15
    text = markdown(result.sections)
    assert "| offline/odd | 73.3\\* [too few]" in text and ", floor 61.1 | 15/18 |" in text
    assert "| offline/sure | 100.0 [54.1, 100.0] | 18/18 |" in text and "| offline/odd | 73.3\\* | 15/18 |" in text
    assert "floor: with every missing answer as 0" in text


def test_rows_are_kept_where_one_answer_of_several_fails(aspects: Any) -> None:
    start, end = CODE.index("        replies = await"), CODE.index("    def score")
    result = aspects(CODE[:start] + KEPT + "\n" + CODE[end:])
    odd = rows_by(result.scores["by_system"], "system")["offline/odd"]
    assert (odd["n"], odd["n_expected"], odd["right_floor"]) == (17, 18, pytest.approx(13 / 18))
    assert dict(result.cells) == {"total": 18, "done": 11, "failed": 7}
    failed = summhay_ray.failures(result.run, result.store)
    assert [row["stage"] for row in failed if row["item_id"] == "offline/odd/q3"] == ["ask"]


def test_what_is_not_code_does_not_make_another_run(aspects: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each version is planned under the same name, like a file that a user edits."""
    from summhay_ray import plugins

    def run_id(code: str) -> str:
        (tmp_path / "edited.py").write_text(code)
        sys.modules.pop("edited", None)
        plugins.code_identity.cache_clear()
        sys.path_importer_cache.clear()
        return summhay_ray.plan({"kind": "edited:Aspects"}, store=str(tmp_path / "store")).run

    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    first = run_id(CODE)
    assert run_id(CODE.replace('"""A benchmark."""', '"""Another\n\nline."""\n# and a comment\n')) == first
    assert run_id(CODE.replace('    """Is always right."""\n', "").replace("  # the answers of one item", "")) == first
    assert run_id(CODE.replace("Well:", "So:")) != first
    assert run_id(CODE.replace(", aspect {aspect}", ",  aspect {aspect}")) != first
    # A docstring that the code reads is code.
    assert run_id(CODE + "\nTEXT = Sure.__doc__\n") != run_id(CODE.replace("always", "mostly") + "\nTEXT = Sure.__doc__\n")
    sys.modules.pop("edited", None)


# --- answers that are JSON ------------------------------------------------------------------------------------------------


def answer(text: str) -> RawAnswer:
    return RawAnswer(**{**dict.fromkeys(RawAnswer.__dataclass_fields__, 0), "key": "k", "model": "m", "text": text})


def test_json_of_an_answer_is_read_or_the_answer_is_unusable() -> None:
    for value in ({"right": True, "why": {"a": 1}}, {"right": None}):
        assert read_json(answer(f"So:\n```json\n{json.dumps([value], indent=1)}\n```\n{{sic}}"), *value) == value
        assert read_json(answer(f"<think>[7]</think>{[value]}"), kind=list) == [value]
    for text in ("", '{"wrong": true}', '["right"]', '{"right": true} or {"right": false}', '{"right": true, "and'):
        with pytest.raises(Unreadable, match="expected one JSON object with right"):
            read_json(answer(text), "right")
