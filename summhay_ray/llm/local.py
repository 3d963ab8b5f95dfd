"""The contract of a model that runs in this process and needs no key. Imported by `llm`; written in the rooms above.

Such a model is registered with litellm as a custom provider (`summhay_ray.llm.custom`), so that its answers take the very
path of a paid answer: key, log, limits, budget, outcome.
"""

from __future__ import annotations

from typing import ClassVar, Protocol

from summhay_ray.llm.request import Request


class LocalModel(Protocol):
    """`name` is what a spec writes: the whole of it (`offline/support`), or up to the slash for a family (`replay/`)."""

    name: ClassVar[str]
    revision: ClassVar[str]
    """Part of every request's key: raise it when answers change, so that no answer of an older revision is taken for one."""

    def answer(self, request: Request) -> str:
        """The answer's text, from the request's prompt (and `lookup`, for replay). Deterministic.

        Raises LookupError, saying what is missing, where there is no answer to give.
        """
        ...
