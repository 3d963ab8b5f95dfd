"""Records from the Hub, at a revision."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from local_hub import local_hub

import summhay_ray
from summhay_ray.benchmarks.ethic.spec import HUB, REVISION
from summhay_ray.errors import SpecError

pytestmark = pytest.mark.core

huggingface_hub = pytest.importorskip("huggingface_hub")
FRAME = "### Context:\n{}\n\nNow, respond to the instruction.\n\n### Instruction:\nName them.\n\nAnswer:"


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
    with local_hub(HUB, REVISION, files) as hub:
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
    # The run has its records in the store, and does not ask the hub again.
    assert summhay_ray.score(found.run, str(tmp_path / "store")).details["tasks"] == found.to_json()["tasks"]  # type: ignore[union-attr]
