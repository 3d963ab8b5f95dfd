"""A run with a bucket as store is sent as a job: the haystacks go through the store, and no credentials leave this machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from big_haystacks import haystack as made_haystack
from inline_runs import SAMPLE
from job_server import Server, server, submit
from s3_servers import SECRET, Bucket, s3_bucket, s3_server

from summhay_ray import api, engine
from summhay_ray.engine import package
from summhay_ray.errors import UserError
from summhay_ray.store import NoCredentials, Store, StoreError

__all__ = ["s3_bucket", "s3_server", "server"]
pytestmark = pytest.mark.s3

URL = "http://head:8265"


def spec_of(folder: Path, number: int = 3) -> Path:
    """A spec of this many small haystack files and a sample."""
    names = [f"topic{index}.json" for index in range(number)]
    for index, name in enumerate(names):
        raw = made_haystack(index, documents=4, words=30, subtopics=2, insights=2)
        (folder / name).write_text(json.dumps(raw, indent=1), encoding="utf-8")
    path = folder / "spec.yaml"
    path.write_text(yaml.safe_dump({**SAMPLE, "haystacks": [*names, "sample/news"]}), encoding="utf-8")
    return path


def no_credentials(patch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        patch.delenv(name)


def test_haystacks_go_by_way_of_the_store(
    server: Server, s3_bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Larger than the limit of a job.
    monkeypatch.setattr(package, "MOST_BYTES", 100)
    spec, uri = spec_of(tmp_path), s3_bucket.uri()
    job = api.submit(spec, URL, uri)
    assert (job.store, job.attached, job.notes) == (uri, False, ())
    assert list(server.files) == [package.SPEC]
    *stored, sample = server.spec()["haystacks"]
    names = [entry.partition("/")[2].partition("/") for entry in stored]
    assert [(len(digest), name) for digest, _, name in names] == [(64, f"topic{index}.json") for index in range(3)]
    assert sample == "sample/news" and all(entry.startswith("store/") for entry in stored)
    # A node uses it in this way.
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / package.SPEC).write_bytes(server.files[package.SPEC])
    assert api.load(tmp_path / "there" / package.SPEC, store=uri).run_id == job.run == api.load(spec).run_id
    assert SECRET not in json.dumps(server.sent) + server.files[package.SPEC].decode()

    keys = s3_bucket.keys()
    watched = api.submit(spec, URL, uri)
    assert (watched.job, watched.attached, s3_bucket.keys()) == (job.job, True, keys)


def test_nothing_is_put_into_the_store_where_no_job_is_sent(
    server: Server, s3_bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody(url: str) -> list[str]:
        raise UserError("no job server answers there")

    monkeypatch.setattr(submit, "reach", nobody)
    with pytest.raises(UserError, match="no job server"):
        api.submit(spec_of(tmp_path), URL, s3_bucket.uri())
    assert s3_bucket.keys() == ["store/.summhay-check"]


def test_a_file_that_changes_meanwhile_is_refused(server: Server, s3_bucket: Bucket, tmp_path: Path) -> None:
    workload = api.load(spec_of(tmp_path))
    (tmp_path / "topic1.json").write_text((tmp_path / "topic0.json").read_text(), encoding="utf-8")
    with pytest.raises(UserError, match="topic1.json: was changed since it was read"):
        engine.submit(workload, engine.JobOrder(s3_bucket.uri()), URL)
    assert server.sent == []


def test_without_credentials_here_the_files_go_with_the_job(
    server: Server, s3_bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_credentials(monkeypatch)
    spec = spec_of(tmp_path)
    job = api.submit(spec, URL, s3_bucket.uri())
    assert sorted(server.files) == [package.SPEC, "topic0.json", "topic1.json", "topic2.json"]
    assert "no credentials for the store here" in job.notes[0] and "none are sent" in job.notes[0]
    monkeypatch.setattr(package, "MOST_BYTES", 100)
    with pytest.raises(package.UserError, match="give an s3:// store that this machine can reach, "):
        api.submit(spec, URL, s3_bucket.uri("other"))


def test_a_spec_of_the_store_s_haystacks_needs_them_here(
    server: Server, s3_bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = s3_bucket.uri()
    first = api.submit(spec_of(tmp_path, 1), URL, uri)
    (tmp_path / "spec.yaml").write_text(yaml.safe_dump(server.spec()), encoding="utf-8")
    again = api.submit(tmp_path / "spec.yaml", URL, uri)
    assert (again.run, again.attached) == (first.run, True)
    no_credentials(monkeypatch)
    with pytest.raises(NoCredentials, match="^store s3://.*: no credentials"):
        api.submit(tmp_path / "spec.yaml", URL, uri)


def test_only_missing_credentials_are_forgiven(server: Server, s3_bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    uri, bucket, notes = submit.store_for_job(s3_bucket.uri(), URL)
    assert isinstance(bucket, Store) and (uri, notes) == (s3_bucket.uri(), [])
    with pytest.raises(StoreError, match="has no bucket 'no-such-bucket'"):
        submit.store_for_job(s3_bucket.server.uri("no-such-bucket"), URL)
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(StoreError, match="could not get credentials"):
        submit.store_for_job(s3_bucket.uri(), URL)


def test_a_service_of_this_machine_s_settings_is_named_for_the_nodes(
    server: Server, s3_bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3_bucket.server.url)
    job = api.submit(spec_of(tmp_path, 1), URL, f"s3://{s3_bucket.name}/store")
    assert job.store == s3_bucket.uri() and s3_bucket.uri() in server.sent[0]["entrypoint"]


def test_haystacks_are_found_at_the_specs_endpoint(server: Server, s3_bucket: Bucket, tmp_path: Path) -> None:
    job = api.submit(spec_of(tmp_path, 2), URL, s3_bucket.uri())
    spec = server.spec() | {"endpoint_url": s3_bucket.server.url}
    assert api.load(spec, store=f"s3://{s3_bucket.name}/store").run_id == job.run
