"""Runs in a bucket of a real S3 server have the same tables as in a folder, with concurrent commits and lost replies."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from fault_proxy import Fault, FaultProxy
from run_rows import TABLES, batches, commit, done, lost, new_run
from s3_servers import Bucket, s3_bucket, s3_server

from summhay_ray.store import Store, Superseded

pytestmark = pytest.mark.s3
__all__ = ["s3_bucket", "s3_server"]

CELLS = [f"c{number}" for number in range(12)]


def expected(tmp_path: Path, cells: Sequence[str] = CELLS) -> dict[str, dict[str, object]]:
    run = new_run(tmp_path)
    commit(run, [done(cell) for cell in cells])
    return run.digests()


def test_a_run_in_a_bucket_has_the_tables_of_one_in_a_folder(tmp_path: Path, s3_bucket: Bucket) -> None:
    with FaultProxy(s3_bucket.server.url) as proxy:
        run = Store(s3_bucket.uri(url=proxy.url)).create_run("run", {"kind": "mine"}, TABLES)
        committer = run.committer(1)
        for cell in CELLS:
            committer.add([run.write("item", [lost(cell)]), run.write("item", [done(cell)])])
            committer.compact()
        assert run.digests() == expected(tmp_path)
        committer.finish()
        before = proxy.count("GET")
        assert run.digests() == expected(tmp_path)
        assert proxy.count("GET") - before == 2 + 1 + 6, "the listing, the manifest, the units and the tables"
    assert Store(s3_bucket.uri()).run_ids() == ["run"]


def test_lost_answers_and_slow_downs_double_nothing(tmp_path: Path, s3_bucket: Bucket) -> None:
    with FaultProxy(s3_bucket.server.url) as proxy:
        proxy.add(Fault("503", share=0.1))
        proxy.add(Fault("lose", method="PUT", share=0.2))
        run = Store(s3_bucket.uri(url=proxy.url)).create_run("run", {"kind": "mine"}, TABLES)
        committer = run.committer(1)
        for cells in batches(CELLS, 2):
            committer.add([run.write("item", [done(cell) for cell in cells])])
        committer.compact()
    run = Store(s3_bucket.uri()).run("run")
    assert (run.manifest().added, sum(parts.units.rows for parts in run.manifest().parts)) == (6, 12)
    assert run.digests() == expected(tmp_path)


@pytest.mark.soak
def test_of_32_that_commit_at_once_every_commit_is_there_once(tmp_path: Path, s3_bucket: Bucket) -> None:
    Store(s3_bucket.uri()).create_run("run", {"kind": "mine"}, TABLES)
    cells = [f"c{number}" for number in range(20)]
    start, failed = threading.Barrier(32), []

    def work(who: int) -> None:
        run = Store(s3_bucket.uri()).run("run")
        start.wait()
        try:
            commit(run, [done(cells[who]) if who < len(cells) else lost(cells[who - len(cells)])])
        except BaseException as error:
            failed.append(error)
            raise

    threads = [threading.Thread(target=work, args=(who,)) for who in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    run = Store(s3_bucket.uri()).run("run")
    assert not failed and (run.version(), run.manifest().added, len(run.manifest().parts)) == (32, 32, 32)
    assert run.digests() == expected(tmp_path, cells)


def test_a_driver_elsewhere_that_was_superseded_stops(s3_bucket: Bucket) -> None:
    run = Store(s3_bucket.uri()).create_run("run", {"kind": "mine"}, TABLES)
    first = run.committer(1)
    Store(s3_bucket.uri()).run("run").committer(2)
    with pytest.raises(Superseded, match="another driver took the run over"):
        first.add([run.write("item", [done("a")])])
