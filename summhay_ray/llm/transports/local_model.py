"""The contract of a model that runs in this process and needs no key. `llm` defines it; the rooms above implement it.

A gateway gets these models together with the settings of all models. Their answers take the same path as paid ones: key, log,
limits, budget, outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

from summhay_ray.llm.messages.request import Request


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


@dataclass(frozen=True)
class Generation:
    """A batch of requests whose answers a model generates token by token."""

    requests: Sequence[Request]
    answered: Callable[[int, str], None]
    """To be called with a request's index and its whole answer, as soon as that is complete."""
    goes_on: Callable[[int, int], bool]
    """To be called after each token, with the tokens of each answer so far and the most that there may be. False: generate no
    more; answers that are not complete are dropped."""


@runtime_checkable
class GeneratingModel(LocalModel, Protocol):
    """A local model that takes minutes for an answer: it answers several requests together, and stops at the next token.

    Both methods are called in a single thread, with requests of equal sampling parameters. They raise what `answer` does.
    """

    reads_sampling: ClassVar[bool] = True

    def batches(self, requests: Sequence[Request], most: int) -> Sequence[Sequence[int]]:
        """Divide requests, by their indices, into batches of at most `most` that fit into memory."""
        ...

    def generate(self, generation: Generation) -> None:
        """Generate the answers of one batch."""
        ...
