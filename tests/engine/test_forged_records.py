"""Wrong records with a right checksum: one line names the damaged record, and no command ends in a traceback."""

from __future__ import annotations

import copy
import json
import shutil
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_runs import SAMPLE, answered

from summhay_ray import api, cli
from summhay_ray.errors import UserError
from summhay_ray.store import Store, read_checked, with_hash
from summhay_ray.store.answers import decode, encode

pytestmark = pytest.mark.core

JUNK = st.sampled_from(
    [None, True, 0, -1, 2**63, 10**300, 1e308, -0.5, float("nan"), "", "x", "9", "\ud800", [], [[]], ["a"], {}, {"a": {}}, [{}]]
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two runs."""
    folder = tmp_path_factory.mktemp("whole") / "store"
    answered(folder)
    answered(folder, judges=["offline/judge"], name="another")
    return folder


@pytest.fixture
def store(whole: Path, tmp_path: Path) -> Path:
    """A copy of this store."""
    return Path(shutil.copytree(whole, tmp_path / "store"))


def run_of(store: Path) -> str:
    """The id of the first run."""
    return next(entry.run for entry in api.runs(str(store)) if entry.name != "another")


def newest(store: Path, run: str, kind: str) -> Path:
    """The newest record of a kind in a run."""
    named = {"record": "run.json", "plan": "plan.json"}.get(kind)
    return store / "runs" / run / named if named else max((store / "runs" / run / kind).glob("*.json"))


def forge(path: Path, change: Callable[[Any], Any]) -> None:
    """Change a record, and update its hash."""
    body = read_checked(path.read_bytes(), dict)
    path.write_bytes(with_hash(change(body)))


def ended(*words: str | Path) -> int:
    """The exit code of a command."""
    with pytest.raises(SystemExit) as stop:
        cli.main([str(word) for word in words])
    return int(stop.value.code or 0)


FORGED: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "no fields": ("record", lambda body: {"format": body["format"]}),
    "a kind that is a number": ("record", lambda body: {**body, "kind": 7}),
    "a table without its key": ("record", lambda body: {**body, "tables": [{**body["tables"][0], "key": ["zzz"]}]}),
    "a column of another type": (
        "record",
        lambda body: json.loads(
            json.dumps(body).replace(
                '"name": "output_tokens", "nullable": false, "type": "int64"',
                '"name": "output_tokens", "nullable": false, "type": "string"',
            )
        ),
    ),
    "a spec that is none": ("record", lambda body: {**body, "spec": {**body["spec"], "judges": [True]}}),
    "money below nothing": ("money", lambda body: {**body, "spent": [["", "", -5]]}),
    "money of another run": ("money", lambda body: {**body, "run": "r000000000000"}),
    "a part without a hash": (
        "commits",
        lambda body: {**body, "parts": [{**body["parts"][0], "units": {**body["parts"][0]["units"], "sha256": "../x"}}]},
    ),
    "a part with more rows": (
        "commits",
        lambda body: {**body, "parts": [{**body["parts"][0], "units": {**body["parts"][0]["units"], "rows": 10**6}}]},
    ),
}


@pytest.mark.parametrize("what", FORGED)
def test_a_run_whose_record_does_not_fit_is_damaged_and_the_others_are_read(
    what: str, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, (kind, change) = run_of(store), FORGED[what]
    path = newest(store, run, kind)
    forge(path, change)
    assert ended("status", run, "--store", store) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert (path.name in line or "parts" in line) and f"run summhay doctor --store {store}" in line
    assert ended("doctor", "--store", store) == 1
    assert f"run {run}" in capsys.readouterr().out
    listed = {entry.name: entry.status for entry in api.runs(str(store))}
    assert listed["another"] == "done"


@pytest.mark.parametrize("kind", ["starts", "plan"])
def test_a_record_of_a_start_that_does_not_fit_counts_as_missing_and_is_a_problem(kind: str, store: Path) -> None:
    run = run_of(store)
    if kind == "plan":
        (store / "runs" / run / "plan.json").write_bytes(with_hash({"stages": [{"stage": "judge"}]}))
    else:
        forge(newest(store, run, kind), lambda body: {**body, "budget_usd": "much"})
    found = api.status(run, str(store))
    assert found.status == "done" and any(f"/{kind}" in line and "is damaged" in line for line in found.problems)


@pytest.mark.parametrize("content", [b"[]", b'{"format": "3"}', b"[" * 5000])
def test_a_format_that_is_none_is_damaged(content: bytes, store: Path) -> None:
    (store / "format.json").write_bytes(content)
    with pytest.raises(UserError, match=r"format.json is damaged"):
        Store(str(store))


def places_in(body: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of values within a JSON value."""
    items = body.items() if isinstance(body, dict) else list(enumerate(body))[:2] if isinstance(body, list) else ()
    for name, inner in items:
        yield (*at, name)
        yield from places_in(inner, (*at, name))


@given(st.data())
def test_no_json_with_a_right_hash_ends_a_command(
    whole: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    store = Path(shutil.copytree(whole, tmp_path_factory.mktemp("forged") / "store"))
    run = run_of(store)
    kind = data.draw(st.sampled_from(["record", "money", "commits", "starts", "drivers", "beat", "end.json"]))
    if kind in ("drivers", "beat", "end.json"):
        path = store / "drivers" / f"00000001.{'json' if kind == 'drivers' else kind}"
    else:
        path = newest(store, run, kind)
    body = copy.deepcopy(json.loads(path.read_bytes()))
    had_hash = body.pop("sha256", None)
    place = data.draw(st.sampled_from(list(places_in(body))))
    inner = body
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = data.draw(JUNK)
    path.write_bytes(with_hash(body) if had_hash else json.dumps(body).encode())
    for command in (("doctor",), data.draw(st.sampled_from([("status", run), ("runs",), ("score", run)]))):
        assert ended(*command, "--store", store) in (0, 1, 2)


def line(head: bytes, body: bytes) -> bytes:
    return b"%08x %d %d %s%s\n" % (zlib.crc32(head + body), len(head), len(body), head, body)


@pytest.mark.parametrize("head", [b"[" * 5000, b'{"kind": "answer"}'])
def test_a_forged_line_of_the_log_is_one_damaged_record(head: bytes, store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_of(store)
    before = api.status(run, str(store))
    (store / "answers/forged.jsonl").write_bytes(line(head, b'{"text": "x"}'))
    found = api.status(run, str(store))
    assert (found.damaged, found.usd, found.usage) == (1, before.usd, before.usage)
    assert ended("doctor", "--store", store) == 1
    assert f"{store}/answers/forged.jsonl: 1 record damaged, at byte 0" in capsys.readouterr().out


@pytest.mark.parametrize("micros", ["-5000000", "1e308", "9" * 4000])
def test_no_forged_price_changes_what_is_spent(micros: str, store: Path) -> None:
    run = run_of(store)
    before = api.status(run, str(store)).usd
    file = next((store / "answers").iterdir())
    record = decode(file.read_bytes().splitlines(keepends=True)[0])
    assert record is not None
    head, body = (json.dumps(fields).encode() for fields in ({**record, "usd_micros": "PRICE", "run": run}, {"text": "x"}))
    file.with_name("forged.jsonl").write_bytes(line(head.replace(b'"PRICE"', micros.encode()), body))
    assert api.status(run, str(store)).usd == before


def test_an_answer_whose_body_does_not_fit_is_asked_for_again_once(store: Path) -> None:
    run = run_of(store)
    shutil.rmtree(store / "runs" / run)
    for file in (store / "answers").iterdir():
        first, *others = file.read_bytes().splitlines(keepends=True)
        record = decode(first)
        if record is not None and record["run"] == run:
            file.write_bytes(encode({**record, "text": 7}) + b"".join(others))
            n = len(others)
    fields = {"store": str(store), "executor": "inline"}
    assert api.run(SAMPLE, **fields).calls == {"made": 1, "reused": n, "failed": 0}
    shutil.rmtree(store / "runs" / run)
    assert api.run(SAMPLE, **fields).calls == {"made": 0, "reused": n + 1, "failed": 0}
    assert ended("doctor", "--store", store) == 1
