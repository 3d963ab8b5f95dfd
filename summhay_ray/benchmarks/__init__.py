"""The built-in benchmarks, one folder each. They use the engine through `summhay_ray.benchmark`.

Importing this package loads none of them; the engine's registry finds each by its kind.
"""

from collections.abc import Mapping
from typing import Any

from summhay_ray.errors import UserError

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
"""Kind -> module:Class."""

__all__ = ["KINDS", "kind_of"]


def kind_of(fields: Mapping[str, Any]) -> str:
    """The default kind of a spec: `synth` if it has topics and no haystacks, else `summhay`. Raises UserError for a haystack."""
    if all(isinstance(fields.get(name), list) for name in ("subtopics", "documents")):
        mend = "a spec names it, as in haystacks: [FILE.json] (summhay init writes one); summhay verify checks a haystack"
        raise UserError(f"this is a haystack and no spec; {mend}")
    return "synth" if "topics" in fields and "haystacks" not in fields else "summhay"
