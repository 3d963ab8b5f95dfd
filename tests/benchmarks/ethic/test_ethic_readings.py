"""Both readings of one answer in a run: the text that each scores, the samples that both have, and answers without a score."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from ethic_doubles import SAY

import summhay_ray
from summhay_ray.benchmarks.ethic import report
from summhay_ray.engine import RunResult
from summhay_ray.errors import SpecError

pytestmark = pytest.mark.core

NAMES = "Anna said so. Then Boris said so."
SECTIONS = "<Section 1>\nAnna sold the mill to Boris in May.\n\n<Section 2>\nBoris burned the mill down in June."


def record(task: str, said: str, answer: Any = (), context: str = NAMES) -> dict[str, Any]:
    user = f"### Context:\n{context}\n\nNow, respond to the instruction.\n\n### Instruction:\n{SAY}{said}"
    return {"task": task, "Domain": "Books", "Context": context, "User_msg": user, "Answer": answer}


def scored(folder: Path, *records: dict[str, Any], **changes: Any) -> RunResult:
    """A run on records whose prompts contain the answer."""
    lines = (json.dumps({"ID": str(place), **one}) + "\n" for place, one in enumerate(records))
    (folder / "records.jsonl").write_text("".join(lines), encoding="utf-8")
    fields = {"kind": "ethic_doubles:Obeying", "data": [str(folder / "records.jsonl")], "models": ["offline/obedient"]}
    return summhay_ray.run({**fields, "executor": "inline", **changes}, store=str(folder / "store"))


def samples(result: RunResult) -> list[tuple[str, float | None, float | None]]:
    """(class, our score, the scripts') of each record."""
    frame = result.scores["samples"].sort(pl.col("record").cast(pl.Int64))
    return frame.select("answer", pl.col("score").round(6), pl.col("score_release").round(6)).rows()


def test_the_scripts_score_the_whole_answer_and_we_what_follows_the_reasoning(tmp_path: Path) -> None:
    said = "<think>Anna, Carl?</think>\nAnna, Boris"
    found = scored(tmp_path, record("Recalling", said, ["Anna", "Boris"]))
    # `<think>anna`, `carl?</think>\nanna` and `boris` against two labels: 2 x 1/3 x 1/2 / (1/3 + 1/2)
    assert samples(found) == [("answered", 1.0, 0.4)]
    kept = scored(tmp_path, record("Recalling", said, ["Anna", "Boris"]), reasoning="keep")
    assert samples(kept)[0][1] != 1.0


def test_what_cannot_be_read_has_no_score_and_is_counted(tmp_path: Path) -> None:
    never_ended = "<think>\nAnna is named, and so is Boris. [2], [1]"
    found = scored(
        tmp_path,
        record("Recalling", never_ended, ["Anna", "Boris"]),
        record("Recalling", "Anna, Boris", ["Anna", "Boris"]),
        record("Organizing", "I would not know.", "[2], [1]"),
        record("Organizing", never_ended, "[2], [1]"),
        record("Attributing", "I cannot say.", ["[1]"]),
        record("Summarizing", never_ended, context=SECTIONS),
        record("Recalling", "nothing to say", ["Anna"]),
    )
    told = samples(found)
    assert [one[:2] for one in told[:6]] == [("unparsed", None), ("answered", 1.0), *[("unparsed", None)] * 4]
    assert told[3][2] == 1.0 and told[4][2] == 0.0 and told[6] == ("failed", None, None)
    rows = {one["task"]: one for one in found.to_json()["tasks"]}
    assert (rows["Recalling"]["n_scored"], rows["Recalling"]["n_expected"], rows["Recalling"]["score"]) == (1, 3, 1.0)
    # The difference is computed over samples that both readings score: here both give 1.
    task = found.scores["tasks"].filter(pl.col("task") == "Recalling").row(0, named=True)
    assert (task["difference"], task["n_both"], task["n_release"]) == (0.0, 1, 2)
    assert rows["Organizing"]["chance"] == 0.75
    [length] = found.scores["lengths"].filter(pl.col("task") == "Recalling").select("bucket", "n", "n_expected").rows()
    assert length == ("up to 16K", 1, 3)


def test_a_model_that_leaves_all_sections_out_is_reported(tmp_path: Path) -> None:
    found = scored(tmp_path, record("Summarizing", "The mill was sold and burned down.", context=SECTIONS))
    assert samples(found) == [("unparsed", 1.0, None)]
    [row] = found.scores["summaries"].to_dicts()
    assert (row["missing"], row["n"], row["n_expected"], row["con"]) == (1.0, 1, 1, None)
    # By place, too: the last fifth is as low as the first.
    places = found.scores["positions"].select("fifth", "score", "missing", "n").rows()
    assert places == [(1, 1.0, 1.0, 1), (5, 1.0, 1.0, 1)]


def test_each_reading_rates_its_own_pairs_of_texts(tmp_path: Path) -> None:
    first, second = "Boris bought a mill.", "Boris burned it down."
    alike = scored(tmp_path, record("Summarizing", f"**<Section 1>**\n{first}\n**<Section 2>**\n{second}", context=SECTIONS))
    ratings = summhay_ray.table(alike.run, "section_ratings", str(tmp_path / "store"))
    # Markup of headers alone does not change the text: one rating counts for both readings.
    assert ratings["reading"].unique().to_list() == ["both"] and ratings.height == 6
    # The scripts take the last body of a repeated section, we take both; the scripts do not recognize `section 2:`.
    twice = scored(
        tmp_path, record("Summarizing", f"<Section 1>\n{first}\n<Section 1>\nNo.\n<section 2>\n{second}", context=SECTIONS)
    )
    ratings = summhay_ray.table(twice.run, "section_ratings", str(tmp_path / "store"))
    assert sorted(set(ratings.select("section", "reading").rows())) == [("1", "ours"), ("1", "release"), ("2", "ours")]
    means = dict(ratings.group_by(pl.col("reading") == "release").agg(pl.col("value").mean()).rows())
    assert samples(twice) == [("answered", pytest.approx(means[False]), pytest.approx(means[True]))]
    assert set(twice.scores["positions"]["n"].to_list()) == {1}


def test_numbers_of_thousands_of_digits_are_no_sections(tmp_path: Path) -> None:
    long = f"<Section {'9' * 5000}>"
    found = scored(
        tmp_path, record("Summarizing", f"{long}\nNo.\n<Section 2>\nBoris burned it.", context=f"{SECTIONS}\n{long}\nEnd.")
    )
    assert found.status == "done" and samples(found)[0][1] is not None
    ratings = summhay_ray.table(found.run, "section_ratings", str(tmp_path / "store"))
    # The scripts compare headers as texts, and recognize this one.
    assert {len(one) for one in ratings["section"]} == {1, 5000}


def test_the_papers_rows_stand_beside_the_scripts_reading(tmp_path: Path) -> None:
    found = scored(tmp_path, record("Recalling", "Anna\nBoris", ["Anna", "Boris"]))
    table = report.table_3(found.scores["overall"])
    rows = {(one["model"], one["from"]): one for one in table.to_dicts()}
    assert rows["offline/obedient", "ours, as we read"]["Recalling"] == 100
    assert rows["offline/obedient", "ours, as the scripts score"]["Recalling"] == 0
    assert rows["GPT-4o", "paper"]["Attributing"] == 41.3
    # Table A: (230 x 30.4 + 103 x 55.7) / 333 = 38.2, which is not what Table 3 has.
    assert rows["GPT-4o", "paper, from Table A"]["Attributing"] == pytest.approx(38.2, abs=0.05)
    assert rows["GPT-4o", "paper, from Table A"]["Recalling"] == pytest.approx(49.5, abs=0.1)


def test_a_context_without_room_is_a_failure_not_an_empty_prompt(tmp_path: Path) -> None:
    model = {"model": "offline/obedient", "max_tokens": 100, "context_window": 120}
    found = scored(tmp_path, record("Recalling", "Anna", ["Anna"]), models=[model], over_length="truncate-middle")
    [failure] = summhay_ray.failures(found.run, str(tmp_path / "store"))
    assert failure["error"] == "context_window" and "no room is left for the context" in failure["message"]
    assert samples(found) == [("over_length", None, None)] and found.calls["made"] == 0


def test_a_file_that_is_no_tokenizer_is_refused_before_any_call(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text('{"model": {}}', encoding="utf-8")
    model = {"model": "offline/obedient", "tokenizer": str(tmp_path / "tokenizer.json")}
    with pytest.raises(SpecError, match=r"^spec: models: tokenizer: .*tokenizer\.json is not a tokenizer\.json \("):
        scored(tmp_path, record("Recalling", "Anna", ["Anna"]), models=[model])


def words_tokenizer(path: Path) -> Path:
    """A tokenizer.json whose tokens are words."""
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    made.save(str(path))
    return path


def test_lengths_are_in_the_models_own_tokens(tmp_path: Path) -> None:
    own = str(words_tokenizer(tmp_path / "tokenizer.json"))
    long = f"{NAMES} {'unbelievably ' * 100}The end."
    asked = record("Recalling", "Anna, Boris", ["Anna", "Boris"], long)

    def answers(window: int, *tokenizers: str | None) -> dict[str, dict[str, Any]]:
        entries = [
            {"model": "offline/obedient", "name": str(one), "max_tokens": 10, "context_window": window, "tokenizer": one}
            for one in tokenizers
        ]
        found = scored(tmp_path, asked, models=entries, over_length="truncate-middle")
        return {one["model"]: one for one in summhay_ray.table(found.run, "ethic_answers", str(tmp_path / "store")).to_dicts()}

    wide = answers(140, None, own)
    assert wide[own]["tokens"] == len(asked["User_msg"].split()) < 130 < wide["None"]["tokens"]
    assert (wide[own]["truncated"], wide["None"]["truncated"]) == (False, True) and wide["None"]["shown_tokens"] <= 130
    narrow = answers(60, own)[own]
    assert narrow["truncated"] and 30 < narrow["shown_tokens"] <= 50


def test_a_section_whose_ratings_are_lost_leaves_its_sample_without_a_score(tmp_path: Path) -> None:
    said = "<Section 1>\nAnna sold it.\n\n<Section 2>\nBoris burned it."
    found = scored(
        tmp_path,
        record("Summarizing", said, context=SECTIONS),
        record("Summarizing", "<Section 1>\nAnna sold it.", context=SECTIONS),
        judges=["offline/choosy"],
    )
    # The second answer lacks a summary of the second section, which is not the judge's failure: (4 + 1) / 2.
    assert [one[:2] for one in samples(found)] == [("answered", None), ("answered", 2.5)] and found.status == "partial"
    [task] = found.to_json()["tasks"]
    assert (task["n_scored"], task["n_expected"], task["score"]) == (1, 2, 2.5)
    failures = summhay_ray.failures(found.run, str(tmp_path / "store"))
    assert [one["message"].partition(":")[0] for one in failures] == [f"section 2, {name}" for name in ("con", "faith", "rel")]
