"""Tables as plain files: any tool reads the run's rows, and nobody ever sees half a table."""

from __future__ import annotations

import csv
import json
import os
import resource
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_httpfs
import polars as pl
import pyarrow.fs
import pyarrow.parquet as pq
import pytest
from run_rows import NAMES, TABLES, commit, done, lost, new_run
from s3_servers import CREDENTIALS, SECRET, Bucket, s3_bucket, s3_server

from summhay_ray.llm import RawAnswer
from summhay_ray.store import Finished, RunStore, Store, open_files, write_tables
from summhay_ray.text import unquoted

__all__ = ["s3_bucket", "s3_server"]

KEY = CREDENTIALS["AWS_ACCESS_KEY_ID"]
CELLS = [f"c{number:02d}" for number in range(20)]


def ended_run(root: Path | str) -> RunStore:
    """A run with twenty summaries and one failure, with its tables published."""
    run = Store(str(root)).create_run("run", {"kind": "mine"}, TABLES)
    commit(run, [*(done(cell, "Größe ") for cell in reversed(CELLS)), lost("late")])
    run.end()
    return run


def rows_of(table: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.to_pylist()
    return found


def test_any_tool_opens_the_tables_of_a_folder(tmp_path: Path) -> None:
    # Importing takes seconds, which collecting the tests should not take.
    import datasets
    import pyarrow.dataset as ds

    run = ended_run(tmp_path)
    for name in NAMES:
        expected, folder = run.table(name), tmp_path / "runs" / "run" / "tables" / name
        assert len(list(folder.iterdir())) == 1
        assert pl.scan_parquet(folder / "*.parquet").collect().equals(expected)
        assert rows_of(ds.dataset(folder, format="parquet").to_table()) == expected.to_dicts()
        assert rows_of(duckdb.sql(f"select * from '{folder}/*.parquet'").to_arrow_table()) == expected.to_dicts()
        if expected.height:
            files = str(folder / "*.parquet")
            loaded = datasets.load_dataset("parquet", data_files=files, split="train", cache_dir=str(tmp_path / "cache"))
            assert loaded.to_list() == expected.to_dicts()


@pytest.mark.s3
def test_any_tool_opens_the_tables_of_a_bucket(s3_bucket: Bucket) -> None:
    import pyarrow.dataset as ds

    run = ended_run(s3_bucket.uri())
    host = s3_bucket.server.url.removeprefix("http://")
    place = run.store.files.where("runs/run/tables/summaries").split()[0]
    expected = run.table("summaries")
    options = {"aws_endpoint_url": s3_bucket.server.url, "aws_region": "us-east-1", "aws_allow_http": "true"}
    keys = {"aws_access_key_id": KEY, "aws_secret_access_key": SECRET}
    assert pl.scan_parquet(f"{place}/*.parquet", storage_options={**options, **keys}).collect().equals(expected)
    bucket = pyarrow.fs.S3FileSystem(access_key=KEY, secret_key=SECRET, endpoint_override=host, scheme="http", region="us-east-1")
    found = ds.dataset(place.removeprefix("s3://"), filesystem=bucket, format="parquet").to_table()
    assert rows_of(found) == expected.to_dicts()
    with duckdb.connect() as database:
        load_httpfs(database)
        secret = f"type s3, key_id '{KEY}', secret '{SECRET}', endpoint '{host}', use_ssl false, url_style 'path'"
        database.execute(f"create secret ({secret}, region 'us-east-1')")
        assert rows_of(database.sql(f"select * from '{place}/*.parquet'").to_arrow_table()) == expected.to_dicts()


def load_httpfs(database: duckdb.DuckDBPyConnection) -> None:
    """Load DuckDB's S3 reader from its package."""
    files = list(Path(next(iter(duckdb_extension_httpfs.__path__))).rglob("httpfs.duckdb_extension*"))
    assert files
    database.execute(f"load '{files[0]}'")


def test_a_file_says_what_its_columns_mean_and_is_sorted(tmp_path: Path) -> None:
    run = ended_run(tmp_path)
    for columns in run.declared.values():
        [path] = (tmp_path / "runs" / "run" / "tables" / columns.table).iterdir()
        file = pq.ParquetFile(path)
        meanings = {field.name: field.metadata[b"meaning"].decode() for field in file.schema_arrow}
        assert meanings == {one["name"]: one["meaning"] for one in columns.to_json()["columns"]}
        assert all(meanings.values())
        keys = [tuple(row[name] for name in columns.key) for row in file.read().to_pylist()]
        assert keys == sorted(set(keys))
        assert json.loads(file.schema_arrow.metadata[b"primary_key"]) == list(columns.key)


def test_what_is_open_stays_and_what_is_opened_later_is_new(tmp_path: Path) -> None:
    run = ended_run(tmp_path)
    folder = tmp_path / "runs" / "run" / "tables" / "summaries"
    with next(folder.iterdir()).open("rb") as stream:
        before = pq.ParquetFile(stream)
        commit(run, [done("later")])
        run.end()
        assert before.read().num_rows == len(CELLS)
    assert pq.read_table(folder).num_rows == len(CELLS) + 1


def test_what_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    commit(run, [done("c1"), done("c2")])
    (tmp_path / "runs" / "run" / "tables").mkdir()
    (tmp_path / "runs" / "run" / "tables" / "summaries").write_text("a file stands where the folder is to be")
    with pytest.raises(OSError, match="runs/run/tables/"):
        run.end()
    (tmp_path / "runs" / "run" / "tables" / "summaries").unlink()
    run.end()
    assert pq.read_table(tmp_path / "runs" / "run" / "tables" / "summaries").num_rows == 2


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
def test_a_disk_that_is_full_is_named(tmp_path: Path, kind: Any) -> None:
    run, before = new_run(tmp_path / "store"), resource.getrlimit(resource.RLIMIT_FSIZE)
    commit(run, [done("c1", os.urandom(30_000).hex())])
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        with pytest.raises(OSError, match="File too large") as full:
            write_tables(run, open_files(str(tmp_path / "out")), kind=kind)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert full.value.filename == str(tmp_path / "out" / "summaries")
    assert list((tmp_path / "out" / "summaries").iterdir()) == []


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_tables_are_written_as_text(tmp_path: Path, kind: Any) -> None:
    run = new_run(tmp_path / "store")
    commit(run, [done("c1", 'a, "b"\n'), lost("c2")])
    written = write_tables(run, open_files(str(tmp_path / "out")), kind=kind)
    assert list(written) == NAMES
    text = (tmp_path / "out" / written["summaries"]).read_text(encoding="utf-8")
    expected = run.table("summaries").to_dicts()
    if kind == "jsonl":
        assert [json.loads(line) for line in text.splitlines()] == expected
    else:
        told = list(csv.DictReader(text.splitlines(keepends=True)))
        assert [{**row, "bullets": json.loads(row["bullets"])} for row in told] == [as_text(row) for row in expected]
        empty = (tmp_path / "out" / written["scores"]).read_text().splitlines()
        assert empty == [",".join(run.table("scores").columns)]


def test_no_cell_of_a_csv_is_a_formula_and_all_is_read_back(tmp_path: Path) -> None:
    run = new_run(tmp_path / "store")
    texts = ["=cmd|' /C calc'!A0", "+1", "\n=1", "'=1", "it's", ""]
    commit(
        run,
        [Finished("c1", {"raw_answers": [RawAnswer(f"k{n}", "m", text, "stop", 1, 0, 1, 1, 1) for n, text in enumerate(texts)]})],
    )
    written = write_tables(run, open_files(str(tmp_path / "out")), kind="csv")
    with (tmp_path / "out" / written["raw_answers"]).open(encoding="utf-8", newline="") as file:
        told = [row["text"] for row in csv.DictReader(file)]
    assert told == ["'=cmd|' /C calc'!A0", "'+1", "'\n=1", "''=1", "it's", ""] and [unquoted(one) for one in told] == texts


def as_text(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as in CSV: except for lists, every value is text."""
    return {name: value if isinstance(value, list) else str(value) for name, value in row.items()}
