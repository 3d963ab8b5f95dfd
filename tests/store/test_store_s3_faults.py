"""Faults of networks and busy services are retried for a limited time; then there is one clear line."""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from fault_proxy import Fault, FaultProxy, Kind
from s3_servers import Bucket, s3_bucket, s3_server, serving, soaked

from summhay_ray.store import open_files
from summhay_ray.store.names import StoreUnavailable, parse_place
from summhay_ray.store.s3 import S3Files

__all__ = ["s3_bucket", "s3_server"]
pytestmark = pytest.mark.s3


@pytest.mark.parametrize("kind", ["lose", *soaked("503", "500", "drop")])
def test_of_requests_that_fail_in_30_of_100_none_is_lost(s3_bucket: Bucket, kind: Kind) -> None:
    with FaultProxy(s3_bucket.server.url) as proxy:
        files, fault = open_files(s3_bucket.uri(url=proxy.url)), proxy.add(Fault(kind, share=0.3))

        def one(number: int) -> bool:
            name, content = f"n/{number:03d}", str(number).encode()
            return files.create(name, content) and files.read(name) == content and files.exists(name)

        with ThreadPoolExecutor(32) as pool:
            assert all(pool.map(one, range(40)))
        assert list(files.names("n")) == [f"n/{number:03d}" for number in range(40)]
        # 120 requests succeed, each after 0.3 / 0.7 failures on average: about 51.
        assert 20 < fault.struck < 110


@pytest.mark.parametrize("kind", ["503", *soaked("500", "drop", "lose")])
def test_a_check_tries_again(s3_bucket: Bucket, kind: Kind) -> None:
    with FaultProxy(s3_bucket.server.url) as proxy:
        fault = proxy.add(Fault(kind, times=3))
        open_files(s3_bucket.uri(url=proxy.url)).check()
        assert fault.struck == 3


def test_a_first_request_waits_as_long_as_any_once_another_was_answered(
    s3_bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("summhay_ray.store.s3.FIRST_S", 3.0)
    with FaultProxy(s3_bucket.server.url) as proxy, ThreadPoolExecutor(1) as pool:
        files, fault = open_files(s3_bucket.uri(url=proxy.url)), proxy.add(Fault("500", times=6, key="unlucky"))
        assert files.uri, "the client is made, so that what follows takes no time"
        unlucky = pool.submit(files.create, "unlucky", b"1")
        while not fault.struck:
            time.sleep(0.01)
        assert files.create("lucky", b"1") is True
        # Six pauses take at least 3.15 s: longer than the wait for a service that has never answered.
        assert unlucky.result() is True
        assert fault.struck == 6


def test_a_slow_answer_is_waited_for(s3_bucket: Bucket) -> None:
    with FaultProxy(s3_bucket.server.url) as proxy:
        files = open_files(s3_bucket.uri(url=proxy.url))
        proxy.add(Fault("delay", seconds=1.0, times=1))
        assert files.create("a", b"1") is True
        assert len(proxy.requests) == 1


def test_an_answer_that_does_not_come_is_asked_for_again(s3_bucket: Bucket) -> None:
    with FaultProxy(s3_bucket.server.url) as proxy:
        files = S3Files(parse_place(s3_bucket.uri(url=proxy.url)), patience_s=20.0, answer_s=0.5)
        proxy.add(Fault("delay", seconds=2.0, times=1, method="PUT"))
        assert files.create("a", b"1") is True
        time.sleep(2.0)
        assert files.read("a") == b"1"


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("503", "answers SlowDown (HTTP 503), tried for "),
        ("500", "answers InternalError (HTTP 500), tried for "),
        ("drop", "breaks the connection off"),
    ],
)
def test_after_its_time_it_gives_up_in_one_line(s3_bucket: Bucket, kind: Kind, said: str) -> None:
    with FaultProxy(s3_bucket.server.url) as proxy:
        files = S3Files(parse_place(s3_bucket.uri(url=proxy.url)), patience_s=3.0)
        assert not files.exists("a")
        proxy.add(Fault(kind))
        began = time.monotonic()
        with pytest.raises(StoreUnavailable, match=re.escape(said)) as gone:
            files.create("a", b"1")
        assert time.monotonic() - began < 60.0
        assert gone.value.exit_code == 1 and "\n" not in str(gone.value)
        assert str(gone.value).startswith(f"store s3://{s3_bucket.name}/store: http://127.0.0.1:")
        assert str(gone.value).endswith(
            " s; check endpoint_url and whether the service is up, then run again: nothing that is paid for is lost"
        )
        assert 1 < len(proxy.requests) < 16


def test_a_service_that_comes_back_is_found_again(s3_bucket: Bucket) -> None:
    with FaultProxy(s3_bucket.server.url) as proxy:
        files = open_files(s3_bucket.uri(url=proxy.url))
        with ThreadPoolExecutor(8) as pool:
            with proxy.during(Fault("drop")):
                pending = [pool.submit(files.create, f"n/{number}", b"x") for number in range(8)]
                time.sleep(1.5)
                assert not any(one.done() for one in pending)
            assert all(one.result(timeout=60) for one in pending)


def test_a_killed_server_is_reported(s3_server: object) -> None:
    with serving("moto") as server:
        files = S3Files(parse_place(server.uri(server.bucket())), patience_s=1.0)
        assert files.create("a", b"1")
        server.process.kill()
        server.process.wait()
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            files.read("a")


def test_a_body_that_breaks_off_is_read_again(s3_bucket: Bucket) -> None:
    content = bytes(range(256)) * 40_000
    with FaultProxy(s3_bucket.server.url) as proxy:
        files = open_files(s3_bucket.uri(url=proxy.url))
        files.create("a", content)
        cut = proxy.add(Fault("cut", method="GET", times=2))
        assert files.read("a") == content and files.read("a", 1000, 5_000_000) == content[1000:5_001_000]
        assert cut.struck == 2


@pytest.mark.parametrize(
    ("status", "code"),
    [(409, "ConditionalRequestConflict"), *soaked((409, "OperationAborted"), (400, "RequestTimeout"), (429, ""))],
)
def test_conflicts_and_timeouts_are_tried_again(s3_bucket: Bucket, status: int, code: str) -> None:
    with FaultProxy(s3_bucket.server.url) as proxy:
        proxy.add(Fault("refuse", method="PUT", times=2, status=status, code=code))
        assert open_files(s3_bucket.uri(url=proxy.url)).create("a", b"1") is True
        assert [seen.status for seen in proxy.requests] == [status, status, 200]
