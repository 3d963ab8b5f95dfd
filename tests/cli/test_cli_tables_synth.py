"""The tables of a synthesis, its plan and its audit."""

from __future__ import annotations

import pytest

from summhay_ray.benchmarks.synth import FailedTopic, MadeHaystack, VerifiedFile
from summhay_ray.cli.record_tables import MOST_ROWS, audited_tables, made_tables, plan_table, verified_tables

pytestmark = pytest.mark.core


def haystack(name: str, usd: float = 0.25, distractors: int = 0) -> MadeHaystack:
    numbers = {"documents": 100, "subtopics": 9, "distractors": distractors, "insights": 63, "tokens": 101_000, "words": 75_000}
    checks = {"checks": 6_500, "checks_by_model": 12, "corrections": 3}
    return MadeHaystack(name, "h" * 16, f"store/{'d' * 64}/{name}.json", "a ferry", "news", **numbers, **checks, usd=usd)


def test_haystacks_have_a_row_each_and_a_sum() -> None:
    [table] = made_tables([haystack("one"), haystack("two", 0.5)], [])
    assert table.rows[0] == ("one", "news", "100", "9", "63", "101,000", "6,500", "12", "3", "0.2500")
    # 2 x 101,000 tokens; 0.25 + 0.5 dollars.
    assert table.rows[2] == ("all 2", "-", "200", "18", "126", "202,000", "13,000", "24", "6", "0.7500")
    assert all(len(row) == len(table.columns) for row in table.rows)


def test_what_distracts_stands_apart_where_any_has_some() -> None:
    assert "Distracting" not in made_tables([haystack("one")], [])[0].columns
    [table] = made_tables([haystack("one"), haystack("two", distractors=3)], [])
    place = table.columns.index("Distracting")
    assert [row[place - 1 : place + 1] for row in table.rows] == [("9", "0"), ("9", "3"), ("18", "3")]
    assert all(len(row) == len(table.columns) for row in table.rows)


def test_a_long_list_is_cut_and_summed_whole() -> None:
    [table] = made_tables([haystack(f"h{number}") for number in range(MOST_ROWS + 10)], [])
    assert len(table.rows) == MOST_ROWS + 1 and table.rows[-1][:3] == ("all 50", "-", "5,000")


def test_a_cut_table_names_the_number_of_rows_left_out() -> None:
    failed = [FailedTopic("a ferry", f"h{number}", "c" * 32, "queries", "leak", "why", 0.0) for number in range(MOST_ROWS + 20)]
    row = {"kind": "query_leak", "subject": "s1", "object": "i", "expected": "no", "found": "yes"}
    verified = VerifiedFile("a.json", "h" * 16, ({**row, "sure": True, "score": 1.0, "evidence": "", "text": ""},) * 60)
    told = "(60; the first 40, --json has all)"
    made = [haystack(one.name) for one in failed]
    cut = [*made_tables(made, failed), verified_tables(verified)[1]]
    titles = ["Haystacks", "Topics without a haystack: 60", "Otherwise than stated, or unsure"]
    assert [table.title for table in cut] == [f"{title} {told}" for title in titles]
    whole = made_tables(made[:MOST_ROWS], failed[:MOST_ROWS])
    assert [table.title for table in whole] == ["Haystacks", "Topics without a haystack: 40"]


def test_failures_show_their_number_and_reasons() -> None:
    failed = [FailedTopic("a ferry", "ferry", "c" * 32, "queries", "leak", "every query gave it away", 0.125)]
    [table] = made_tables([], failed)
    assert table.title.endswith(": 1") and table.rows == (("ferry", "queries", "leak", "every query gave it away", "0.1250"),)


def test_bounds_stand_around_what_is_expected() -> None:
    counts = {"calls": 20, "min_calls": 10, "max_calls": 3000, "input_tokens": 5, "min_input_tokens": 4, "max_input_tokens": 6}
    tokens = {"output_tokens": 2, "min_output_tokens": 1, "max_output_tokens": 9}
    stage = {"stage": "write", "model": "m", **counts, **tokens, "usd_min": 0.1, "usd": 0.2, "usd_max": 4.0}
    [row] = plan_table([stage]).rows
    assert row == ("write", "m", "10 / 20 / 3,000", "0.1000 / 0.2000 / 4.0000", "4 / 5 / 6", "1 / 2 / 9")


def test_an_audit_is_the_papers_tables() -> None:
    news = {"domain": "news", "insights_annotated": 131, "assigned_to_several": 0.76, "accuracy": 92.37}
    found = {"domain": "news", "num_samples": 85, "stated_present": 35}
    found |= {"accuracy": 98.82, "precision": None, "recall": 97.14, "f1": 98.55}
    fourth, fifth = audited_tables({"insight_subtopic": [news], "document_insight": [found]})
    assert fourth.rows == (("news", "131", "92.37", "0.76"),)
    assert fifth.columns[1:3] == ("Samples", "Stated there"), "the other figures depend on their share"
    assert fifth.rows == (("news", "85", "35", "98.82", "-", "97.14", "98.55"),)
