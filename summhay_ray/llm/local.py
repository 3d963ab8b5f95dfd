"""The contract of a model that runs in this process and needs no key. Imported by `llm`; written in the rooms above.

A gateway is given such models beside the settings of all. Their answers take the very path of a paid answer: key, log, limits,
budget, outcome.
"""

from __future__ import annotations

from typing import ClassVar, Protocol

from summhay_ray.llm.request import Request


class LocalModel(Protocol):
    """`name` is what a spec writes: the whole of it (`offline/support`), or up to the slash for a family (`replay/`)."""

    name: ClassVar[str]
    revision: ClassVar[str]
    """Part of every request's key: raise it when answers change, so that no answer of an older revision is taken for one.

    A model with a true `reads_sampling` is also given the request's sampling parameters, which any other never sees.
    """

    def answer(self, request: Request) -> str:
        """The answer's text, from the request's messages (and `lookup`, for replay): one, since it is deterministic.

        Called in one thread, one request after the other. Raises LookupError, saying what is missing, where there is no answer
        to give.
        """
        ...
