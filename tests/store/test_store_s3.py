"""One contract for every kind of place: a folder, a bucket on moto, a bucket on ministack (a second opinion)."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fault_proxy import FaultProxy
from s3_servers import PAGE, SECRET, Bucket, environment, running, s3_bucket, s3_server, set_credentials

from summhay_ray.store import Files, StoreError, open_files

__all__ = ["s3_bucket", "s3_server"]
pytestmark = pytest.mark.s3

PLAIN = ["a.b-c_d", "A", "-", "_", "0", "x" * 200]
ODD = ["a b", "100%25", "plus+and&", "é漢", "²", "hash#mark", "~tilde", "..", ".", "a..b", "", "a\n", "a\0", "/etc", "../up"]


@pytest.fixture(params=["folder", "moto", pytest.param("ministack", marks=pytest.mark.soak)])
def files(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    if request.param == "folder":
        return open_files(str(tmp_path / "store"))
    set_credentials(monkeypatch)
    server = running(request.param)
    return open_files(server.uri(server.bucket()))


def test_what_is_created_stays(files: Files) -> None:
    assert files.create("deep/er/a", b"first") is True
    assert files.create("deep/er/a", b"second") is False
    assert files.create("deep/er/a", b"first") is True
    assert files.read("deep/er/a") == b"first"
    assert files.exists("deep/er/a") and not files.exists("deep/er") and not files.exists("deep/er/b") or files.folder is not None


def test_a_hint_is_written_over(files: Files) -> None:
    for content in (b"1", b"", b"22"):
        files.put("hints/latest", content)
        assert files.read("hints/latest") == content
    assert files.create("hints/latest", b"3") is False


def test_what_is_missing_is_missing(files: Files) -> None:
    assert not files.exists("a/b")
    for read in (lambda: files.read("a/b"), lambda: files.read("a/b", 0, 1)):
        with pytest.raises(FileNotFoundError, match="a/b"):
            read()
    assert list(files.names("a")) == [] and list(files.folders("a")) == []


@pytest.mark.parametrize(
    ("offset", "length", "part"),
    [(3, 4, b"3456"), (8, 4, b"89"), (10, 4, b"")],
)
def test_ranges(files: Files, offset: int, length: int, part: bytes) -> None:
    files.create("digits", b"0123456789")
    assert files.read("digits", offset, length) == part


def test_large_content_comes_back_whole(files: Files) -> None:
    content = os.urandom(1 << 20) * 9
    assert files.create("large", content) is True
    assert files.read("large") == content and files.read("large", 5_000_000, 70_000) == content[5_000_000:5_070_000]


def test_names_and_folders_are_sorted_and_of_one_folder(files: Files) -> None:
    for name in ("b.json", "a.json", "c.parquet", "deeper/d.json", "deeper/still/e.json", "also/f.json", ".hidden"):
        files.create(f"here/{name}", b"")
    files.create("hereafter/g.json", b"")
    files.create("top.json", b"")
    assert list(files.names("here")) == ["here/a.json", "here/b.json", "here/c.parquet"]
    assert list(files.names("here", ".json")) == ["here/a.json", "here/b.json"]
    assert list(files.folders("here")) == ["also", "deeper"]
    assert list(files.folders("")) == ["here", "hereafter"] and list(files.names("")) == ["top.json"]


def test_plain_names_are_names_and_others_none(files: Files) -> None:
    for name in PLAIN:
        assert files.create(f"odd/{name}", name.encode()) is True
    for name in ODD:
        for act in (
            files.read,
            files.delete,
            files.exists,
            lambda name: files.create(name, b""),
            lambda name: files.put(name, b""),
        ):
            with pytest.raises(StoreError, match="is not a name of a file in it"):
                act(f"odd/{name}")
        for one, other in ((f"odd/{name}", "odd/A"), ("odd/A", f"odd/{name}")):
            with pytest.raises(StoreError, match="is not a name of a file in it"):
                files.move(one, other)
    assert list(files.names("odd")) == sorted(f"odd/{name}" for name in PLAIN)
    assert [files.read(f"odd/{name}") for name in PLAIN] == [name.encode() for name in PLAIN]


@pytest.mark.parametrize("n", [2 * PAGE + 3, pytest.param(1_203, marks=pytest.mark.soak)])
def test_more_names_than_a_page_holds(files: Files, n: int) -> None:
    expected = [f"many/{number:05d}" for number in range(n)]
    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(lambda name: files.create(name, b"x"), expected))
    assert list(files.names("many")) == expected


def test_a_check_passes_again_and_again_and_is_not_seen(files: Files) -> None:
    for _ in range(3):
        files.check()
    assert list(files.names("")) == [] and list(files.folders("")) == []


def test_another_process_reopens_it_by_uri_and_by_pickle(s3_bucket: Bucket) -> None:
    files = open_files(s3_bucket.uri())
    files.create("a", b"content")
    code = "import sys, pickle; from summhay_ray.store import open_files; print(open_files(sys.argv[1]).read('a'))"
    done = subprocess.run([sys.executable, "-c", code, files.uri], env=environment(), capture_output=True, text=True)
    assert done.stdout == "b'content'\n", done.stderr
    again: Files = pickle.loads(pickle.dumps(files))  # noqa: S301 - our own
    assert again.read("a") == b"content" and again.uri == files.uri and open_files(files.uri).uri == files.uri


def test_a_bucket_has_no_folder_and_says_where_things_are(s3_bucket: Bucket) -> None:
    files = open_files(s3_bucket.uri("my/store"))
    assert files.folder is None
    assert files.where("runs/x") == f"s3://{s3_bucket.name}/my/store/runs/x (at {s3_bucket.server.url})"
    files.create("runs/x", b"")
    assert s3_bucket.keys() == ["my/store/runs/x"]


def test_the_endpoint_that_boto3_finds_goes_along(s3_bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3_bucket.server.url)
    files = open_files(f"s3://{s3_bucket.name}/store")
    files.create("a", b"here")
    copy = pickle.dumps(files)
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3")
    assert files.uri == s3_bucket.uri()
    assert open_files(files.uri).read("a") == b"here"
    assert pickle.loads(copy).read("a") == b"here"  # noqa: S301 - our own


def test_a_forked_child_has_connections_of_its_own(s3_bucket: Bucket) -> None:
    files = open_files(s3_bucket.uri())
    files.create("a", b"content")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, files.read("a"))
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 100) == b"content" == files.read("a")
    os.close(reader), os.close(writer)


def test_32_threads_share_one(s3_bucket: Bucket) -> None:
    files = open_files(s3_bucket.uri())

    def one(number: int) -> bytes:
        assert files.create(f"n/{number}", str(number).encode())
        return files.read(f"n/{number}")

    with ThreadPoolExecutor(32) as pool:
        assert list(pool.map(one, range(128))) == [str(number).encode() for number in range(128)]


def test_how_many_requests_things_take(s3_bucket: Bucket) -> None:
    with FaultProxy(s3_bucket.server.url) as proxy:
        files = open_files(s3_bucket.uri(url=proxy.url))
        files.check()
        assert [(seen.method, seen.status) for seen in proxy.requests] == [
            ("GET", 404),
            ("PUT", 200),
            ("PUT", 412),
            ("GET", 200),
            ("GET", 200),
        ]
        proxy.requests.clear()
        files.create("a", b"1"), files.create("a", b"2"), files.read("a"), files.read("a", 0, 1), files.exists("a")
        assert [seen.method for seen in proxy.requests] == ["PUT", "PUT", "GET", "GET", "GET", "HEAD"]
        assert {seen.key for seen in proxy.requests} == {"store/a"}


def test_nothing_secret_is_shown(s3_bucket: Bucket) -> None:
    files = open_files(s3_bucket.uri())
    files.check()
    shown = [repr(files), files.uri, files.where("a"), repr(pickle.dumps(files))]
    with pytest.raises(StoreError) as missing:
        open_files(s3_bucket.server.uri("no-such-bucket")).read("a")
    assert missing.value.__cause__ is None and missing.value.__suppress_context__
    assert not [text for text in [*shown, str(missing.value)] if SECRET in text]
