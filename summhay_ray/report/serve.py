"""Serve a report on this machine and update it when its runs change.

Only the person who started the server may read the report; a page of another site in the same browser must not. Therefore the
server listens on this machine only, uses a secret path, and serves only files that the report wrote. It answers only to its own
host name, since another site's name may resolve to this machine. It also tells browsers not to pass the files to other sites,
since data files are scripts.
"""

import contextlib
import os
import secrets
import shutil
import tempfile
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from summhay_ray.errors import UserError
from summhay_ray.report.make import Report, state_of
from summhay_ray.store import LocalFiles, StoreError, open_files

LOOK_EVERY_S = 5.0
"""Seconds between checks of the runs."""
HOST = "127.0.0.1"
_TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8"}


class _Written(LocalFiles):
    """Files that record which of them were written."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.written: set[str] = set()

    def put(self, name: str, content: bytes) -> None:
        super().put(name, content)
        self.written.add(name)

    def file(self, name: str) -> Path | None:
        """Return the path of a file that was written. None for any other file, and if a link has replaced the file or its
        folder."""
        with contextlib.suppress(StoreError):
            return path if name in self.written and (path := self.path(name)).is_file() else None
        return None


class _Server(ThreadingHTTPServer):
    """Serves the written files of `files` below a secret path."""

    def __init__(self, port: int, files: _Written) -> None:
        super().__init__((HOST, port), _Handler)
        self.files = files
        self.path = f"/{secrets.token_urlsafe()}/"
        # Browsers omit port 80.
        ends = [f":{self.server_port}", *([""] if self.server_port == 80 else [])]
        self.names = [[f"{host}{end}"] for host in (HOST, "localhost") for end in ends]


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        """Answer with a file of the report."""
        path, here = unquote(self.path.partition("?")[0]), self.server.path
        file = self.server.files.file(path.removeprefix(here) or "index.html") if path.startswith(here) else None
        if [name.lower() for name in self.headers.get_all("Host", ())] not in self.server.names:
            self.send_error(HTTPStatus.FORBIDDEN)
        elif file is None:
            self.send_error(HTTPStatus.NOT_FOUND)
        else:
            with file.open("rb") as content:
                self.send_response(HTTPStatus.OK)
                self.send_header("Content-Type", _TYPES[file.suffix])
                self.send_header("Content-Length", str(os.fstat(content.fileno()).st_size))
                self.end_headers()
                if self.command == "GET":
                    shutil.copyfileobj(content, self.wfile)

    def do_HEAD(self) -> None:
        """Answer with the headers of a file."""
        self.do_GET()

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""

    def end_headers(self) -> None:
        """Forbid caching, since the report changes, and any use by pages of other sites."""
        self.send_header("Cache-Control", "no-store")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("X-Content-Type-Options", "nosniff")
        super().end_headers()


def serve_report(make: Callable[[], Report], out: str, port: int, say: Callable[[str], None]) -> None:
    """Write the report into the folder `out`, or a temporary one, serve it, and rewrite it whenever a run changes.

    `port` 0: any free port. `say` is called with the address, whose path is a secret. Stops on Ctrl-C. Raises UserError if the
    port cannot be used.
    """
    with tempfile.TemporaryDirectory(prefix="summhay-report-") as folder:
        target = open_files(out or folder).folder
        if target is None:
            raise UserError(f"--serve writes into a folder of this machine; {out} is none")
        files = _Written(target.resolve())
        try:
            server = _Server(port, files)
        except OSError as error:
            raise UserError(f"port {port} cannot be served ({error.strerror}); give another with --port, or 0 for any") from error
        with server:
            report = make()
            report.write_page(files, live=True)
            threading.Thread(target=server.serve_forever, daemon=True).start()
            say(f"http://{HOST}:{server.server_port}{server.path}")
            written, clock = state_of([reported.run for reported in report.runs]), threading.Event()
            try:
                while not clock.wait(LOOK_EVERY_S):
                    newest = [reported.run.store.run(reported.run.run_id) for reported in report.runs]
                    if state_of(newest) != written:
                        report = make()
                        report.write_page(files, live=True)
                        written = state_of([reported.run for reported in report.runs])
            finally:
                server.shutdown()
