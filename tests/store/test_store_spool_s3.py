"""The response log in a bucket of a real S3 server: what networks and busy services do costs nothing and loses nothing."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from far_files import answer, intent
from fault_proxy import Fault, FaultProxy
from s3_servers import Bucket, s3_bucket, s3_server

from summhay_ray.store import Evicted, LogIndex, begin, open_files, open_log, pack, seal, sweep
from summhay_ray.store.spool import SpoolWriter
from summhay_ray.store.spool_folder import spool_of

pytestmark = pytest.mark.s3
__all__ = ["s3_bucket", "s3_server"]

SEATS = {"calling": 4}


@pytest.fixture(autouse=True)
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUMMHAY_SPOOL", str(tmp_path / "spool"))


def die(log: SpoolWriter) -> None:
    with log._changed:
        log._ended = True
        log._changed.notify_all()
    log._thread.join()


def write(uri: str, seat: str, n: int, *, killed: bool) -> None:
    log = open_log(open_files(uri), 1, seat)
    for number in range(n):
        log.append([intent(f"{seat}-{number}", 9)])
        log.append([answer(f"{seat}-{number}", 2, text="x" * 300)])
    if killed:
        assert isinstance(log, SpoolWriter)
        die(log)
    else:
        log.close()


def test_faults_and_deaths_lose_and_double_nothing(s3_bucket: Bucket) -> None:
    files = open_files(s3_bucket.uri())
    session, n = begin(files, "r", True, SEATS), 150
    with FaultProxy(s3_bucket.server.url) as proxy:
        proxy.add(Fault("lose", method="PUT", share=0.2))
        proxy.add(Fault("503", share=0.2))
        uri = s3_bucket.uri(url=proxy.url)
        threads = [
            threading.Thread(target=write, args=(uri, f"calling-{seat}", n), kwargs={"killed": seat % 2 == 1})
            for seat in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        # The killed are swept by the URI that they wrote to, and whoever gave up at its end, as it may on a busy machine.
        assert {"00000001-calling-1-0", "00000001-calling-3-0"} <= set(sweep(open_files(uri)))
        assert not list(spool_of(open_files(uri)).iterdir())
    index = LogIndex(files)
    index.refresh()
    assert (len(index.answers), index.spent("r"), index.damaged) == (4 * n, 4 * n * 2, 0)
    session.end("done")
    assert pack(files) == 1
    packed = LogIndex(files)
    packed.refresh()
    assert packed.tallies("r") == index.tallies("r")
    assert {key: packed.read(key) for key in list(index.answers)[::50]} == {
        key: index.read(key) for key in list(index.answers)[::50]
    }


def test_a_record_is_shipped_when_it_is_old_and_64_at_once(s3_bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    files = open_files(s3_bucket.uri())
    begin(files, "r", False, SEATS)
    log, index = open_log(files, 1, "calling-0"), LogIndex(files)
    log.append([answer("slow")])
    began = time.monotonic()
    while "slow" not in index.answers:
        assert time.monotonic() - began < 60.0
        index.refresh()
        time.sleep(0.02)
    monkeypatch.setattr("summhay_ray.store.spool.AGE_S", 3600.0)
    log.append([answer(f"a{number}") for number in range(64)])
    began = time.monotonic()
    while len(index.answers) < 65:
        assert time.monotonic() - began < 60.0
        index.refresh()
        time.sleep(0.02)
    log.close()


def test_a_zombie_in_a_bucket(s3_bucket: Bucket) -> None:
    files = open_files(s3_bucket.uri())
    begin(files, "r", False, SEATS)
    log = open_log(files, 1, "calling-0")
    log.append([intent("a", 9)])
    seal(files, log.writer)
    with pytest.raises(Evicted):
        log.append([intent(f"b{number}", 9) for number in range(40)])
    index = LogIndex(files)
    index.refresh()
    assert index.spent("r") == 9 + 32 * 9
