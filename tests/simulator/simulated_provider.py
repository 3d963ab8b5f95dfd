"""The simulated provider for tests: as a process of `summhay simulate`, or in a thread of this process."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from summhay_ray import simulator

SUMMHAY = Path(sys.executable).with_name("summhay")
KEY = "sk-simulated-0123456789"
PATIENCE_S = 60.0


@dataclass(frozen=True)
class Said:
    """A reply of the provider. `body`: its JSON, or its text if it is not JSON."""

    status: int
    body: Any
    headers: Mapping[str, str]

    @property
    def text(self) -> str:
        """The text of the answer."""
        return str(self.body["choices"][0]["message"]["content"])

    @property
    def code(self) -> str:
        """The code of the error."""
        return str(self.body["error"]["code"])


@dataclass(frozen=True)
class Simulated:
    """A provider that is serving. `base`: the API's base URL (`http://127.0.0.1:PORT/v1`)."""

    base: str
    pid: int | None = None
    record: Path | None = None

    @property
    def root(self) -> str:
        """The URL under which its books are."""
        return self.base.removesuffix("/v1")

    def stats(self) -> dict[str, Any]:
        """The totals, and the tally of each key and model under `keys` and `models`."""
        found: dict[str, Any] = self.get("/simulated/stats").body
        return found

    def calls(self) -> list[dict[str, Any]]:
        """Every request, in order of arrival."""
        found: list[dict[str, Any]] = self.get("/simulated/calls").body
        return found

    def reset(self) -> None:
        """Forget every call, bill, limit and cache."""
        self.post("/simulated/reset", {})

    def tally(self, model: str = "simulated", key: str = KEY) -> dict[str, Any]:
        """The tally of one key and model."""
        found: dict[str, Any] = self.stats()["keys"][fingerprint(key)]["models"][model]
        return found

    def get(self, path: str) -> Said:
        """GET."""
        return _open(urllib.request.Request(self.root + path))

    def post(self, path: str, body: Any, key: str = KEY, timeout_s: float = PATIENCE_S) -> Said:
        """POST a body, as JSON unless it is bytes."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
        return _open(urllib.request.Request(self.root + path, data, headers), timeout_s)

    def chat(self, prompt: str, key: str = KEY, timeout_s: float = PATIENCE_S, **fields: Any) -> Said:
        """Ask for a chat completion."""
        body = {"model": "simulated", "messages": [{"role": "user", "content": prompt}], **fields}
        return self.post("/v1/chat/completions", body, key, timeout_s)


def fingerprint(key: str) -> str:
    """The fingerprint of a key in the provider's books."""
    return hashlib.sha256(key.encode()).hexdigest()[:12]


def _open(request: urllib.request.Request, timeout_s: float = PATIENCE_S) -> Said:
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:
            status, raw, headers = answer.status, answer.read(), answer.headers
    except urllib.error.HTTPError as error:
        with error:
            status, raw, headers = error.code, error.read(), error.headers
    try:
        return Said(status, json.loads(raw), headers)
    except ValueError:
        return Said(status, raw.decode(), headers)


def until(true: Callable[[], bool], seconds: float = PATIENCE_S) -> bool:
    """Wait until the condition is true. Returns whether it was in time."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.03)
    return True


def recorded(path: Path) -> list[dict[str, Any]]:
    """The calls in a `--record` file in order of arrival, each as last written."""
    calls: dict[int, dict[str, Any]] = {}
    for line in path.read_text(encoding="ascii").splitlines(keepends=True):
        if line.endswith("\n"):
            call = json.loads(line)
            calls[call["n"]] = call
    return [calls[n] for n in sorted(calls)]


@contextmanager
def simulated_provider(*options: str, record: Path | None = None) -> Iterator[Simulated]:
    """Run `summhay simulate --port 0 --json OPTIONS` within the block. It must exit with 0, unless the test kills it."""
    recording = ["--record", str(record)] if record else []
    command = [str(SUMMHAY), "simulate", "--port", "0", "--json", *recording, *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        # It prints this line once it listens.
        line = process.stdout.readline()
        if not line:
            raise AssertionError(f"{command} did not start: {process.communicate()[1][-2000:]}")
        yield Simulated(json.loads(line)["api_base"], process.pid, record)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=30)
    assert process.returncode in (0, -signal.SIGKILL), said[-2000:]


def echo(model: str, prompt: str) -> str:
    """An answer that repeats model and prompt."""
    return f"{model}: {prompt}"


@contextmanager
def in_thread(
    answer: Callable[[str, str], str] = echo, keys: Sequence[str] | None = None, quick: bool = True, **settings: Any
) -> Iterator[Simulated]:
    """A provider with these settings (fields of simulator.Settings) in a thread, on a free port."""
    from summhay_ray.simulator import server

    loop = asyncio.new_event_loop()
    answers = simulator.Answers(answer, quick)
    provider = simulator.Provider(simulator.Settings(**settings), answers, frozenset(keys) if keys else None)
    runner, base = loop.run_until_complete(server.start(provider, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield Simulated(base)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        provider.answers.close()
        loop.run_until_complete(runner.cleanup())
        with contextlib.suppress(RuntimeError):
            loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
