"""What every workload has whose spec has `retrievers`."""

from __future__ import annotations

import functools
from typing import Any, TypeVar

from summhay_ray.benchmark import Inputs, Spec, SpecError, semantic_hash
from summhay_ray.benchmarks.retrieval.entries import Entry, identity_of, make_retriever, retriever_label, settled
from summhay_ray.errors import UserError

S = TypeVar("S", bound=Spec)


class WithRetrievers:
    """A workload whose spec has `retrievers`."""

    spec: Any
    inputs: Inputs

    @functools.cached_property
    def retrievers(self) -> dict[str, str | Entry]:
        """What tables call each retriever -> its entry in the spec."""
        return {retriever_label(entry): entry for entry in self.spec.retrievers}

    @functools.cached_property
    def made(self) -> dict[str, Any]:
        """What tables call each retriever -> the retriever."""
        return {label: make_retriever(entry, self.spec.seed, self.run_file) for label, entry in self.retrievers.items()}

    def is_whole(self, retriever: str) -> bool:
        """Whether a retriever's ranking is the corpus itself, in no order of its own."""
        return bool(self.made[retriever].whole)

    def run_file(self, path: str) -> str:
        """The text of a file of rankings that the spec names."""
        return self.inputs.text(path)

    def known(self, retriever: str) -> Any:
        """What makes a retriever the one that it is."""
        return identity_of(self.retrievers[retriever], self.inputs.digests())

    def known_retrievers(self) -> list[Any]:
        """What makes the run's retrievers the ones that they are, whatever the order in which the spec lists them."""
        return sorted(map(self.known, self.retrievers), key=_in_order)


def _in_order(known: Any) -> tuple[bool, str]:
    """How what is known of retrievers is sorted: names by themselves, before mappings."""
    return (False, known) if isinstance(known, str) else (True, semantic_hash(known))


def with_retrievers(spec: S, inputs: Inputs) -> S:
    """The spec with its retrievers as they are here: folders of models by their content, files read. Raises SpecError."""
    try:
        return spec.model_copy(update={"retrievers": settled(spec.retrievers, inputs)})  # type: ignore[attr-defined]
    except UserError as error:
        raise SpecError(f"spec: retrievers: {error}") from error


def check_retrievers(entries: Any) -> None:
    """Raises ValueError where two retrievers would have one name in the tables."""
    labels = [retriever_label(entry) for entry in entries]
    for index, (entry, label) in enumerate(zip(entries, labels, strict=True)):
        if label in labels[:index]:
            mend = "remove one" if isinstance(entry, str) else "give one of them another name: NAME"
            raise ValueError(f"retrievers: {label!r} is listed twice; {mend}")
