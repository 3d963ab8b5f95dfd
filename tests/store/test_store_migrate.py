"""`summhay migrate`: every answer of an old store's log is found by the runs of this version, whatever killed the migration."""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from runs import summhay, write_spec
from s3_servers import Bucket, s3_bucket, s3_server

from summhay_ray import cli
from summhay_ray.store import Chain, Files, Store, begin_session, open_files, with_hash

__all__ = ["s3_bucket", "s3_server"]

SUMMHAY = Path(sys.executable).with_name("summhay")
SPEC = {"haystacks": ["sample/news"], "retrievers": ["bm25"], "token_budget": 1500, "summarizers": ["offline/lead"]}


def line(record: Mapping[str, Any]) -> bytes:
    """A line of the old log."""
    body = json.dumps(record).encode("ascii")
    return b"%08x %d %s\n" % (zlib.crc32(body), len(body), body)


def answer(key: str) -> dict[str, Any]:
    counts = {"input_tokens": 1, "cached_tokens": 0, "output_tokens": 1, "usd_micros": 1}
    texts = {"text": "x" * 1000, "finish_reason": "stop", "attempts": 1}
    return {"kind": "answer", "call": f"call-{key}", "run": "r", "model": "m", "key": key, **counts, **texts}


def old_log(files: Files, records: Sequence[Mapping[str, Any]], spool: Path) -> None:
    """Write the records as an earlier version did: in a folder its writers' files; in a bucket a pack, segments and a spool."""
    intent = line({"kind": "intent", "call": "c", "run": "r", "key": "never answered", "usd_micros": 9})
    lines, again = [line(record) for record in records], line({**records[0], "text": "asked twice"})
    damaged = lines[1].replace(b'"key"', b'"kez"')
    if (folder := files.folder) is not None:
        (folder / "log").mkdir()
        # A damaged line break joins two records.
        joined = lines[2][:-1] + b"?" + lines[3]
        (folder / "log/00000001-inline-0-0.jsonl").write_bytes(intent + damaged + b"".join([*lines[:2], joined, *lines[4:]]))
        (folder / "log/00000002-inline-0-0.jsonl").write_bytes(again + lines[0][:20])
        return
    third = len(lines) // 3
    pack = b"".join(lines[:third])
    name = f"log/packs/{hashlib.sha256(pack).hexdigest()}.jsonl"
    files.create(name, pack)
    packs = [{"data": name, "size": len(pack), "index": ""}]
    Chain(files, "log/packs", dict, "").append(1, {"packs": packs, "through": 1, "others": []})
    mark = line({"kind": "segment", "n": 0, "allowance": [], "end": False})
    files.create("log/00000001-calling-0-0/00000000.jsonl", again + damaged + b"".join(lines[third : 2 * third]) + mark)
    place = spool / hashlib.sha256(files.uri.encode()).hexdigest()[:16] / "00000001-calling-0-0.token"
    place.mkdir(parents=True)
    (place / "lock").touch()
    (place / "00000001.jsonl").write_bytes(intent + b"".join(lines[2 * third :]) + lines[0][:20])


def age(uri: str, spool: Path) -> None:
    """Make an old store of one of this version: without its run, which an earlier version gave another id."""
    files, index = open_files(uri), Store(uri).log()
    records = [index.read(key) for key in sorted(index.answers)]
    for run in list(files.folders("runs")):
        for folder in (f"runs/{run}", *(f"runs/{run}/{name}" for name in files.folders(f"runs/{run}"))):
            for entry in list(files.entries(folder)):
                files.delete(entry.name)
    for entry in list(files.entries("answers")):
        files.delete(entry.name)
    old_log(files, [record for record in records if record is not None], spool)
    record = Chain(files, "drivers", dict, "").read(1)
    assert record is not None
    files.put("drivers/00000001.json", with_hash({**record, "seats": {"inline": 1}}))
    files.create("runs/r0123456789ab/run.json", with_hash({"kind": "summhay", "name": "old"}))
    files.create("runs/r0123456789ab/commits/00000001.json", with_hash({"driver": 1, "told": "", "added": 0, "blocks": []}))
    files.put("format.json", b'{"format": 2}')


@pytest.fixture(params=["folder", pytest.param("s3", marks=[pytest.mark.s3, pytest.mark.soak])])
def uri(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("SUMMHAY_SPOOL", str(tmp_path / "spool"))
    if request.param == "folder":
        return str(tmp_path / "store")
    bucket: Bucket = request.getfixturevalue("s3_bucket")
    return bucket.uri()


def test_a_run_finds_every_answer_of_an_old_store(uri: str, tmp_path: Path) -> None:
    spec, spool = write_spec(tmp_path, SPEC), tmp_path / "spool"
    first = summhay("run", spec, "--store", uri, "--executor", "inline")
    tables, n = summhay("status", first["run"], "--store", uri)["tables"], first["calls"]["made"]
    age(uri, spool)
    refused = subprocess.run([SUMMHAY, "status", "r", "--store", uri], capture_output=True, text=True, check=False)
    assert refused.returncode == 2 and f"summhay migrate {uri}" in refused.stderr.replace("'", "")
    done = summhay("migrate", uri)
    assert (done["migrated"], done["answers"], done["known"], done["damaged"]) == (True, n, 1, 1)
    again = summhay("run", spec, "--store", uri, "--executor", "inline")
    assert (again["calls"]["made"], again["calls"]["reused"]) == (0, n)
    assert summhay("status", again["run"], "--store", uri)["tables"] == tables
    # The old run is none any more.
    assert [run["run"] for run in summhay("runs", "--store", uri)["runs"]] == [again["run"]]
    summhay("doctor", "--store", uri)
    summhay("clean", "--store", uri, "--older-than", "0")
    assert not list(spool.rglob("*.jsonl"))
    assert summhay("migrate", uri) == {**done, "migrated": False, "answers": 0, "known": 0, "damaged": 0}


def test_what_lies_on_the_disk_of_another_machine_is_brought_from_there(s3_bucket: Bucket, tmp_path: Path) -> None:
    uri, spool = s3_bucket.uri(), tmp_path / "spool"
    with pytest.MonkeyPatch.context() as patch:
        old_log(open_files(uri), [answer(str(number)) for number in range(9)], spool)
        open_files(uri).put("format.json", b'{"format": 2}')
        patch.setenv("SUMMHAY_SPOOL", str(tmp_path / "of another machine"))
        assert summhay("migrate", uri)["answers"] == 6
        patch.setenv("SUMMHAY_SPOOL", str(spool))
        assert summhay("migrate", uri)["answers"] == 3
        assert not summhay("migrate", uri)["migrated"]
    assert len(Store(uri).log().answers) == 9


def test_a_killed_migration_goes_on_and_doubles_nothing(tmp_path: Path) -> None:
    store, n = tmp_path / "store", 15_000
    (store / "log").mkdir(parents=True)
    with (store / "log/00000001-inline-0-0.jsonl").open("wb") as stream:
        stream.writelines(line(answer(str(number))) for number in range(n))
    (store / "format.json").write_text('{"format": 2}')
    process = subprocess.Popen([SUMMHAY, "migrate", store], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not any(file.stat().st_size for file in store.glob("answers/*.jsonl")):
        assert process.poll() is None
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert json.loads((store / "format.json").read_text()) == {"format": 2}
    done = summhay("migrate", store)
    assert 0 < done["known"] < n and done["known"] + done["answers"] == n
    index = Store(str(store)).log()
    assert len(index.answers) == sum(tally.answers for tally in index.totals("r").values()) == n


def test_it_refuses_while_a_driver_is_at_work_and_a_store_that_it_cannot_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "store"
    session = begin_session(open_files(str(store)), "r", paying=False)
    record = json.loads((store / "drivers/00000001.json").read_text())
    record.pop("sha256")
    (store / "drivers/00000001.json").write_bytes(with_hash({**record, "seats": {"inline": 1}}))
    for number, said in ((2, session.record.where), (99, "upgrade")):
        (store / "format.json").write_text(json.dumps({"format": number}))
        assert said in refusal(store, capsys)
    shutil.rmtree(store)
    assert "no store" in refusal(store, capsys)


def test_an_old_store_that_has_lost_its_format_is_not_taken_for_a_new_one(tmp_path: Path) -> None:
    for folder in ("log", "drivers"):
        (tmp_path / folder).mkdir()
    with pytest.raises(Exception, match=f"summhay migrate {tmp_path}"):
        Store(str(tmp_path))


def refusal(store: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The one line of a migration that does not begin."""
    with pytest.raises(SystemExit) as stop:
        cli.main(["migrate", str(store)])
    said = capsys.readouterr()
    assert stop.value.code == 2 and said.out == "" and said.err.count("\n") == 1
    return said.err
