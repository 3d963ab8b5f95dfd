"""A synthesis on Ray continues after a kill of another executor, and gives the same haystacks as an undisturbed one."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest
from runs import SUMMHAY, kill, log_records, summhay, wait_for_answers, write_spec
from synth_runs import run_inline

from summhay_ray import api
from summhay_ray.store import Store

WRITER = {"model": "offline/writer", "max_tokens": 600, "price": {"input_per_mtok": 1.0, "output_per_mtok": 2.0}}
MANY = {
    "domain": "conversation",
    "topics": {"made_up": 6},
    "subtopics": 3,
    "insights": 3,
    "documents": 12,
    "words": 150,
    "models": {"outline": WRITER, "write": WRITER},
    "workers": 1,
    "seed": 5,
}


def answers_of(store: Path) -> Counter[str]:
    """Key -> answers in the response log."""
    return Counter(record["key"] for record in log_records(store))


@pytest.mark.ray
@pytest.mark.soak
def test_what_was_answered_is_not_asked_again(tmp_path: Path) -> None:
    spec, store = write_spec(tmp_path, MANY), tmp_path / "store"
    command = [str(SUMMHAY), "synth", str(spec), "--store", str(store), "--executor", "inline"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert wait_for_answers(process, store, len(log_records(store)) + 20)
    kill(process)
    before = answers_of(store).total()
    assert before > 0
    done = summhay("synth", spec, "--store", store, "--out", tmp_path / "out", "--executor", "ray")
    assert (done["executor"], done["status"], done["cells"]) == ("ray", "done", {"total": 6, "done": 6, "failed": 0})
    answers = answers_of(store)
    assert max(answers.values()) == 1 and done["calls"]["made"] == answers.total() - before
    assert len(list((tmp_path / "out").iterdir())) == 6

    # No Ray is started, and no call is made.
    again = api.synth(spec, str(store))
    assert (again.executor, again.calls["made"], again.to_json()["haystacks"]) == ("", 0, done["haystacks"])

    # An undisturbed synthesis without Ray gives the same bytes.
    clean, told = run_inline(api.load(MANY), Store(str(tmp_path / "clean")))
    assert clean.run_id == done["run"]
    assert api.status(done["run"], str(store)).tables == clean.digests()
    assert told.to_json()["haystacks"] == done["haystacks"]
    files = api.export(clean.run_id, tmp_path / "inline", clean.store.uri)
    assert {file.name: file.read_bytes() for file in files} == {
        file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()
    }
