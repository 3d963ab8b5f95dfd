"""Tables as plain files: any tool reads what the run has, and nobody ever sees half a table."""

from __future__ import annotations

import csv
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import datasets
import duckdb
import duckdb_extension_httpfs
import polars as pl
import pyarrow.dataset as ds
import pyarrow.fs
import pyarrow.parquet as pq
import pytest
from run_rows import NAMES, TABLES, commit, done, lost, new_run, watched_run
from s3_servers import CREDENTIALS, SECRET, Bucket, s3_bucket, s3_server

from summhay_ray.llm import RawAnswer
from summhay_ray.records import Judgment
from summhay_ray.store import (
    Damaged,
    Finished,
    RunStore,
    Store,
    lost_tables,
    open_files,
    publish,
    s3,
    table_digests,
    write_tables,
)
from summhay_ray.text import unquoted

__all__ = ["s3_bucket", "s3_server"]

KEY = CREDENTIALS["AWS_ACCESS_KEY_ID"]
CELLS = [f"c{number:02d}" for number in range(20)]


def ended_run(root: Path | str) -> RunStore:
    """A run with twenty summaries and one failure, its tables published."""
    run = Store(str(root)).create_run("run", {"kind": "mine"}, TABLES)
    commit(run, [*(done(cell, "Größe ") for cell in reversed(CELLS)), lost("late")])
    publish(run)
    return run


def rows_of(table: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.to_pylist()
    return found


def test_any_tool_opens_the_tables_of_a_folder(tmp_path: Path) -> None:
    run = ended_run(tmp_path)
    for name in NAMES:
        expected, folder = run.table(name), tmp_path / "runs" / "run" / "tables" / name
        assert [file.name for file in folder.iterdir()] == ["part-0.parquet"]
        assert pl.scan_parquet(folder / "*.parquet").collect().equals(expected)
        assert rows_of(ds.dataset(folder, format="parquet").to_table()) == expected.to_dicts()
        assert rows_of(duckdb.sql(f"select * from '{folder}/*.parquet'").to_arrow_table()) == expected.to_dicts()
        if expected.height:
            files = str(folder / "*.parquet")
            loaded = datasets.load_dataset("parquet", data_files=files, split="train", cache_dir=str(tmp_path / "cache"))
            assert loaded.to_list() == expected.to_dicts()


@pytest.mark.s3
def test_any_tool_opens_the_tables_of_a_bucket(s3_bucket: Bucket) -> None:
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
    """Load DuckDB's S3 reader from the package that brings it."""
    files = list(Path(next(iter(duckdb_extension_httpfs.__path__))).rglob("httpfs.duckdb_extension*"))
    assert files
    database.execute(f"load '{files[0]}'")


def test_a_file_says_what_its_columns_mean_and_is_sorted(tmp_path: Path) -> None:
    run = ended_run(tmp_path)
    for columns in run.declared.values():
        file = pq.ParquetFile(tmp_path / "runs" / "run" / "tables" / columns.table / "part-0.parquet")
        meanings = {field.name: field.metadata[b"meaning"].decode() for field in file.schema_arrow}
        assert meanings == {one["name"]: one["meaning"] for one in columns.described()}
        assert all(meanings.values())
        keys = [tuple(row[name] for name in columns.key) for row in file.read().to_pylist()]
        assert keys == sorted(set(keys))
        assert json.loads(file.schema_arrow.metadata[b"primary_key"]) == list(columns.key)


def test_what_is_open_stays_and_what_is_opened_later_is_new(tmp_path: Path) -> None:
    run = ended_run(tmp_path)
    path = tmp_path / "runs" / "run" / "tables" / "summaries" / "part-0.parquet"
    with path.open("rb") as stream:
        before = pq.ParquetFile(stream)
        commit(run, [done("later")])
        publish(run)
        assert before.read().num_rows == len(CELLS)
    assert pq.read_table(path).num_rows == len(CELLS) + 1


def test_what_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    run = ended_run(tmp_path)
    commit(run, [done("later")])
    shutil.rmtree(tmp_path / "runs" / "run" / "tables")
    (tmp_path / "runs" / "run" / "tables").write_text("a file stands where the folder is to be")
    with pytest.raises(NotADirectoryError, match="runs/run/tables/"):
        publish(run)


def test_pieces_end_where_a_key_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Store(str(tmp_path)).create_run("run", {"kind": "mine"}, TABLES)
    judged = {
        cell: [Judgment(cell, "j", f"i{place}", place, "k", "NO_COVERAGE", '"NA"') for place in range(n)]
        for cell, n in (("a", 2), ("b", 7), ("c", 1), ("d", 2))
    }
    commit(run, [Finished(cell, {"judgments": rows}) for cell, rows in judged.items()])
    whole, write = run.table("judgments"), pq.ParquetWriter.write_table
    monkeypatch.setattr(pq.ParquetWriter, "write_table", lambda self, table, **_: write(self, table, row_group_size=3))
    publish(run)
    pieces = list(run.pieces("judgments"))
    assert pl.concat(pieces).equals(whole)
    assert [piece["cell_id"].unique().sort().to_list() for piece in pieces] == [["a"], ["b", "c"], ["d"]]


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


def test_nothing_is_written_where_nothing_came(tmp_path: Path) -> None:
    ended_run(tmp_path)
    run, files = watched_run(tmp_path)
    files.stop_at = 0
    publish(run)
    record = tmp_path / "runs" / "run" / "tables.json"
    whole = record.read_text()
    for damaged in ("[]", whole.replace('"rows"', '"rowz"', 1)):
        record.write_text(damaged)
        assert table_digests(run) == run.digests()
        files.stop_at = -1
        publish(run)
        assert record.read_text() == whole and json.loads(whole)["digests"] == run.digests()


def test_digests_are_those_that_were_kept_until_the_rows_are_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = ended_run(tmp_path)
    publish(run)
    counted = run.digests()
    with monkeypatch.context() as patch:
        patch.setattr(RunStore, "digests", lambda _: pytest.fail("every row was read"))
        assert table_digests(run) == counted
    commit(run, [done("later")])
    assert table_digests(run) == run.digests() != counted
    publish(run)
    block = run.manifest().blocks[-1]
    (tmp_path / block.name).unlink()
    with pytest.raises(Damaged, match="is (damaged|gone)"):
        table_digests(run)
    rest, (problem,) = run.without_damaged()
    assert block.name in problem and table_digests(rest) == rest.digests() == counted


def test_pieces_are_those_of_the_published_file_while_it_is_as_it_was_written(tmp_path: Path) -> None:
    run = ended_run(tmp_path)
    expected = {name: run.table(name) for name in NAMES}
    blocks = {tmp_path / block.name: (tmp_path / block.name).read_bytes() for block in run.manifest().blocks}
    for path in blocks:
        path.unlink()
    for name in NAMES:
        assert pl.concat(run.pieces(name)).equals(expected[name])
    assert pl.concat(run.pieces("summaries", ["system"])).equals(expected["summaries"].select("cell_id", "system"))
    written = tmp_path / "runs" / "run" / "tables" / "summaries" / "part-0.parquet"
    written.write_bytes(written.read_bytes()[:-1] + b"?")
    with pytest.raises(Damaged):
        list(run.pieces("summaries"))
    for path, content in blocks.items():
        path.write_bytes(content)
    assert pl.concat(run.pieces("summaries")).equals(expected["summaries"])


def test_pieces_of_a_run_that_went_on_are_those_of_its_blocks(tmp_path: Path) -> None:
    run = ended_run(tmp_path)
    commit(run, [done("later")])
    assert "later" in pl.concat(run.pieces("summaries"))["cell_id"]


def test_a_table_that_was_deleted_or_changed_is_told_and_written_again(tmp_path: Path) -> None:
    run = ended_run(tmp_path)
    summaries, scores = (tmp_path / "runs" / "run" / "tables" / name / "part-0.parquet" for name in ("summaries", "scores"))
    before = summaries.read_bytes()
    assert lost_tables(run) == []
    summaries.unlink()
    scores.write_bytes(scores.read_bytes()[:-1] + b"?")
    gone, damaged = sorted(lost_tables(run), key=lambda line: "damaged" in line)
    assert gone.startswith(f"{summaries} is gone; ") and damaged.startswith(f"{scores} is damaged; delete it, then run ")
    publish(run)
    assert summaries.read_bytes() == before and lost_tables(run) == []
    commit(run, [done("later")])
    (line,) = lost_tables(run)
    assert line.startswith(f"{tmp_path}/runs/run/tables does not hold the run's current tables; ")


PUBLISHER = """
import sys
from run_rows import commit, done
from summhay_ray.store import Store, publish
run = Store(sys.argv[1]).run("run")
number = 0
while True:
    print("begins", flush=True)
    commit(run, [done(f"{sys.argv[2]}-{number}-{cell}") for cell in range(300)])
    publish(run)
    number += 1
"""


def test_a_kill_leaves_no_half_table(tmp_path: Path) -> None:
    new_run(tmp_path)
    folder = tmp_path / "runs" / "run" / "tables"
    code = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    heights = []
    for attempt in range(3):
        process = subprocess.Popen(
            [sys.executable, "-c", PUBLISHER, str(tmp_path), str(attempt)], env=code, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        for _ in range(attempt + 2):
            process.stdout.readline()
        ends = time.monotonic() + 0.013 * attempt
        while True:
            seen = {name: pl.read_parquet(folder / name / "*.parquet").height for name in NAMES if (folder / name).exists()}
            if time.monotonic() > ends:
                break
        process.send_signal(signal.SIGKILL)
        process.wait()
        heights.append(seen.get("summaries", 0))
        assert all(height % 300 == 0 for height in heights)
        assert heights == sorted(heights)
    assert heights[-1] > 0
    run = Store(str(tmp_path)).run("run")
    publish(run)
    assert pl.read_parquet(folder / "summaries" / "*.parquet").equals(run.table("summaries"))


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
    """A row as CSV has it: lists apart, everything is text."""
    return {name: value if isinstance(value, list) else str(value) for name, value in row.items()}


@pytest.mark.s3
def test_a_large_table_is_uploaded_in_parts(s3_bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3, "PART_BYTES", 5 << 20)
    run = Store(s3_bucket.uri()).create_run("run", {"kind": "mine"}, TABLES)
    texts = [os.urandom(4 << 20).hex() for _ in range(2)]
    answers = [RawAnswer(f"key-{number}", "m", text, "stop", 1, 0, 1, 1, 1) for number, text in enumerate(texts)]
    commit(run, [Finished("c1", {"raw_answers": answers})])
    publish(run)
    content = run.store.files.read("runs/run/tables/raw_answers/part-0.parquet")
    assert len(content) > 2 * s3.PART_BYTES * 0.8
    assert pq.read_table(pyarrow.BufferReader(content))["text"].to_pylist() == texts
