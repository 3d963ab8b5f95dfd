"""Summary of a Haystack on Ray: the public Python interface, such as `summhay_ray.run(spec, store=...)`, `plan` and `score`.

Importing the package loads nothing else. `summhay_ray.api` is loaded when one of its functions is first used.
"""

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from summhay_ray.api import *

__version__ = "0.1.0"
__all__ = [
    "accept",
    "audit",
    "audited",
    "bench_support_judges",
    "clean",
    "check_pairs",
    "compare",
    "compare_systems",
    "coverage",
    "delete_answers",
    "doctor",
    "explain",
    "export",
    "export_tables",
    "failures",
    "import_collection",
    "import_released",
    "judge_bench",
    "label",
    "make_report",
    "mine",
    "plan",
    "recite",
    "rejudge",
    "release",
    "results",
    "run",
    "runs",
    "score",
    "show_text",
    "status",
    "stop",
    "submit",
    "support",
    "synth",
    "table",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'summhay_ray' has no attribute {name!r}")
    return getattr(importlib.import_module("summhay_ray.api"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


class _Package(ModuleType):
    """The class of this package. Importing the subpackage `mine` or `synth` does not replace the function of the same name."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in __all__ and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
