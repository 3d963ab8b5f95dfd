"""A model limited to 60 requests a minute beside another one: how long the other takes, against its time alone.

    python tests/perf/fairness.py

Two real runs on Ray against one simulated provider; the time is that from the model's first request to its last, as the
provider saw them. The judge answers in the worker, so that nothing but the models differ.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

for folder in ("llm", "simulator", "engine"):
    sys.path.insert(0, str(Path(__file__).parent.parent / folder))
from runs import summhay, write_spec
from simulated_provider import KEY, Simulated, simulated_provider

QUICK, SLOW = "openai/quick", "openai/slow"


def seconds(provider: Simulated, model: str) -> float:
    """From the model's first request to its last."""
    times = [call["time"] for call in provider.calls() if call["model"] == model.partition("/")[2]]
    return max(times) - min(times)


def entry(model: str, provider: Simulated) -> dict[str, Any]:
    return {
        "model": model,
        "api_base": provider.base,
        "api_key_env": "FAIRNESS_KEY",
        "price": {"input_per_mtok": 2.5, "output_per_mtok": 10},
    }


def measure(models: list[str]) -> dict[str, float]:
    """One run; model -> seconds."""
    with simulated_provider("--latency", "1", "--answers", "short") as provider, tempfile.TemporaryDirectory() as folder:
        spec = {
            "haystacks": ["sample/news", "sample/conversation"],
            "retrievers": ["random", "bm25", "keywords", "oracle"],
            "token_budget": 1500,
            "repeats": 4,
            "summarizers": [{**entry(model, provider), "temperature": 1.0} for model in models],
            "limits": {model: {"rpm": 60} if model == SLOW else {"concurrency": 8} for model in models},
        }
        summhay("run", write_spec(Path(folder), spec), "--store", Path(folder) / "store", "--budget", "100", "--executor", "ray")
        return {model: seconds(provider, model) for model in models}


def main() -> None:
    os.environ["FAIRNESS_KEY"] = KEY
    alone, beside = measure([QUICK]), measure([SLOW, QUICK])
    found = {"alone_s": alone[QUICK], "beside_s": beside[QUICK], "slow_s": beside[SLOW], "ratio": beside[QUICK] / alone[QUICK]}
    print(json.dumps({name: round(value, 3) for name, value in found.items()}))


if __name__ == "__main__":
    main()
