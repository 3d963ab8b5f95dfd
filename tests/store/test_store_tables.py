"""Records are written to tables and read back unchanged, with any text and numbers."""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import json
import random
import typing
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Optional

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from summhay_ray import records
from summhay_ray.benchmarks import summhay
from summhay_ray.engine.items import RAW_ANSWERS as RAW
from summhay_ray.errors import UserError
from summhay_ray.llm import RawAnswer
from summhay_ray.store import Table, columns_of, tables
from summhay_ray.store.records import as_record
from summhay_ray.store.tables import digest

pytestmark = pytest.mark.core

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    [
        "",
        "\x00",
        "a\x00b",
        "\u202eright to left\u202c",
        "👩\u200d👩\u200d👧",
        "\x01\x1f\x7f\x85\u2028",
        "<|endoftext|>",
        "\n\r\t",
        "é e\u0301",
    ]
)
INT = st.integers(-(2**63), 2**63 - 1)
FLOAT = st.floats(allow_nan=False)
VALUES: dict[Any, st.SearchStrategy[Any]] = {
    str: TEXT,
    int: INT,
    float: FLOAT,
    bool: st.booleans(),
    tuple[str, ...]: st.lists(TEXT, max_size=4).map(tuple),
    tuple[int, ...]: st.lists(INT, max_size=4).map(tuple),
    tuple[float, ...]: st.lists(FLOAT, max_size=4).map(tuple),
}
VALUES |= {kind | None: st.none() | values for kind, values in VALUES.items()}


@dataclass(frozen=True)
class Everything:
    """A column of every type."""

    known: ClassVar[int] = 3
    name: str
    number: Annotated[int, "which one"]
    share: float
    right: bool
    words: tuple[str, ...]
    numbers: Annotated[tuple[int, ...], "which ones"]
    shares: tuple[float, ...]
    maybe_name: str | None
    maybe_number: Annotated[int | None, "which one, null where none"]
    maybe_share: Optional[float]  # noqa: UP045
    maybe_right: bool | None
    maybe_words: tuple[str, ...] | None
    maybe_numbers: tuple[int, ...] | None = None
    maybe_shares: tuple[float, ...] | None = None


EVERYTHING = Table("everything", Everything, ("name", "right"))
TABLES = {table.name: table for table in (*summhay.TABLES, RAW)}
FAILURES, SUMMARIES, RAW_ANSWERS = TABLES["failures"], TABLES["summaries"], TABLES["raw_answers"]
# A haystack's row has no documents: they are in another table.
WHOLE = [EVERYTHING, *(TABLES[name] for name in sorted(set(TABLES) - {"haystacks"}))]


def persisted(table: Table) -> dict[str, Any]:
    hints = typing.get_type_hints(table.record)
    return {name: kind for name, kind in hints.items() if name not in table.without and name != "known"}


def rows_of(table: Table) -> st.SearchStrategy[list[Any]]:
    row = st.builds(table.record, **{name: VALUES[kind] for name, kind in persisted(table).items()})
    return st.lists(row, max_size=8, unique_by=lambda one: tuple(getattr(one, name) for name in table.key))


@pytest.mark.parametrize("table", WHOLE, ids=lambda table: table.name)
@settings(max_examples=5)
@given(data=st.data())
def test_every_record_round_trips(table: Table, data: st.DataObject) -> None:
    rows = data.draw(rows_of(table))
    key = table.key
    frame = table.frame(rows)
    back = table.records(frame)
    assert sorted(map(repr, back)) == sorted(map(repr, rows))
    stored = [tuple(getattr(row, name) for name in key) for row in back]
    assert len(set(stored)) == len(stored) == frame.unique(subset=list(key)).height


def test_every_record_has_a_table_and_every_field_a_column() -> None:
    nouns = {
        found
        for found in vars(records).values()
        if isinstance(found, type) and dataclasses.is_dataclass(found) and found.__module__ == records.__name__
    }
    # The answers that `support` gets are judged, and not stored.
    nouns -= {records.CitedAnswer, records.CitedAnswers}
    assert {table.record for table in TABLES.values()} == {*nouns, RawAnswer}
    for name, table in TABLES.items():
        assert (table.name, table.columns.schema.names) == (name, list(persisted(table)))
        annotated = typing.get_type_hints(table.record, include_extras=True)
        assert all(typing.get_origin(annotated[field]) is typing.Annotated for field in persisted(table))


@pytest.mark.parametrize("table", [EVERYTHING, *TABLES.values()], ids=lambda table: table.name)
def test_a_frame_has_the_declared_columns_even_without_rows(table: Table) -> None:
    stored = table.columns.as_frame([])
    declared = pl.DataFrame(pa.Table.from_batches([], table.columns.schema))
    assert stored.schema == declared.schema == table.frame([]).schema
    assert [column["name"] for column in table.describe()["columns"]] == stored.columns
    assert table.frame([]).height == 0
    assert digest(table.frame([])) == hashlib.sha256(b"").hexdigest()


@pytest.mark.parametrize("table", [EVERYTHING, *TABLES.values()], ids=lambda table: table.name)
def test_columns_come_back_from_json_with_their_meanings(table: Table) -> None:
    back = tables.Columns.from_json(json.loads(json.dumps(table.columns.to_json())))
    assert (back.table, back.key) == (table.name, table.key)
    assert back.schema.equals(table.columns.schema, check_metadata=True) and back == table.columns


@dataclass(frozen=True)
class Odd:
    when: datetime.date
    kinds: list[str]
    either: int | str
    name: str
    _unit: int
    maybe: int | None
    share: float
    words: tuple[str, ...]


@dataclass(frozen=True)
class Lost:
    name: Nowhere  # type: ignore[name-defined]  # noqa: F821


class Plain:
    name: str


REST = ("when", "kinds", "either", "_unit")


@pytest.mark.parametrize(
    ("table", "told"),
    [
        (
            Table("odd", Odd, ("name",), ("kinds", "either", "_unit")),
            r"table odd: Odd\.when: date is not a column type; take str",
        ),
        (
            Table("odd", Odd, ("name",), ("when", "either", "_unit")),
            r"Odd\.kinds: list\[str\] is not a column type; take str, int",
        ),
        (Table("odd", Odd, ("name",), ("when", "kinds", "_unit")), r"Odd\.either: int \| str is not a column type"),
        (Table("odd", Odd, ("name",), ("when", "kinds", "either")), r"Odd\._unit: a column's name begins with a letter"),
        (Table("odd", Odd, ("nmae",), REST), "its key names 'nmae', which is not a field of Odd: name, maybe, share, words"),
        (Table("odd", Odd, ("name", "when"), REST), "its key names 'when', which is not a field of Odd"),
        (
            Table("odd", Odd, ("name", "maybe"), REST),
            r"Odd\.maybe is part of the key; a key is made of str, int, float and bool alone",
        ),
        (Table("odd", Odd, ("words",), REST), r"Odd\.words is part of the key"),
        (Table("odd", Odd, (), REST), "table odd: it has no key; name the fields of Odd that identify a row"),
        (Table("odd", Lost, ("name",)), "table odd: Lost: name 'Nowhere' is not defined"),
        (Table("odd", Plain, ("name",)), "table odd: Plain is not a dataclass"),
        (Table("../odd", Odd, ("name",), REST), "table '../odd': expected small letters"),
        (Table("_units", Odd, ("name",), REST), "table '_units': expected small letters"),
    ],
)
def test_a_record_that_makes_no_table_is_refused_in_one_line(table: Table, told: str) -> None:
    with pytest.raises(UserError, match=told) as refused:
        columns_of([table])
    assert "\n" not in str(refused.value)


WRONG = [
    *[("name", value) for value in (None, 1, b"x", "\ud800", ["a"], object())],
    *[("number", value) for value in (None, "1", 1.0, 1.5, True, 2**63, [1])],
    *[("share", value) for value in ("0.5", False, [0.5])],
    *[("right", value) for value in (1, "yes")],
    *[("words", value) for value in (None, "text", {"a": 1}, ("a", 1), ("\ud800",), range(3))],
    *[("numbers", value) for value in (("1",), (1.5,), (1, True), ((1,),), 1)],
    ("maybe_shares", ("0.5",)),
]


ROW = Everything("a", 1, 0.5, True, ("b",), (2,), (0.25,), None, None, None, None, None)


@pytest.mark.parametrize(("column", "value"), WRONG, ids=[f"{column}-{value!r:.12}" for column, value in WRONG])
def test_a_value_that_its_column_cannot_hold_is_refused_and_found(column: str, value: Any) -> None:
    assert EVERYTHING.columns.flaw(ROW) is None
    wrong = dataclasses.replace(ROW, **{column: value})
    assert EVERYTHING.columns.flaw(wrong) == column
    for given_rows in ([wrong, ROW], [ROW, wrong]):
        with pytest.raises((TypeError, ValueError, OverflowError)):
            EVERYTHING.columns.as_frame(given_rows)


def failure(cell_id: str, message: str) -> records.Failure:
    return records.Failure(cell_id, "judge", "j", "i", "failed", "e", message, "", 1, 2)


@given(st.permutations(range(6)), st.integers(1, 6))
def test_neither_order_nor_parts_nor_repeats_change_the_digest(order: list[int], size: int) -> None:
    rows = [failure(f"cell-{number}", "m") for number in range(6)]
    shuffled = [rows[number] for number in order]
    parts = [FAILURES.columns.as_frame(shuffled[start : start + size]) for start in range(0, 6, size)]
    frame = FAILURES.columns.frame([*parts, parts[0]])
    assert digest(frame) == digest(FAILURES.frame(rows)) and frame.height == 6


@given(rows=rows_of(EVERYTHING))
def test_the_digest_is_that_of_each_row_as_json(rows: list[Any]) -> None:
    frame = EVERYTHING.frame(rows)
    lines = "".join(json.dumps(row, sort_keys=True) + "\n" for row in frame.to_dicts())
    assert digest(frame) == hashlib.sha256(lines.encode("ascii")).hexdigest()


def test_the_digest_sees_every_change() -> None:
    rows = [failure("a", "m"), failure("b", "m")]
    known = {digest(FAILURES.frame(rows))}
    for name in FAILURES.columns.schema.names:
        value = getattr(rows[1], name)
        changed = dataclasses.replace(rows[1], **{name: value + 1 if isinstance(value, int) else value + "x"})
        known.add(digest(FAILURES.frame([rows[0], changed])))
    known.add(digest(FAILURES.frame(rows[:1])))
    assert len(known) == 1 + len(FAILURES.columns.schema.names) + 1


def test_of_two_rows_with_one_key_the_first_is_kept() -> None:
    raw = RawAnswer("k", "m", "first", "stop", 1, 0, 1, 5, 1)
    later = dataclasses.replace(raw, text="second", usd_micros=7)
    parts = [RAW_ANSWERS.frame([row]) for row in (raw, later)]
    assert RAW_ANSWERS.records(RAW_ANSWERS.columns.frame(parts)) == [raw]
    ranked = [part.with_columns(_unit=pl.lit(rank)) for rank, part in zip((5, 3), parts, strict=True)]
    assert RAW_ANSWERS.records(RAW_ANSWERS.columns.frame(ranked)) == [later], "the first in the order beyond the key"


@given(st.integers(1, 7))
def test_the_digest_of_a_table_in_pieces_is_that_of_the_whole(size: int) -> None:
    frame = FAILURES.frame([failure(f"cell-{number}", "m") for number in range(6)])
    whole = hashlib.sha256()
    for piece in frame.iter_slices(size):
        tables.hash_rows(whole, piece)
    assert whole.hexdigest() == digest(frame)


def test_a_null_where_none_is_allowed_is_refused() -> None:
    with pytest.raises(ValueError, match="table summaries: system may not be null"):
        SUMMARIES.frame([dataclasses.replace(summary("c"), system=None)])  # type: ignore[arg-type]


def summary(cell_id: str, *bullets: str) -> records.Summary:
    return records.Summary(cell_id, "h", "s", "sys", "bm25", "given", "m", 0, "ctx", "key", bullets)


def test_a_ten_megabyte_line_is_a_value() -> None:
    text = random.Random(3).randbytes(5_000_000).hex()
    assert SUMMARIES.records(SUMMARIES.frame([summary("c", text)])) == [summary("c", text)]


@dataclass(frozen=True)
class Depth:
    depth: float


def test_a_float_may_be_part_of_a_key_where_it_is_a_number() -> None:
    table = Table("depths", Depth, ("depth",))
    assert table.frame([Depth(0.5), Depth(0.25), Depth(0.5)])["depth"].to_list() == [0.25, 0.5]
    with pytest.raises(ValueError, match="table depths: depth is part of the key, and may not be NaN"):
        table.frame([Depth(float("nan"))])


def test_a_column_has_the_name_of_a_field_in_any_script_and_a_record_gives_it_no_other() -> None:
    table = Table("sizes", dataclasses.make_dataclass("Size", [("größe", str), ("名前", int)], frozen=True), ("größe",))
    described = table.columns.to_json()
    assert tables.Columns.from_json(described) == table.columns
    frame = table.frame([table.record("a", 1)])
    assert frame.rows() == [("a", 1)] and len(digest(frame)) == 64
    for name in ("../up", "%s", "^.*$", "a\n", "", "a b"):
        described["columns"][1]["name"] = name
        assert as_record(tables.TableBody, json.dumps(described).encode("ascii")) is None
