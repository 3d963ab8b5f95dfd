"""Work in a process of its own, whose memory is given back when it ends.

Imports nothing of ours; any room may import it.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import selectors
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

LOOK_S = 0.1
"""How often it is asked whether the work is still wanted, in seconds."""


class ProcessEnded(RuntimeError):
    """The process ended, or answered what cannot be read, before its work was done."""


def in_own_process(work: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    """Do `work` in a new Python process, which ends when this one does, and return its result or raise its error.

    `work` is a function of a module; it, its arguments and its result are pickled. Nothing that the work prints is shown. Raises
    ProcessEnded if the process is killed, or if the result or the error cannot be pickled.
    """
    return in_own_process_unless(lambda: False, work, *given, **named)


def in_own_process_unless(unwanted: Callable[[], bool], work: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    """See `in_own_process`. Soon after `unwanted` returns True, the process is killed and ProcessEnded raised."""
    # Modules are looked for where this process finds them; by itself it would look in the current folder first.
    code = f"import sys; sys.path[:] = {[*map(str, sys.path)]!r}; from summhay_ray.own_process import main; main()"
    asked = pickle.dumps((work, given, named))
    with (
        tempfile.TemporaryFile() as told,
        subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=told,
            # Ctrl-C interrupts the processes of this one's group, and is for this one to hear.
            process_group=0,
        ) as process,
        selectors.DefaultSelector() as selector,
    ):
        assert process.stdin is not None and process.stdout is not None
        try:
            # A process that has ended already answers nothing.
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(asked)
                process.stdin.flush()
            selector.register(process.stdout, selectors.EVENT_READ)
            while not selector.select(LOOK_S):
                if unwanted():
                    raise ProcessEnded("its process was ended: its work is not wanted any more")
            # It reads nothing more: that its stdin ends tells it that we did.
            answer = process.stdout.read()
            ended = 0 if answer else process.wait()
        finally:
            process.kill()
            # What a process that has ended did not read is written once more.
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
        if ended < 0:
            raise ProcessEnded(f"its process was ended by signal {-ended}")
        if not answer:
            told.seek(0)
            last = told.read().decode(errors="replace").strip().rpartition("\n")[2]
            raise ProcessEnded(f"its process ended with {ended}: {last}".removesuffix(": "))
    try:
        # Our own process wrote it.
        result, error = pickle.loads(answer)  # noqa: S301
    # Of a part of an answer, pickle may raise anything.
    except Exception as unread:
        raise ProcessEnded(f"the answer of its process cannot be read: {unread}") from unread
    if error is not None:
        raise error
    return result  # type: ignore[no-any-return]


def main() -> None:
    """What `in_own_process` runs: the work that comes by stdin. Ends when the other process does."""
    # What the work prints, or a module that it imports, must not stand in the answer.
    with os.fdopen(os.dup(1), "wb") as answer:
        os.dup2(2, 1)
        work, given, named = pickle.load(sys.stdin.buffer)  # noqa: S301
        # Not `sys.stdin.read`, whose lock would be held when this process ends.
        threading.Thread(target=lambda: (os.read(0, 1), os._exit(1)), daemon=True).start()
        result = raised = None
        try:
            result = work(*given, **named)
        # The other process raises it.
        except Exception as error:  # noqa: BLE001
            raised = _whole(error)
        answer.write(pickle.dumps((result, raised)))


def _whole(error: Exception) -> Exception:
    """The error with its traceback as a note; one that says the same if it cannot be pickled and read again."""
    error.add_note(traceback.format_exc())
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301
    # An error whose class does not take what it was made of may raise anything.
    except Exception:  # noqa: BLE001
        return ProcessEnded(f"{type(error).__name__}: {error}")
    return error
