"""A served report on the wire: it answers only under its own name and secret path, and serves only its own files."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from inline_runs import answered

pytestmark = pytest.mark.core

SUMMHAY = Path(sys.executable).with_name("summhay")


@dataclass(frozen=True)
class Served:
    """`summhay report RUN --serve --out .` in a folder that had files already."""

    folder: Path
    url: str

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 0

    def asked(self, path: str, host: str = "", method: str = "GET") -> tuple[int, Message, bytes]:
        """(status, headers, body) of a request. `path` without a slash begins in the report's folder."""
        to = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        to.putrequest(method, path if path.startswith("/") else urlsplit(self.url).path + path, skip_host=True)
        to.putheader("Host", host or f"127.0.0.1:{self.port}")
        to.endheaders()
        answer = to.getresponse()
        with answer:
            return answer.status, answer.headers, answer.read()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    store, folder = tmp_path_factory.mktemp("run") / "store", tmp_path_factory.mktemp("served")
    _, run = answered(store)
    (folder / ".ssh").mkdir()
    for name in (".ssh/id.js", "mine.html", "data.js"):
        (folder / name).write_text("mine")
    command = [str(SUMMHAY), "report", run.run_id, "--store", str(store), "--serve", "--out", ".", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder)
    try:
        assert process.stdout is not None
        yield Served(folder, json.loads(process.stdout.readline())["url"])
    finally:
        process.terminate()
        process.communicate(timeout=60)


@pytest.mark.parametrize("path", ["", "index.html", "data/manifest.js", "data/version.js?1"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_what_the_report_wrote_is_served_to_its_own_pages_alone(served: Served, path: str, method: str) -> None:
    status, headers, body = served.asked(path, method=method)
    kind = "text/javascript" if ".js" in path else "text/html"
    assert (status, headers.get_content_type(), bool(body)) == (200, kind, method == "GET")
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin" and headers["X-Content-Type-Options"] == "nosniff"
    assert served.asked(path, f"localhost:{served.port}", method)[0] == 200


@pytest.mark.parametrize("path", [".ssh/id.js", "mine.html", "data.js", "data", "data/", "../served0/index.html", "//", "%2e"])
def test_nothing_else_of_the_folder_is_served(served: Served, path: str) -> None:
    status, headers, body = served.asked(path)
    assert status == 404 and b"mine" not in body
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin" and headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("path", ["/", "/index.html", "/data/manifest.js"])
def test_without_the_secret_path_nothing_is_served(served: Served, path: str) -> None:
    assert len(urlsplit(served.url).path) > 40 and served.asked(path)[0] == 404


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "x.localhost:{port}", " "])
def test_under_another_name_nothing_is_served(served: Served, host: str) -> None:
    status, headers, body = served.asked("", host.format(port=served.port))
    assert (status, headers["Cross-Origin-Resource-Policy"]) == (403, "same-origin") and b"offline/lead" not in body


def test_a_link_in_the_place_of_a_file_is_not_followed(served: Served) -> None:
    data = served.folder / "data"
    (data / "index-0.js").unlink()
    (data / "index-0.js").symlink_to(served.folder / "mine.html")
    assert served.asked("data/index-0.js")[0] == 404
    data.rename(served.folder / "moved")
    data.symlink_to(served.folder / "moved")
    assert served.asked("data/manifest.js")[0] == 404
