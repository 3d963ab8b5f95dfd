"""Sending a run whose store is a bucket: the haystacks go by way of the store, and no credentials of this machine go at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from big_haystacks import haystack as made_haystack
from inprocess import SAMPLE
from job_server import Server, server
from s3_servers import SECRET, Bucket, s3_bucket, s3_server
from synth_runs import SMALL

from summhay_ray import api
from summhay_ray.grid import Grid, JobError, JobOrder, load_grid, package, parse_spec, submit, submit_grid
from summhay_ray.grid.sources import store_entry
from summhay_ray.problems import Problem
from summhay_ray.store import NoCredentials, Store, StoreError

__all__ = ["s3_bucket", "s3_server", "server"]
pytestmark = pytest.mark.s3

URL = "http://head:8265"


def grid_of(folder: Path, number: int = 3) -> Grid:
    """A grid of so many small haystack files and a sample."""
    names = [f"topic{index}.json" for index in range(number)]
    for index, name in enumerate(names):
        raw = made_haystack(index, documents=4, words=30, subtopics=2, insights=2)
        (folder / name).write_text(json.dumps(raw, indent=1), encoding="utf-8")
    return load_grid(parse_spec({**SAMPLE, "haystacks": [*names, "sample/news"]}), folder)


def no_credentials(patch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        patch.delenv(name)


def test_haystacks_go_by_way_of_the_store(
    server: Server, s3_bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Larger than a job may be.
    monkeypatch.setattr(package, "MOST_BYTES", 100)
    grid, uri = grid_of(tmp_path), s3_bucket.uri()
    job = submit_grid(grid, tmp_path, JobOrder(uri), URL)
    assert (job.store, job.attached, job.notes) == (uri, False, ())
    assert list(server.files) == [package.SPEC]
    assert server.spec()["haystacks"] == [*map(store_entry, grid.sources[:3]), "sample/news"]
    # What a node does with it.
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / package.SPEC).write_bytes(server.files[package.SPEC])
    there = api.load(tmp_path / "there" / package.SPEC, store=uri)
    assert there.run_id == grid.run_id and there.sources == grid.sources
    assert SECRET not in json.dumps(server.sent) + server.files[package.SPEC].decode()

    keys = s3_bucket.keys()
    watched = submit_grid(grid, tmp_path, JobOrder(uri), URL)
    assert (watched.job, watched.attached, s3_bucket.keys()) == (job.job, True, keys)


def test_nothing_is_put_into_the_store_where_no_job_is_sent(
    server: Server, s3_bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody(url: str) -> list[str]:
        raise JobError("no job server answers there")

    monkeypatch.setattr(submit, "reach", nobody)
    with pytest.raises(JobError, match="no job server"):
        submit_grid(grid_of(tmp_path), tmp_path, JobOrder(s3_bucket.uri()), URL)
    assert s3_bucket.keys() == ["store/.summhay-check"]


def test_a_file_that_changes_meanwhile_is_refused(server: Server, s3_bucket: Bucket, tmp_path: Path) -> None:
    grid = grid_of(tmp_path)
    (tmp_path / "topic1.json").write_text((tmp_path / "topic0.json").read_text(), encoding="utf-8")
    with pytest.raises(Problem, match="topic1.json: was changed since it was read"):
        submit_grid(grid, tmp_path, JobOrder(s3_bucket.uri()), URL)
    assert server.sent == []


def test_without_credentials_here_the_files_go_with_the_job(
    server: Server, s3_bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_credentials(monkeypatch)
    grid = grid_of(tmp_path)
    job = submit_grid(grid, tmp_path, JobOrder(s3_bucket.uri()), URL)
    assert sorted(server.files) == [package.SPEC, "topic0.json", "topic1.json", "topic2.json"]
    assert "no credentials for the store here" in job.notes[0] and "none are sent" in job.notes[0]
    monkeypatch.setattr(package, "MOST_BYTES", 100)
    with pytest.raises(package.PackageError, match="give an s3:// store that can be reached from here with its credentials"):
        submit_grid(grid, tmp_path, JobOrder(s3_bucket.uri("other")), URL)


def test_a_spec_of_the_store_s_haystacks_needs_them_here(
    server: Server, s3_bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, grid = s3_bucket.uri(), grid_of(tmp_path, 1)
    submit_grid(grid, tmp_path, JobOrder(uri), URL)
    (tmp_path / "spec.yaml").write_text(yaml.safe_dump(server.spec()), encoding="utf-8")
    again = api.submit(tmp_path / "spec.yaml", URL, uri)
    assert (again.run, again.attached) == (grid.run_id, True)
    no_credentials(monkeypatch)
    with pytest.raises(NoCredentials, match="^store s3://.*: no credentials; set AWS_ACCESS_KEY_ID"):
        api.submit(tmp_path / "spec.yaml", URL, uri)


def test_only_missing_credentials_are_forgiven(server: Server, s3_bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    uri, bucket, notes = submit.store_for_job(s3_bucket.uri(), URL)
    assert isinstance(bucket, Store) and (uri, notes) == (s3_bucket.uri(), [])
    with pytest.raises(StoreError, match="has no bucket 'no-such-bucket'"):
        submit.store_for_job(s3_bucket.server.uri("no-such-bucket"), URL)
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(StoreError, match="half of the credentials is missing"):
        submit.store_for_job(s3_bucket.uri(), URL)


def test_a_service_of_this_machine_s_settings_is_named_for_the_nodes(
    server: Server, s3_bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3_bucket.server.url)
    job = submit_grid(grid_of(tmp_path, 1), tmp_path, JobOrder(f"s3://{s3_bucket.name}/store"), URL)
    assert job.store == s3_bucket.uri() and s3_bucket.uri() in server.sent[0]["entrypoint"]


def test_the_spec_s_endpoint_is_where_its_haystacks_lie(server: Server, s3_bucket: Bucket, tmp_path: Path) -> None:
    grid = grid_of(tmp_path, 2)
    submit_grid(grid, tmp_path, JobOrder(s3_bucket.uri()), URL)
    spec = server.spec() | {"endpoint_url": s3_bucket.server.url}
    assert api.load(spec, store=f"s3://{s3_bucket.name}/store").run_id == grid.run_id


def test_a_synthesis_goes_with_its_files_and_writes_nothing_here(server: Server, s3_bucket: Bucket, tmp_path: Path) -> None:
    uri, topic = s3_bucket.uri(), {"topic": "the bridge", "context": ["seed.txt"]}
    (tmp_path / "seed.txt").write_text("The bridge was closed.", encoding="utf-8")
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump({**SMALL, "topics": [topic]}), encoding="utf-8")
    job = api.submit(tmp_path / "mine.yaml", URL, uri)
    assert sorted(server.files) == ["seed.txt", package.SPEC] and uri in server.sent[0]["entrypoint"]
    assert (job.store, job.notes, s3_bucket.keys()) == (uri, (), ["store/.summhay-check"])
