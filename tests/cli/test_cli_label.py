"""People's labels of judgments, from the sheet to the corrected figures."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import Said
from hypothesis import given
from hypothesis import strategies as st
from inline_runs import answered, rows

from summhay_ray import api
from summhay_ray.benchmarks.summhay import read_labels
from summhay_ray.errors import UserError
from summhay_ray.store import RunStore

pytestmark = pytest.mark.core

WORDS = {"NO_COVERAGE": "no", "PARTIAL_COVERAGE": "Partial", "FULL_COVERAGE": "full"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    store = tmp_path_factory.mktemp("labels") / "store"
    return answered(store, summarizers=["offline/lead", "offline/support"], judges=["offline/judge"])[1]


def sheet(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def filled(run: RunStore, path: Path, say: Callable[[dict[str, Any]], tuple[str, str]], n: int = 30) -> Path:
    """A sheet of the run with the answer of `say` for each judgment: coverage and bullet."""
    api.label(run.run_id, n, path, run.store.uri)
    judged = {f"{row['cell_id']}/{row['insight_id']}": row for row in rows(run, "judgments")}
    listed = sheet(path)
    for row in listed:
        row["coverage"], row["bullet"] = say(judged[row["row"]])
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, listed[0])
        writer.writeheader()
        writer.writerows(listed)
    return path


def as_judged(row: dict[str, Any]) -> tuple[str, str]:
    return WORDS[row["coverage"]], "" if row["coverage"] == "NO_COVERAGE" else str(json.loads(row["bullet_id"]))


def test_a_sheet_has_all_systems_alike_and_shows_neither_them_nor_a_verdict(run: RunStore, tmp_path: Path) -> None:
    first, again, other = (tmp_path / name for name in ("a.csv", "b.csv", "c.csv"))
    found = api.label(run.run_id, 20, first, run.store.uri)
    assert (found["rows"], found["of"], found["systems"]) == (20, 44, 2)
    api.label(run.run_id, 20, again, run.store.uri)
    api.label(run.run_id, 20, other, run.store.uri, seed=1)
    assert first.read_bytes() == again.read_bytes() != other.read_bytes()
    listed = sheet(first)
    system = {row["cell_id"]: row["system"] for row in rows(run, "summaries")}
    judged = {f"{row['cell_id']}/{row['insight_id']}": row for row in rows(run, "judgments")}
    assert Counter(system[row["row"].partition("/")[0]] for row in listed) == dict.fromkeys(set(system.values()), 10)
    assert not any(row["coverage"] or row["bullet"] for row in listed)
    assert all(row["insight"] and row["query"] and row["bullets"].startswith("1. ") for row in listed)
    assert not any(word in first.read_text("utf-8-sig") for word in ("COVERAGE", "offline", "bm25"))
    # Judgments of which the judge is less certain are drawn more often.
    pairs = sorted(
        (judged[row["row"]]["uncertainty"], float(row["chance"]), system[row["row"].partition("/")[0]]) for row in listed
    )
    for name in set(system.values()):
        chances = [chance for _, chance, one in pairs if one == name]
        assert chances == sorted(chances) and chances[0] < chances[-1]
    # A sample cannot be larger than the run.
    assert api.label(run.run_id, 1000, tmp_path / "all.csv", run.store.uri)["rows"] == 44


def test_labels_like_the_judges_change_nothing_and_others_move_every_figure(run: RunStore, tmp_path: Path) -> None:
    raw = api.score(run.run_id, run.store.uri).systems  # type: ignore[union-attr]
    alike = api.score(run.run_id, run.store.uri, labels=filled(run, tmp_path / "alike.csv", as_judged)).systems  # type: ignore[union-attr]
    for one, same in zip(raw, alike, strict=True):
        assert (one.coverage_labelled, one.labels) == (None, None) and one.coverage == same.coverage
        assert same.labels is not None and same.labels.n == 15
        assert (same.coverage_labelled, same.joint_labelled) == pytest.approx((same.coverage, same.joint), abs=0.08)
        assert same.coverage_corrected == one.coverage_corrected, "today's correction stays beside it"
    none = filled(run, tmp_path / "none.csv", lambda row: ("none", ""))
    for system in api.score(run.run_id, run.store.uri, labels=none).systems:  # type: ignore[union-attr]
        assert (system.coverage_labelled, system.joint_labelled) == (0.0, 0.0) and system.coverage
    table = api.score(run.run_id, run.store.uri, labels=none).table  # type: ignore[union-attr]
    assert table.select("labels", "coverage_labelled").row(0) == (15, 0.0)


def test_score_report_and_compare_use_the_labels(run: RunStore, tmp_path: Path, cli: Callable[..., Said]) -> None:
    path, store = tmp_path / "sheet.csv", ("--store", run.store.uri)
    said = cli("label", run.run_id, "--n", "24", "--out", str(path), *store, "--json").document
    assert (said["rows"], said["judge"]) == (24, "offline/judge")
    assert "already there" in cli("label", run.run_id, "--out", str(path), *store).err
    path.unlink()
    full = filled(run, path, lambda row: ("full", "1"), 24)
    shown = cli("score", run.run_id, "--labels", str(full), "--all", *store).out
    assert "Corrected by 24 labels of people, each system by its own, judged by offline/judge" in shown
    assert "mean of all" in shown
    [one, other] = cli("score", run.run_id, "--labels", str(full), *store, "--json").document["systems"]
    assert one["labels"]["n"] == other["labels"]["n"] == 12 and one["coverage_labelled"] == 1.0
    assert one["ci_reasons"]["coverage_labelled"] == "too few queries: 4, an interval needs 6"
    pairs = cli("compare", run.run_id, "--labels", str(full), *store, "--json").document["pairs"]
    by_figure = {pair["figure"]: pair for pair in pairs}
    coverage = by_figure["coverage"]
    assert coverage["labelled"]["difference"] == pytest.approx(0.0, abs=0.03), "people find all covered in both"
    assert coverage["paired"]["difference"] != 0 and coverage["corrected"]["difference"] is not None
    assert by_figure["citation"]["labelled"] is None or by_figure["citation"]["labelled"]["difference"] is None
    few = filled(run, tmp_path / "few.csv", lambda row: ("full", "1"), 18)
    for system in cli("score", run.run_id, "--labels", str(few), *store, "--json").document["systems"]:
        assert (system["labels"], system["coverage_labelled"]) == (None, None), "nine labels of a system are too few"
    for pair in cli("compare", run.run_id, "--labels", str(few), *store, "--json").document["pairs"]:
        assert (pair["labelled"] or {}).get("difference") is None
    cli("report", run.run_id, "--labels", str(full), "--format", "md", "--out", str(tmp_path / "report"), *store)
    assert "Corrected by 24 labels of people, each system by its own" in "".join(
        one.read_text("utf-8") for one in (tmp_path / "report").glob("*.md")
    )


@pytest.mark.parametrize(
    ("column", "value", "told"),
    [
        ("row", "nothing", "is not an id"),
        ("row", "0123456789abcdef/i", "is not a judgment of"),
        ("chance", "0", "above 0 and at most 1"),
        ("coverage", "maybe", "expected no, partial or full"),
        ("bullet", "first", "expected the number of a bullet"),
        ("bullet", "99", "names bullet 99"),
    ],
)
def test_a_bad_label_is_reported_with_its_row(run: RunStore, tmp_path: Path, column: str, value: str, told: str) -> None:
    path = filled(run, tmp_path / "sheet.csv", lambda row: ("full", "1"), 4)
    listed = sheet(path)
    listed[1][column] = value
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, listed[0])
        writer.writeheader()
        writer.writerows(listed)
    with pytest.raises(UserError, match=told) as caught:
        api.score(run.run_id, run.store.uri, labels=path)
    assert "row" in str(caught.value) and "\n" not in str(caught.value)


@given(
    content=st.one_of(st.binary(max_size=200), st.text(alphabet='row,chance;/0.5"\ncoveragebullet', max_size=200).map(str.encode))
)
def test_any_file_is_labels_or_one_line(content: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_bytes(b"row,chance,coverage,bullet\n" + content if len(content) % 2 else content)
    try:
        read = read_labels(path)
    except UserError as error:
        assert len(str(error).splitlines()) == 1
    else:
        assert read.rows


def test_a_sheet_without_labels_and_a_file_that_is_no_sheet_are_refused(run: RunStore, tmp_path: Path) -> None:
    path = tmp_path / "sheet.csv"
    api.label(run.run_id, 4, path, run.store.uri)
    with pytest.raises(UserError, match="none of its 4 rows is labelled"):
        api.score(run.run_id, run.store.uri, labels=path)
    path.write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(UserError, match="has no column 'row'"):
        api.compare_systems(run.run_id, store=run.store.uri, labels=path)
    with pytest.raises(UserError, match="one run's judgments"):
        api.compare_systems(run.run_id, run.run_id, store=run.store.uri, labels=filled(run, tmp_path / "two.csv", as_judged))
