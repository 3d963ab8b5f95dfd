"""Only Ray's public API is used: no module or name that begins with an underscore, and not its internal key-value store."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PRIVATE = re.compile(r"\bray(\.\w+)*\._(?!_)\w+|\bfrom ray(\.\w+)* import [^\n]*\b_(?!_)\w+|\b_raylet\b|\binternal_kv")


def private_names(text: str) -> list[str]:
    """Every private name of Ray in a source."""
    return [found[0] for found in PRIVATE.finditer(text)]


def test_nothing_of_rays_own_is_used() -> None:
    sources = [
        path for folder in ("summhay_ray", "jobs", "cluster", "tests", "examples") for path in (ROOT / folder).rglob("*.py")
    ]
    assert len(sources) > 100
    found = {str(path.relative_to(ROOT)): names for path in sources if (names := private_names(path.read_text("utf-8")))}
    found.pop(str(Path(__file__).relative_to(ROOT)), None)
    assert not found


def test_the_gate_finds_them() -> None:
    assert private_names("import ray._private.worker") and private_names("ray._private.state.state.get_draining_nodes()")
    assert private_names("from ray import _raylet") and private_names("from ray.autoscaler._private.util import prepare_config")
    assert private_names("from ray.experimental.internal_kv import _internal_kv_get")
    public = "from ray.autoscaler.v2.sdk import get_cluster_status\nfrom summhay_ray._x import _y\nray.util.metrics.Gauge"
    assert not private_names(public)
