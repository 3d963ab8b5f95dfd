"""Real S3 servers for tests, each a separate process on 127.0.0.1: `moto` and `ministack`.

For every folder of tests: `from s3_servers import s3_server, s3_bucket` imports the fixtures, which also set the credentials of
this process. `running(kind)` returns the shared server of this test process, `serving(kind)` another one, which may be killed;
`environment(url)` is the environment of a subprocess.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

PATIENCE_S = 60.0
PAGE = 100
"""Names per page of the running moto's listings (S3 has 1,000), so that few objects make several pages."""
SECRET = "secret-of-tests-0123456789"
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "key-of-tests",
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "AWS_DEFAULT_REGION": "us-east-1",
    # Otherwise the settings of the machine or its cloud would be found.
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
}
OTHERS = ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_CA_BUNDLE")
# The child ends with its parent, even if the parent is killed: then its standard input ends.
WITH_PARENT = "import os, sys, threading; threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start(); "
# moto checks a name and writes it in two steps, so that another thread may do the same in between; S3 does it in one step.
MOTO = """
import io, threading
from moto import server

run, one_write = server.run_simple, threading.Lock()

def serial(app):
    def answer(environ, start):
        if environ["REQUEST_METHOD"] != "PUT":
            return app(environ, start)
        environ["wsgi.input"] = io.BytesIO(environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)))
        with one_write:
            return app(environ, start)
    return answer

server.run_simple = lambda host, port, app, **options: run(host, port, serial(app), **options)
server.main(["-H", "127.0.0.1", "-p", sys.argv[1]])
"""
CODE = {"moto": WITH_PARENT + MOTO, "ministack": WITH_PARENT + "sys.argv[1:] = []; from ministack.app import main; main()"}


@dataclass(frozen=True)
class S3Server:
    """A server at `url`."""

    kind: str
    url: str
    process: subprocess.Popen[bytes]

    def client(self) -> Any:
        """A plain boto3 client of the server."""
        return client(self.url)

    def bucket(self) -> str:
        """The name of a new, empty bucket."""
        name = f"bucket-{uuid.uuid4().hex[:12]}"
        self.client().create_bucket(Bucket=name)
        return name

    def uri(self, bucket: str, prefix: str = "store", url: str | None = None) -> str:
        """The URI of a store in `bucket`; `url` is that of a proxy in front."""
        return f"s3://{bucket}/{prefix}?endpoint_url={url or self.url}"


@dataclass(frozen=True)
class Bucket:
    """A new bucket of a running server."""

    server: S3Server
    name: str

    def uri(self, prefix: str = "store", url: str | None = None) -> str:
        """The URI of a store in it; `url` is that of a proxy in front."""
        return self.server.uri(self.name, prefix, url)

    def keys(self) -> list[str]:
        """Every key in it, from a plain listing."""
        pages = self.server.client().get_paginator("list_objects_v2").paginate(Bucket=self.name)
        return [entry["Key"] for page in pages for entry in page.get("Contents", ())]


@functools.cache
def client(url: str, service: str = "s3") -> Any:
    """A boto3 client with the tests' credentials, whatever the environment contains."""
    import boto3

    session = boto3.session.Session(CREDENTIALS["AWS_ACCESS_KEY_ID"], SECRET, region_name="us-east-1")
    return session.client(service, endpoint_url=url)


def environment(url: str | None = None, base: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a subprocess: the tests' credentials, and none of the machine's; `url` is S3's address for boto3."""
    kept = {name: value for name, value in (os.environ if base is None else base).items() if name not in OTHERS}
    return {**kept, **CREDENTIALS, **({"AWS_ENDPOINT_URL_S3": url} if url is not None else {})}


@contextlib.contextmanager
def serving(kind: str = "moto", **variables: str) -> Iterator[S3Server]:
    """A separate, empty server for the block; `variables` for its environment."""
    for _ in range(3):
        port = _free_port()
        with tempfile.TemporaryFile() as log:
            process = _start(kind, port, log, variables)
            try:
                if _answers(process, port):
                    yield S3Server(kind, f"http://127.0.0.1:{port}", process)
                    return
                log.seek(0)
                told = log.read().decode(errors="replace")[-2000:]
            finally:
                process.kill()
                process.communicate()
    raise RuntimeError(f"{kind} does not start: {told}")


@functools.cache
def running(kind: str = "moto") -> S3Server:
    """The one server of this kind in this test process; it ends with the process."""
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(serving(kind, MOTO_S3_DEFAULT_MAX_KEYS=str(PAGE)))


def set_credentials(patch: pytest.MonkeyPatch) -> None:
    """Make boto3 in this process find only the tests' credentials."""
    for name in OTHERS:
        patch.delenv(name, raising=False)
    for name, value in CREDENTIALS.items():
        patch.setenv(name, value)


@pytest.fixture
def s3_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """See `set_credentials`."""
    set_credentials(monkeypatch)


@pytest.fixture
def s3_server(monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """The moto server, and the credentials for it in this process."""
    set_credentials(monkeypatch)
    return running("moto")


@pytest.fixture
def s3_bucket(s3_server: S3Server) -> Bucket:
    """A bucket of the test's own on the moto server."""
    return Bucket(s3_server, s3_server.bucket())


def _start(kind: str, port: int, log: Any, variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
    own = {
        "BIND_HOST": "127.0.0.1",
        "MINISTACK_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "SERVICES": "s3",
        "LOG_LEVEL": "WARNING",
    }
    command = [sys.executable, "-c", CODE[kind], str(port)]
    folder = Path(tempfile.gettempdir())
    return subprocess.Popen(
        command,
        env=environment(base={**os.environ, **own, **variables}),
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=log,
        cwd=folder,
    )


def _answers(process: subprocess.Popen[bytes], port: int) -> bool:
    """Wait until it serves; return False if it has ended instead."""
    ends = time.monotonic() + PATIENCE_S
    while process.poll() is None and time.monotonic() < ends:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
        time.sleep(0.05)
    return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def soaked(*cases: Any) -> list[Any]:
    """Cases of a test that `make soak` runs; `make test` runs one of each kind."""
    return [pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.soak) for case in cases]
