"""Serve a report on this machine and update it when its runs change. Part of the report room."""

from __future__ import annotations

import functools
import tempfile
import threading
from collections.abc import Callable
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from summhay_ray.errors import UserError
from summhay_ray.report.make import Report, state_of

LOOK_EVERY_S = 5.0
"""Seconds between two looks at the runs."""
HOST = "127.0.0.1"


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""

    def end_headers(self) -> None:
        """Forbid caching, since the report changes."""
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        super().end_headers()


def serve_report(make: Callable[[], Report], out: str, port: int, say: Callable[[str], None]) -> None:
    """Write the report into the folder `out`, or a temporary one, serve it, and rewrite it whenever a run changes.

    Stops on Ctrl-C. Raises UserError if the port cannot be used.
    """
    with tempfile.TemporaryDirectory(prefix="summhay-report-") as folder:
        target = out or folder
        if "://" in target:
            raise UserError(f"--serve writes into a folder of this machine; {target} is none")
        try:
            server = ThreadingHTTPServer((HOST, port), functools.partial(_Quiet, directory=target))
        except OSError as error:
            raise UserError(f"port {port} cannot be served ({error.strerror}); give another with --port, or 0 for any") from error
        with server:
            report = make()
            report.write(target, live=True)
            threading.Thread(target=server.serve_forever, daemon=True).start()
            say(f"http://{HOST}:{server.server_port}/")
            try:
                _follow(make, report, target)
            finally:
                server.shutdown()


def _follow(make: Callable[[], Report], report: Report, target: str) -> None:
    written, clock = state_of([reported.run for reported in report.runs]), threading.Event()
    while not clock.wait(LOOK_EVERY_S):
        newest = [reported.run.store.run(reported.run.run_id) for reported in report.runs]
        if state_of(newest) != written:
            report = make()
            report.write(target, live=True)
            written = state_of([reported.run for reported in report.runs])
