"""SIGTERM reaches a worker whose code runs beside its main thread: once, at once, and no other signal does."""

from __future__ import annotations

import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from summhay_ray.engine.sigterm import on_notice

pytestmark = pytest.mark.core

# As Ray does: an own handler in the main thread, which does nothing while the actor is busy, and code in another thread.
WORKER = """
import signal, threading, time
from summhay_ray.engine.sigterm import listen, on_notice

signal.signal(signal.SIGTERM, lambda *_: None)
signal.signal(signal.SIGUSR1, lambda *_: None)
if {listening}:
    listen()
told = []

def act():
    told.append(threading.current_thread().name)
    print("told in", told[-1], len(told), flush=True)

thread = threading.Thread(target=lambda: on_notice(act))
thread.start()
thread.join()
print("begun", flush=True)
while True:
    time.sleep(0.1)
"""


@contextmanager
def worker(listening: bool = True) -> Iterator[subprocess.Popen[str]]:
    code = WORKER.format(listening=listening)
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "begun\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def test_sigterm_is_told_at_once_in_a_thread_of_its_own_and_no_other_signal_is() -> None:
    with worker() as process:
        assert process.stdout is not None
        process.send_signal(signal.SIGUSR1)
        assert not select.select([process.stdout], [], [], 0.3)[0]
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "told in notice 1\n"
        # A second one is nobody's to hear: the worker is on its way out.
        process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        process.kill()
        assert process.stdout.read() == ""


def test_where_nobody_listens_nothing_is_told() -> None:
    with worker(listening=False) as process:
        process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        process.kill()
        assert process.stdout is not None and process.stdout.read() == ""


def test_in_this_process_nobody_listens() -> None:
    on_notice(lambda: pytest.fail("nothing was sent"))
