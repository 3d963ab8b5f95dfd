"""A run whose record is damaged: whoever reads the run says which file and field, in one line, and never ends in a traceback."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from inline_runs import SAMPLE, answered
from test_bad_inputs import refusal

from summhay_ray import api

pytestmark = pytest.mark.core


def commands(run: str, store: str, folder: Path) -> Mapping[str, Callable[[], object]]:
    """Every command that reads a run."""
    return {
        "status": lambda: api.status(run, store),
        "explain": lambda: api.explain(run, "0", store),
        "failures": lambda: api.failures(run, store),
        "score": lambda: api.score(run, store),
        "export": lambda: api.export(run, folder / "out", store),
        "rejudge": lambda: api.rejudge(run, ["offline"], store, budget=0.0, address="nowhere:1"),
        "audit": lambda: api.audit(run, folder / "sheet.csv", store),
        "labels": lambda: api.audited(run, folder / "labels.csv", store),
        "compare": lambda: api.compare(run, store=store),
    }


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, dict[str, Any]]:
    """A grid's run: its id, its store and its record."""
    folder = tmp_path_factory.mktemp("finished")
    _, run = answered(folder)
    return run.run_id, folder, run.record


def put(finished: tuple[str, Path, dict[str, Any]], content: bytes) -> Mapping[str, Callable[[], object]]:
    run, folder, _ = finished
    (folder / "runs" / run / "run.json").write_bytes(content)
    (folder / "labels.csv").write_text("row,answer\n")
    return commands(run, str(folder), folder)


BROKEN: dict[str, Callable[[dict[str, Any]], bytes]] = {
    "empty": lambda record: b"",
    "no JSON": lambda record: b"\xff{",
    "no object": lambda record: b"[]",
    "an empty object": lambda record: b"{}",
    "too deep": lambda record: b'{"kind":' + b"[" * 100_000,
    "cells of another type": lambda record: json.dumps({**record, "cells": 1.5}).encode(),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_damaged_record_is_told_by_every_command(what: str, finished: tuple[str, Path, dict[str, Any]]) -> None:
    for name, call in put(finished, BROKEN[what](finished[2])).items():
        line = refusal(call)
        assert "run.json is damaged" in line and "put back a copy of it" in line, (name, line)
    assert "run.json is damaged" in refusal(lambda: api.run(SAMPLE, str(finished[1]), executor="inline"))
