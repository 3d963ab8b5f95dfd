"""Records from a hub: a server on this machine serves files at a revision, as the Hugging Face hub does."""

from __future__ import annotations

import io
import json
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import summhay_ray
from summhay_ray.benchmarks.ethic.spec import HUB, REVISION
from summhay_ray.errors import SpecError

pytestmark = pytest.mark.core

huggingface_hub = pytest.importorskip("huggingface_hub")
FRAME = "### Context:\n{}\n\nNow, respond to the instruction.\n\n### Instruction:\nName them.\n\nAnswer:"


@dataclass
class Hub:
    """Files by path below the data set at REVISION, and what was asked for."""

    files: dict[str, bytes]
    asked: list[str] = field(default_factory=list)
    base: str = ""


@contextmanager
def serving(files: dict[str, bytes]) -> Iterator[Hub]:
    hub = Hub(files)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            hub.asked.append(f"{self.command} {self.path}")
            head = f"/datasets/{HUB}/resolve/{REVISION}/"
            content = hub.files.get(self.path.removeprefix(head)) if self.path.startswith(head) else None
            self.send_response(404 if content is None else 200)
            if content is None:
                known = self.path.startswith(head)
                self.send_header("X-Error-Code", "EntryNotFound" if known else "RevisionNotFound")
            else:
                self.send_header("ETag", f'"{len(content)}"')
                self.send_header("X-Repo-Commit", REVISION)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content or b"")

        do_HEAD = do_GET

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    hub.base = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def packed(task: str, *records: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr(f"test_{task}.jsonl", "".join(json.dumps(one) + "\n" for one in records))
    return out.getvalue()


def record(answer: Any) -> dict[str, Any]:
    context = "Anna said so. Then Boris said so."
    head = {"ID": "1", "Domain": "Books", "Context": context, "System_msg": "Read."}
    return {**head, "User_msg": FRAME.format(context), "Answer": answer}


def test_records_come_from_the_hub_at_their_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    files = {
        "recalling.zip": packed("recalling", record(["Anna", "Boris"])),
        "organizing.zip": packed("organizing", record("[2], [1]")),
    }
    spec = {"kind": "ethic", "models": ["offline/names", "offline/order"], "executor": "inline"}
    with serving(files) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.base)
        data = {"hub": HUB, "revision": REVISION, "tasks": ["Recalling", "Organizing"]}
        found = summhay_ray.run({**spec, "data": data}, store=str(tmp_path / "store"))
        assert {one["task"]: one["n_expected"] for one in found.to_json()["tasks"]} == {"Recalling": 1, "Organizing": 1}
        assert all(f"/datasets/{HUB}/resolve/{REVISION}/" in one for one in hub.asked)
        with pytest.raises(
            SpecError, match=rf"^spec: data: {HUB}/attributing\.zip at {REVISION} cannot be fetched \(.*; fetch it"
        ):
            summhay_ray.run({**spec, "data": {"tasks": ["Attributing"]}}, store=str(tmp_path / "store"))
        with pytest.raises(SpecError, match="at 0000000 cannot be fetched"):
            summhay_ray.run({**spec, "data": {**data, "revision": "0000000"}}, store=str(tmp_path / "store"))
    # The run has its records in the store: the hub is asked no more.
    assert summhay_ray.score(found.run, str(tmp_path / "store")).details["tasks"] == found.to_json()["tasks"]  # type: ignore[union-attr]
