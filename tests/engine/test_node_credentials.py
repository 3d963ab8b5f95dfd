"""Missing credentials on a node of the cluster are reported as the node's, not as those of the user's machine."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from summhay_ray.engine.ray import worker_actor
from summhay_ray.store import NoCredentials

pytestmark = pytest.mark.core


def test_missing_credentials_are_called_the_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def bare(uri: str) -> None:
        raise NoCredentials(f"store {uri}: no credentials; give some")

    monkeypatch.setattr(worker_actor, "Store", bare)
    order = worker_actor.WorkOrder(store_uri="s3://bucket/x", run_id="r1", session=1, record={}, workers=1)
    with pytest.raises(NoCredentials, match=f"^node {socket.gethostname()}: store s3://bucket/x: no credentials"):
        worker_actor.open_place(order)
