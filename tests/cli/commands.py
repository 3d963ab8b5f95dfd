"""The command line as a separate process, its answers, and small files and specs for it."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

SUMMHAY = Path(sys.executable).with_name("summhay")
PATIENCE_S = 240.0
TERMINAL = {"TERM": "xterm-256color", "COLUMNS": "100"}
GPT, BM25 = "gpt-4o", "bm25_gpt-4o"


@dataclass(frozen=True)
class Said:
    """The answer of a command."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """The one JSON document on stdout."""
        assert self.out.count("\n") == 1
        parsed: dict[str, Any] = json.loads(self.out)
        return parsed

    @property
    def refusal(self) -> str:
        """The one line of a refusal. Nothing else is printed, and the line has no control characters."""
        assert (self.code, self.out) == (2, ""), self
        assert self.err.startswith("summhay: ")
        assert self.err.endswith("\n")
        assert self.err[:-1].isprintable()
        return self.err[len("summhay: ") : -1]


def command(*arguments: str | Path, **options: Any) -> Said:
    """Run a command like a user."""
    line = [str(SUMMHAY), *map(str, arguments)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE_S, check=False, **options)
    return Said(done.returncode, done.stdout, done.stderr)


def on_terminal(*arguments: str | Path) -> Said:
    """Run a command with stderr on a terminal of 100 columns; stdout is a pipe."""
    ours, theirs = pty.openpty()
    line = [str(SUMMHAY), *map(str, arguments)]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=theirs, env=os.environ | TERMINAL)
    os.close(theirs)
    said, end = b"", time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if select.select([ours], [], [], 0.2)[0]:
            try:
                said += os.read(ours, 65536)
            except OSError:  # the other side is closed
                break
    os.close(ours)
    out, _ = process.communicate(timeout=PATIENCE_S)
    return Said(process.returncode, out.decode(), said.decode())


def write_spec(folder: Path, fields: Mapping[str, Any]) -> Path:
    """The spec as a file in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "spec.yaml"
    path.write_text(yaml.safe_dump(dict(fields)), encoding="utf-8")
    return path


def released(topic: str = "Harbour news") -> dict[str, Any]:
    """A released file: one query with three insights, three documents, and two systems with some judgments."""
    judged = [
        {"coverage": "FULL_COVERAGE", "bullet_id": 1, "insight_id": "toll"},
        {"coverage": "PARTIAL_COVERAGE", "bullet_id": 2, "insight_id": "crane"},
        {"coverage": "NO_COVERAGE", "bullet_id": "NA", "insight_id": "lamp"},
    ]
    unusable = [{"coverage": "FULL_COVERAGE", "bullet_id": "NA", "insight_id": "lamp"}]
    return {
        "topic": topic,
        "subtopics": [
            {
                "subtopic_id": "harbour",
                "subtopic": "The harbour",
                "query": "What happened in the harbour?",
                "insights": [
                    {"insight_id": "toll", "insight": "The toll was doubled."},
                    {"insight_id": "crane", "insight": "A crane broke."},
                    {"insight_id": "lamp", "insight": "The lamp went out."},
                ],
                "retriever": {"bm25": {"d1": 2.0, "d2": 1.0, "d3": 0.0}},
                "summaries": {
                    f"summary_subtopic_{GPT}": ["The toll doubled [1][2].", "A crane [3]."],
                    f"summary_subtopic_{BM25}": ["\x1b[31mThe toll\x07 [1].", "Nothing."],
                },
                "eval_summaries": {f"summary_subtopic_{GPT}": judged, f"summary_subtopic_{BM25}": [judged[0], *unusable]},
            }
        ],
        "documents": [
            {
                "document_id": "d1",
                "document_text": "The toll was doubled.",
                "insights_included": ["toll"],
                "odd": [1, {"a": None}],
            },
            {"document_id": "d2", "document_text": "Toll. A crane.\x00\x1b[2J", "insights_included": ["toll", "crane"]},
            {"document_id": "d3", "document_text": "", "insights_included": ["crane", "lamp"]},
        ],
    }


def write_json(path: Path, content: Any) -> Path:
    """`content` as a JSON file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="ascii")
    return path


def files_below(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, with its content."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
