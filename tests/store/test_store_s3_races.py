"""If several writers write one name, exactly one wins and knows it: in a folder, on S3, and through a network that loses
replies."""

from __future__ import annotations

import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest
from fault_proxy import Fault, FaultProxy
from s3_servers import Bucket, running, s3_bucket, s3_server

from summhay_ray.store import Files, StoreError, open_files
from summhay_ray.store.names import parse_place
from summhay_ray.store.s3 import S3Files

__all__ = ["s3_bucket", "s3_server"]
pytestmark = pytest.mark.s3

PROCESSES, THREADS = 2, 16


@pytest.fixture(params=[4, pytest.param(100, marks=pytest.mark.soak)], ids="{} rounds".format)
def rounds(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def race(uri: str, rounds: int, first: int, together: Barrier, results: str) -> None:
    """16 of the 32 writers: in each round all write one name; `results` gets "round winner" lines."""
    files, start = open_files(uri), threading.Barrier(THREADS, action=together.wait)

    def one(racer: int) -> list[str]:
        won = []
        for number in range(rounds):
            start.wait(timeout=120)
            if files.create(f"prizes/{number:03d}", f"{racer:02d}".encode() * 100):
                won.append(f"{number} {racer}")
        return won

    with ThreadPoolExecutor(THREADS) as pool:
        lines = [line for won in pool.map(one, range(first, first + THREADS)) for line in won]
    Path(results, str(first)).write_text("\n".join(lines))


def winners(uri: str, rounds: int, results: Path) -> dict[int, list[int]]:
    """The writers that report in each round that they won."""
    results.mkdir()
    spawn = multiprocessing.get_context("spawn")
    together = spawn.Barrier(PROCESSES)
    firsts = [THREADS * number for number in range(PROCESSES)]
    racers = [spawn.Process(target=race, args=(uri, rounds, first, together, str(results))) for first in firsts]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert [racer.exitcode for racer in racers] == [0] * PROCESSES
    won: dict[int, list[int]] = {number: [] for number in range(rounds)}
    for line in "\n".join(path.read_text() for path in results.iterdir()).split("\n"):
        if line:
            number, racer_number = map(int, line.split())
            won[number].append(racer_number)
    return won


def prove_one_winner(files: Files, won: dict[int, list[int]]) -> None:
    assert {number: len(racers) for number, racers in won.items()} == dict.fromkeys(won, 1)
    assert list(files.names("prizes")) == [f"prizes/{number:03d}" for number in won]
    for number, racers in won.items():
        assert files.read(f"prizes/{number:03d}") == f"{racers[0]:02d}".encode() * 100


@pytest.mark.soak
def test_of_32_writers_one_wins_each_round_in_a_folder(tmp_path: Path, rounds: int) -> None:
    uri = str(tmp_path / "store")
    prove_one_winner(open_files(uri), winners(uri, rounds, tmp_path / "results"))


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["moto", "ministack"])
def test_of_32_writers_one_wins_each_round_on_s3(s3_server: object, kind: str, tmp_path: Path, rounds: int) -> None:
    server = running(kind)
    uri = server.uri(server.bucket())
    prove_one_winner(open_files(uri), winners(uri, rounds, tmp_path / "results"))


@pytest.mark.soak
def test_of_32_writers_one_wins_each_round_through_faults(s3_bucket: Bucket, tmp_path: Path, rounds: int) -> None:
    with FaultProxy(s3_bucket.server.url) as proxy:
        lost = proxy.add(Fault("lose", share=0.1, method="PUT"))
        dropped = proxy.add(Fault("drop", share=0.05))
        slowed = proxy.add(Fault("503", share=0.05))
        won = winners(s3_bucket.uri(url=proxy.url), rounds, tmp_path / "results")
    prove_one_winner(open_files(s3_bucket.uri()), won)
    assert min(lost.struck, dropped.struck, slowed.struck) > rounds // 2


def test_a_lost_answer_is_known_for_our_own(s3_bucket: Bucket) -> None:
    with FaultProxy(s3_bucket.server.url) as proxy:
        files = open_files(s3_bucket.uri(url=proxy.url))
        lost = proxy.add(Fault("lose", method="PUT", times=3))
        assert files.create("a", b"mine") is True
        assert lost.struck == 3 and [seen.status for seen in proxy.requests if seen.method == "PUT"] == [0, 0, 0, 412]
        assert files.create("a", b"other") is False
    assert open_files(s3_bucket.uri()).read("a") == b"mine"


def test_a_name_that_looks_free_after_all_is_tried_again(s3_bucket: Bucket) -> None:
    plain = s3_bucket.server.client()
    plain.put_object(Bucket=s3_bucket.name, Key="store/a", Body=b"old")
    with FaultProxy(s3_bucket.server.url) as proxy:
        proxy.add(Fault("refuse", method="GET", times=1, status=404, code="NoSuchKey"))
        files = open_files(s3_bucket.uri(url=proxy.url))
        assert files.create("a", b"new") is False
        assert [seen.method for seen in proxy.requests] == ["PUT", "GET", "PUT", "GET"]


def test_a_name_that_is_taken_and_missing_is_reported(s3_bucket: Bucket) -> None:
    open_files(s3_bucket.uri()).create("a", b"1")
    with FaultProxy(s3_bucket.server.url) as proxy:
        proxy.add(Fault("refuse", method="GET", status=404, code="NoSuchKey"))
        with pytest.raises(StoreError, match="store/a .* is both taken and missing"):
            S3Files(parse_place(s3_bucket.uri(url=proxy.url)), patience_s=1.0).create("a", b"2")
        assert proxy.count() < 20
