"""`jobs/drain.py --spot`: what AWS's instance metadata service says, in the place of which a small server of the test answers."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.core

DRAIN = Path(__file__).resolve().parents[2] / "jobs" / "drain.py"
NOTICE = b'{"action": "terminate", "time": "2030-01-01T00:02:00Z"}'
TTL = "X-aws-ec2-metadata-token-ttl-seconds"
TOKEN = "X-aws-ec2-metadata-token"


def load() -> Any:
    spec = importlib.util.spec_from_file_location("drain", DRAIN)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


drain = load()


@dataclass
class Metadata:
    """What the service says, and what it was asked: (method, path, token)."""

    token: bytes = b"t0ken=="
    token_status: int = 200
    notice_status: int = 404
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    url: str = ""

    def until_asked(self, times: int) -> None:
        end = time.monotonic() + 20
        while len(self.asked) < times:
            assert time.monotonic() < end, self.asked
            time.sleep(0.01)


@pytest.fixture()
def metadata() -> Iterator[Metadata]:
    told = Metadata()

    class Handler(BaseHTTPRequestHandler):
        def _say(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def do_PUT(self) -> None:
            told.asked.append(("PUT", self.path, self.headers.get(TTL, "")))
            self._say(told.token_status, told.token)

        def do_GET(self) -> None:
            told.asked.append(("GET", self.path, self.headers.get(TOKEN, "")))
            known = self.path == "/latest/meta-data/spot/instance-action" and self.headers.get(TOKEN) == told.token.decode()
            self._say(told.notice_status if known else 401, NOTICE)

        def log_message(self, *_: Any) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        told.url = f"http://127.0.0.1:{server.server_port}/latest"
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield told
        server.shutdown()


def waiting(metadata: Metadata, every_s: float = 0.01) -> threading.Thread:
    thread = threading.Thread(target=drain.wait_for_notice, args=(metadata.url, every_s), daemon=True)
    thread.start()
    return thread


ASKED = [("PUT", "/latest/api/token", "60"), ("GET", "/latest/meta-data/spot/instance-action", "t0ken==")]


def test_a_notice_is_heard_and_asked_for_as_aws_wants_it(metadata: Metadata) -> None:
    waits = waiting(metadata)
    metadata.until_asked(6)
    assert waits.is_alive() and metadata.asked[:6] == 3 * ASKED
    metadata.notice_status = 200
    waits.join(10)
    assert not waits.is_alive() and metadata.asked[-2:] == ASKED


@pytest.mark.parametrize("trouble", [{"token_status": 403}, {"token_status": 503}, {"token": b"\xff\xfe"}, {"token": b"a\nb"}])
def test_no_trouble_ends_the_waiting(metadata: Metadata, trouble: dict[str, Any]) -> None:
    good = {name: getattr(metadata, name) for name in trouble}
    for name, value in trouble.items():
        setattr(metadata, name, value)
    metadata.notice_status = 200
    waits = waiting(metadata)
    metadata.until_asked(4)
    # Without a token the notice is not asked for.
    assert waits.is_alive() and {method for method, _, _ in metadata.asked} == {"PUT"}
    for name, value in good.items():
        setattr(metadata, name, value)
    waits.join(10)
    assert not waits.is_alive()


def test_nobody_answers_and_nobody_is_asked_all_the_time(metadata: Metadata, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            raise TimeoutError("enough")

    monkeypatch.setattr(drain.time, "sleep", sleep)
    with pytest.raises(TimeoutError, match="enough"):
        drain.wait_for_notice("http://127.0.0.1:9/latest")
    assert slept == [drain.ASK_EVERY_S] * 3 and drain.ASK_EVERY_S <= 5.0


def test_a_proxy_of_the_environment_is_not_asked(metadata: Metadata, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    metadata.notice_status = 200
    waits = waiting(metadata)
    waits.join(10)
    assert not waits.is_alive() and metadata.asked == ASKED


def test_a_notice_goes_to_the_workers_again_and_again(metadata: Metadata, tmp_path: Path) -> None:
    source = DRAIN.read_text(encoding="utf-8")
    for old, new in (
        ("http://169.254.169.254/latest", metadata.url),
        ("GRACE_S = 24.0", "GRACE_S = 1.0"),
        ("ASK_EVERY_S = 5.0", "ASK_EVERY_S = 0.1"),
        ("ray::WorkerActor", "spot-test-worker"),
    ):
        assert source.count(old) == 1
        source = source.replace(old, new)
    script = tmp_path / "drain.py"
    script.write_text(source, encoding="utf-8")
    for signals, stays in (("", False), ("trap '' TERM; ", True)):
        metadata.notice_status = 404
        # bash ignores what it traps as '', and hands that on to the process that it becomes.
        worker = subprocess.Popen(["bash", "-c", f"{signals}exec -a spot-test-worker sleep 60"])
        draining = subprocess.Popen([sys.executable, str(script), "--spot"])
        try:
            before = len(metadata.asked)
            metadata.until_asked(before + 2)
            assert worker.poll() is None and draining.poll() is None
            metadata.notice_status = 200
            if stays:
                time.sleep(2.0)
                assert worker.poll() is None
            else:
                worker.wait(30)
            # Ray would start another in its place: that one hears of it, too.
            assert draining.poll() is None
        finally:
            for process in (worker, draining):
                process.kill()
                process.wait()
