"""A run whose record is damaged: whoever reads the run says which file and field, in one line, and never ends in a traceback."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_runs import SAMPLE, answered
from test_bad_inputs import ANY, DATA, refusal, succeeds_or_tells

from summhay_ray import api
from summhay_ray.store.runs import runs

pytestmark = pytest.mark.core


def commands(run: str, store: str, folder: Path) -> Mapping[str, Callable[[], object]]:
    """Every command that reads a run."""
    return {
        "status": lambda: api.status(run, store),
        "explain": lambda: api.explain(run, "0", store),
        "failures": lambda: api.failures(run, store),
        "score": lambda: api.score(run, store),
        "export": lambda: api.export(run, folder / "out", store),
        "rejudge": lambda: api.rejudge(run, ["offline"], store, 0.0, address="nowhere:1"),
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
    **{
        f"without {name}": lambda record, name=name: json.dumps({key: record[key] for key in record if key != name}).encode()
        for name in ("kind", "spec", "prompts", "haystacks", "cells")
    },
    **{
        f"{name} of another type": lambda record, name=name: json.dumps({**record, name: 1.5}).encode()
        for name in ("kind", "name", "spec", "prompts", "haystacks", "judges", "outlines", "cells")
    },
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_damaged_record_is_told_by_every_command(what: str, finished: tuple[str, Path, dict[str, Any]]) -> None:
    for name, call in put(finished, BROKEN[what](finished[2])).items():
        line = refusal(call)
        assert "run.json is damaged" in line and "put back a copy of it" in line, (name, line)
    assert "run.json is damaged" in refusal(lambda: api.run(SAMPLE, str(finished[1]), executor="inline"))


def test_a_record_that_is_too_large_is_not_read(
    finished: tuple[str, Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "MAX_RECORD", 100)
    for call in put(finished, json.dumps(finished[2]).encode()).values():
        assert "run.json is damaged" in refusal(call)


# Each example is six commands.
@settings(ANY)
@given(st.data())
def test_any_record_gives_an_answer_or_a_problem(finished: tuple[str, Path, dict[str, Any]], data: st.DataObject) -> None:
    record = json.loads(json.dumps(finished[2]))
    place = data.draw(st.sampled_from([record, record["spec"], record["haystacks"][0]]))
    place[data.draw(st.sampled_from(sorted(place)))] = data.draw(DATA)
    run, folder, _ = finished
    calls = put(finished, json.dumps(record).encode())
    for name in ("status", "explain", "failures", "score", "labels", "compare"):
        succeeds_or_tells(calls[name])
