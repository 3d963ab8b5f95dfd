"""The built-in benchmarks, one folder each. They use the engine through `summhay_ray.benchmark`.

Importing this package loads no benchmark: the engine's registry finds each by its kind. The attribute `benchmarks.summhay`
imports that benchmark's folder on first use.
"""

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from summhay_ray.errors import UserError

if TYPE_CHECKING:
    from summhay_ray.benchmarks import coverage as coverage
    from summhay_ray.benchmarks import extract_evaluate as extract_evaluate
    from summhay_ray.benchmarks import judge_bench as judge_bench
    from summhay_ray.benchmarks import mine as mine
    from summhay_ray.benchmarks import odsum as odsum
    from summhay_ray.benchmarks import rejudge as rejudge
    from summhay_ray.benchmarks import retrieval as retrieval
    from summhay_ray.benchmarks import summhay as summhay
    from summhay_ray.benchmarks import support as support
    from summhay_ray.benchmarks import synth as synth

KINDS = {
    "coverage": "summhay_ray.benchmarks.coverage:Coverage",
    "extract_evaluate": "summhay_ray.benchmarks.extract_evaluate:ExtractEvaluate",
    "ethic": "summhay_ray.benchmarks.ethic:Ethic",
    "ethic_build": "summhay_ray.benchmarks.ethic:EthicBuild",
    "import": "summhay_ray.benchmarks.summhay:Import",
    "judge_bench": "summhay_ray.benchmarks.judge_bench:JudgeBench",
    "mine": "summhay_ray.benchmarks.mine:Mine",
    "odsum": "summhay_ray.benchmarks.odsum:Odsum",
    "odsum_build": "summhay_ray.benchmarks.odsum.build:OdsumBuild",
    "recite": "summhay_ray.benchmarks.support:Recite",
    "rejudge": "summhay_ray.benchmarks.rejudge:Rejudge",
    "retrieval": "summhay_ray.benchmarks.summhay:HaystackRetrieval",
    "summhay": "summhay_ray.benchmarks.summhay:SummHay",
    "support": "summhay_ray.benchmarks.support:SupportBench",
    "synth": "summhay_ray.benchmarks.synth:Synth",
}
"""Kind of a benchmark -> module:Class."""

__all__ = ["KINDS", "kind_of"]


def kind_of(fields: Mapping[str, Any]) -> str:
    """Return the default kind of a spec: `synth` if it has topics and no haystacks, else `summhay`. Raises UserError if the
    file is a haystack."""
    if all(isinstance(fields.get(name), list) for name in ("subtopics", "documents")):
        mend = "a spec names it, as in haystacks: [FILE.json] (summhay init writes one); summhay verify checks a haystack"
        raise UserError(f"this is a haystack and no spec; {mend}")
    return "synth" if "topics" in fields and "haystacks" not in fields else "summhay"


def __getattr__(name: str) -> Any:
    if name not in {path.split(".")[2].partition(":")[0] for path in KINDS.values()} | {"retrieval"}:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")
