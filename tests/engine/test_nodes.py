"""A run on a Ray cluster of two nodes gives the same tables as on one node."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from runs import summhay, write_spec

pytestmark = [pytest.mark.soak, pytest.mark.ray, pytest.mark.timeout(500)]

LOCAL_CLUSTER = Path(__file__).resolve().parents[2] / "cluster" / "local.py"


def test_two_nodes_give_the_tables_of_one(tmp_path: Path) -> None:
    fields = {
        "haystacks": ["sample/conversation"],
        "retrievers": ["random", "full"],
        "orderings": ["given", "middle"],
        "token_budget": 1500,
        "summarizers": ["offline/support", "offline/lead"],
        "workers": 3,
        "executor": "ray",
    }
    spec = write_spec(tmp_path, fields)
    cluster = subprocess.Popen(
        [sys.executable, str(LOCAL_CLUSTER), "2"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert cluster.stdout is not None
        line = cluster.stdout.readline()
        assert line.startswith("2 nodes; summhay run SPEC --address "), line or cluster.communicate(timeout=120)[1]
        result = summhay("run", spec, "--store", tmp_path / "two", "--address", line.split()[-1])
    finally:
        cluster.send_signal(signal.SIGINT)
        cluster.communicate(timeout=120)
    alone = summhay("run", spec, "--store", tmp_path / "one", "--executor", "inline")
    assert result["systems"] == alone["systems"]
    tables = [summhay("status", result["run"], "--store", tmp_path / name)["tables"] for name in ("two", "one")]
    assert tables[0] == tables[1]
