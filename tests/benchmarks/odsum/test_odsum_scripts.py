"""Texts in scripts other than Latin: equal texts have ROUGE 1, the right document comes first, and missing words are reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from runs import summhay, write_spec

from summhay_ray.extract import extract
from summhay_ray.metrics import rouge
from summhay_ray.text import count_tokens

pytestmark = pytest.mark.core

TEXTS = {
    "hindi": (
        "पुल मई में फिर से खुलेगा। पुस्तकालय को नई खिड़कियाँ मिलेंगी। शहर इसका खर्च उठाएगा॥",
        "नौका का इंजन पुराना है। सर्दियों से पहले नया इंजन चाहिए। बर्फ़ के कारण नौका देर से आई।",
        "नौका देर से क्यों आई?",
    ),
    "thai": (
        "สะพานจะเปิดอีกครั้งในเดือนพฤษภาคม ห้องสมุดจะได้หน้าต่างใหม่ เมืองเป็นผู้จ่ายเงิน",
        "เครื่องยนต์ของเรือข้ามฟากเก่าแล้ว ต้องใช้เครื่องยนต์ใหม่ก่อนฤดูหนาว น้ำแข็งทำให้เรือข้ามฟากมาสาย",
        "ทำไมเรือข้ามฟากมาสาย",
    ),
    "arabic": (
        "سيفتح الجسر مرة أخرى في مايو۔ هل ستحصل المكتبة على نوافذ جديدة؟ المدينة تدفع الثمن.",
        "محرك العبارة قديم۔ هل نحتاج إلى محرك جديد قبل الشتاء؟ الجليد أخر العبارة.",
        "لماذا تأخرت العبارة؟",
    ),
    "chinese": (
        "大桥将于五月重新开放。图书馆会有新的窗户。费用由城市承担！",
        "渡轮的发动机很旧。冬天之前需要新的发动机。冰雪使渡轮晚点了。",
        "渡轮为什么晚点？",
    ),
}
"""Script -> a text about a bridge, a text about a ferry, and a query about the ferry."""


def collection(folder: Path, name: str) -> None:
    bridge, ferry, query = TEXTS[name]
    (folder / "own").mkdir()
    for file, text in (("a", bridge), ("b", bridge[::-1]), ("c", ferry)):
        (folder / "own" / f"{file}.txt").write_text(text, encoding="utf-8")
    row = {"query_id": "1", "text": query, "references": [ferry], "gold": ["c"]}
    (folder / "own/queries.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    (folder / "same.jsonl").write_text(json.dumps({"query_id": "1", "text": ferry}) + "\n", encoding="utf-8")


def measured(folder: Path, **fields: Any) -> tuple[dict[str, float], dict[str, Any], list[str]]:
    """Retriever -> its precision at 1, the row of an answer that equals the reference, and the warnings."""
    retrievers = ["keywords", "bm25", {"bm25": "stems"}]
    base = {"kind": "odsum", "corpus": "own", "retrievers": retrievers, "k": [1], "executor": "inline"}
    answers = [{"answers": "same.jsonl", "name": "same"}]
    found = summhay("run", write_spec(folder, {**base, "summarizers": answers, **fields}), "--store", folder / "store")
    [row] = found["summaries"]
    return {row["retriever"]: row["precision"] for row in found["retrieval"] if row["k"] == 1}, row, found["warnings"]


@pytest.mark.parametrize("name", [pytest.param(name, marks=[] if name == "thai" else pytest.mark.soak) for name in TEXTS])
def test_words_are_found_in_every_script_unless_the_papers_are_asked_for(tmp_path: Path, name: str) -> None:
    collection(tmp_path, name)
    precision, row, told = measured(tmp_path)
    assert precision == {"keywords": 1.0, "bm25": 1.0, "bm25-stems": 1.0}
    assert (row["rouge1"], row["rouge2"], row["rougeL"], row["rougeLsum"]) == (1.0, 1.0, 1.0, 1.0)
    assert not [line for line in told if "script" in line or "no document has a word" in line]
    _, row, told = measured(tmp_path, script="latin")
    assert row["rouge1"] == 0.0
    assert any("rouge: summaries with their references: 1 of 1 are not in Latin script" in line for line in told)


def test_a_ranking_without_any_word_of_the_query_is_reported(tmp_path: Path) -> None:
    collection(tmp_path, "chinese")
    precision, _, told = measured(tmp_path, script="latin")
    assert precision == {"keywords": 0.0, "bm25": 0.0, "bm25-stems": 0.0}
    for name in precision:
        assert any(line.startswith(f"{name}: in 1 of 1 queries no document has a word of the query") for line in told)


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("method", ["lead", "rouge-1", "rouge-2", "rouge-1+2", "support"])
def test_extracts_take_the_sentences_that_a_summary_needs(name: str, method: str) -> None:
    bridge, ferry, _ = TEXTS[name]
    source = f"{bridge} {ferry}"
    [everything] = extract(source, ferry, method, [10_000]).values()
    assert len(everything.index) == 6
    [some] = extract(source, ferry, method, [count_tokens(ferry) + 3]).values()
    assert method == "lead" or {3, 4, 5} <= set(some.index)
    # The paper's code recognizes none of these ends of sentences.
    [whole] = extract(source, ferry, method, [10_000], "release").values()
    assert len(whole.index) < 6


def test_latin_texts_are_read_as_in_the_papers() -> None:
    for one, other in (("The β of the ferry’s engine", "Engines of ferries: β"), ("Café São Paulo", "cafe sao paulo"), ("", "x")):
        assert rouge(one, [other]) == rouge(one, [other], script="latin")
    assert rouge("OpenAI发布了GPT-4模型", ["GPT-4模型由OpenAI发布"])["rouge1"] > 0.7
