"""Records go into tables and come out the same, whatever text and numbers they hold."""

from __future__ import annotations

import dataclasses
import hashlib
import random
import typing
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from summhay_ray import records
from summhay_ray.store import TABLES, describe, digest, from_rows, schema_of, tables, to_records

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
    tuple[str, ...]: st.lists(TEXT, max_size=4).map(tuple),
    tuple[int, ...]: st.lists(INT, max_size=4).map(tuple),
    int | None: st.none() | INT,
    float | None: st.none() | FLOAT,
}
# A haystack's row holds no documents: they are a table of their own.
WHOLE = sorted(set(TABLES) - {"haystacks"})


def persisted(table: str) -> dict[str, Any]:
    hints = typing.get_type_hints(TABLES[table][0], include_extras=True)
    return {name: typing.get_args(hint)[0] for name, hint in hints.items() if typing.get_origin(hint) is typing.Annotated}


def rows_of(table: str) -> st.SearchStrategy[list[Any]]:
    record, key = TABLES[table]
    row = st.builds(record, **{name: VALUES[kind] for name, kind in persisted(table).items()})
    return st.lists(row, max_size=8, unique_by=lambda one: tuple(getattr(one, name) for name in key))


@pytest.mark.parametrize("table", WHOLE)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_every_record_round_trips(table: str, data: st.DataObject) -> None:
    rows = data.draw(rows_of(table))
    key = TABLES[table][1]
    frame = from_rows(table, rows)
    back = to_records(table, frame)
    assert sorted(map(repr, back)) == sorted(map(repr, rows))
    stored = [tuple(getattr(row, name) for name in key) for row in back]
    assert len(set(stored)) == len(stored) == frame.unique(subset=list(key)).height


def test_a_haystack_row_holds_its_persisted_fields() -> None:
    haystack = records.Haystack("h", "n\x00", "", "t", "news", ("A", "B"), (), (), ())
    assert from_rows("haystacks", [haystack]).to_dicts() == [
        {"haystack_id": "h", "name": "n\x00", "topic_id": "", "topic": "t", "domain": "news", "participants": ["A", "B"]}
    ]


def test_every_record_has_a_table_and_every_field_a_column() -> None:
    nouns = {
        found
        for found in vars(records).values()
        if isinstance(found, type) and dataclasses.is_dataclass(found) and found.__module__ == records.__name__
    }
    assert {record for record, _ in TABLES.values()} == nouns
    for table, (record, key) in TABLES.items():
        assert schema_of(table).names == [name for name in tables.field_names(record) if name in persisted(table)]
        assert set(key) <= set(schema_of(table).names)


@pytest.mark.parametrize("table", sorted(TABLES))
def test_arrow_has_the_declared_schema_even_without_rows(table: str) -> None:
    stored = tables.to_arrow(table, []).schema
    assert stored.equals(schema_of(table), check_metadata=False)
    assert [column["name"] for column in describe(table)["columns"]] == stored.names
    assert from_rows(table, []).height == 0
    assert digest(from_rows(table, [])) == hashlib.sha256(b"").hexdigest()


def test_what_an_earlier_version_wrote_lacks_later_counts_and_keeps_what_is_asked_for() -> None:
    found = tables.to_arrow("failures", [failure("a", "m")]).append_column("_unit", pa.array([7], pa.int32()))
    older = tables.declared("failures", found.drop_columns(["usd_micros"]), "_unit")
    assert older.schema.names == [*schema_of("failures").names, "_unit"]
    assert (older["usd_micros"].to_pylist(), older["_unit"].to_pylist()) == ([0], [7])
    assert tables.declared("failures", found).schema.equals(schema_of("failures"))


def failure(cell_id: str, message: str) -> records.Failure:
    return records.Failure(cell_id, "judge", "j", "i", "failed", "e", message, "", 1, 2)


@settings(max_examples=25, deadline=None)
@given(st.permutations(range(6)), st.integers(1, 6))
def test_neither_order_nor_parts_nor_repeats_change_the_digest(order: list[int], size: int) -> None:
    rows = [failure(f"cell-{number}", "m") for number in range(6)]
    shuffled = [rows[number] for number in order]
    parts = [tables.to_arrow("failures", shuffled[start : start + size]) for start in range(0, 6, size)]
    frame = tables.to_frame("failures", [*parts, parts[0]])
    assert digest(frame) == digest(from_rows("failures", rows)) and frame.height == 6


def test_the_digest_sees_every_change() -> None:
    rows = [failure("a", "m"), failure("b", "m")]
    known = {digest(from_rows("failures", rows))}
    for name in schema_of("failures").names:
        value = getattr(rows[1], name)
        changed = dataclasses.replace(rows[1], **{name: value + 1 if isinstance(value, int) else value + "x"})
        known.add(digest(from_rows("failures", [rows[0], changed])))
    known.add(digest(from_rows("failures", rows[:1])))
    assert len(known) == 1 + len(schema_of("failures").names) + 1


def test_of_two_rows_with_one_key_the_first_is_kept() -> None:
    raw = records.RawAnswer("k", "m", "first", "stop", 1, 0, 1, 5, 1)
    later = dataclasses.replace(raw, text="second", usd_micros=7)
    parts = [tables.to_arrow("raw_answers", [raw]), tables.to_arrow("raw_answers", [later])]
    assert to_records("raw_answers", tables.to_frame("raw_answers", parts)) == [raw]
    ranked = [part.append_column("_unit", pa.array([rank], pa.int32())) for rank, part in zip((5, 3), parts, strict=True)]
    assert to_records("raw_answers", tables.to_frame("raw_answers", ranked)) == [later], "the first in the order beyond the key"


@given(st.integers(1, 7))
def test_the_digest_of_a_table_in_pieces_is_that_of_the_whole(size: int) -> None:
    frame = from_rows("failures", [failure(f"cell-{number}", "m") for number in range(6)])
    assert tables.digest_of(frame.iter_slices(size)) == digest(frame)


def test_a_null_where_none_is_allowed_is_refused() -> None:
    with pytest.raises(ValueError, match="table summaries: system may not be null"):
        from_rows("summaries", [dataclasses.replace(summary("c"), system=None)])  # type: ignore[arg-type]


def summary(cell_id: str, *bullets: str) -> records.Summary:
    return records.Summary(cell_id, "h", "s", "sys", "bm25", "given", "m", 0, "ctx", "key", bullets)


def test_a_ten_megabyte_line_is_a_value() -> None:
    text = random.Random(3).randbytes(5_000_000).hex()
    assert to_records("summaries", from_rows("summaries", [summary("c", text)])) == [summary("c", text)]
