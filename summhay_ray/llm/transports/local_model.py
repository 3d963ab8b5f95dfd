"""The contract of a model that runs in this process and needs no key. `llm` defines it; the rooms above implement it.

A gateway gets these models together with the settings of all models. Their answers take the same path as paid ones: key, log,
limits, budget, outcome.
"""

from __future__ import annotations

from typing import ClassVar, Protocol

from summhay_ray.llm.calls.request import Request


class LocalModel(Protocol):
    """A model in this process. `name` is its full name in a spec (`offline/support`), or the prefix of a family (`replay/`)."""

    name: ClassVar[str]
    revision: ClassVar[str]
    """Part of every request's key. Change it when the answers change, so that no answer of an older revision is reused. One that
    begins with `sha256:` is a hash of the model's files, and part of the run's id.

    Only a model with a true attribute `reads_sampling` gets the request's sampling parameters.
    """

    def answer(self, request: Request) -> str:
        """The text of the answer to the request's messages (for replay, to its `lookup`). It must be deterministic.

        Called in a single thread, one request after the other. Raises LookupError, with a message that says what is missing, if
        there is no answer.
        """
        ...
