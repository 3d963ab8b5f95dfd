"""Retrieval by your own search service: `{search: NAME, api_base: URL, ...}`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

from summhay_ray.retrieve.base import BadRanking, Models, Ranked
from summhay_ray.retrieve.corpus import Corpus, Query


@runtime_checkable
class Searches(Protocol):
    """Models that can query a search service."""

    async def search(self, service: str, query: str, corpus: str) -> Any:
        """Return the JSON with which the service answers a query; None if a plan does not know it yet."""
        ...


@dataclass(frozen=True, slots=True)
class Fields:
    """The places of results in a service's answer. Names of nested fields are joined by dots."""

    results: str = ""
    """The field with the list of results, best first; empty: the answer itself is the list."""
    id: str = ""
    """The field of a result with the document's id. If this and `text` are empty, the result itself is the id."""
    text: str = ""
    """The field of a result with a text of the document: the whole text or a passage."""


@dataclass(frozen=True)
class Search:
    """Ranks documents in the order in which a service returns them. If several results are from one document, the first
    counts."""

    whole: ClassVar[bool] = False
    name: str
    fields: Fields

    async def rank_with(self, models: Models, queries: Sequence[Query], corpus: Corpus) -> list[list[Ranked]]:
        """See `ModelRetriever`. Raises BadRanking for an answer without these fields, or with a result that is not a document."""
        if not isinstance(models, Searches):
            raise BadRanking(f"{self.name}: a search service cannot be asked here")
        answers = [await models.search(self.name, query.text, corpus.name) for query in queries]
        return [self._ranked(answer, corpus) for answer in answers]

    def _ranked(self, answer: Any, corpus: Corpus) -> list[Ranked]:
        if answer is None:
            return [Ranked(number, -float(number)) for number in range(1, len(corpus.texts) + 1)]
        by_text = bool(self.fields.text)
        results = self._inside(answer, self.fields.results)
        if not isinstance(results, list):
            where = f"in {self.fields.results!r}" if self.fields.results else "as its answer"
            raise BadRanking(f"{self.name}: expected a list {where}, found {type(results).__name__}; name the field as results")
        places = {document_id: number for number, document_id in enumerate(corpus.document_ids, start=1)}
        texts = [" ".join(text.split()) for text in corpus.texts] if by_text else []
        numbers: dict[int, None] = {}
        for result in results:
            value = self._inside(result, self.fields.text or self.fields.id)
            number = places.get(str(value)) if not by_text and isinstance(value, str | int) else None
            if by_text and (wanted := " ".join(value.split()) if isinstance(value, str) else ""):
                number = next((number for number, text in enumerate(texts, start=1) if wanted in text), None)
            if number is None:
                kind = "text of" if by_text else "id of"
                raise BadRanking(f"{self.name}: {str(value)[:80]!r} is the {kind} no document of {corpus.name!r}")
            numbers.setdefault(number)
        return [Ranked(number, float(len(numbers) - place)) for place, number in enumerate(numbers)]

    def _inside(self, value: Any, path: str) -> Any:
        """Return the field of an answer at a path of names joined by dots. Raise BadRanking."""
        for name in path.split(".") if path else ():
            if not isinstance(value, Mapping) or name not in value:
                has = f"fields {', '.join(map(str, value))[:200]}" if isinstance(value, Mapping) else type(value).__name__
                raise BadRanking(f"{self.name}: no field {name!r} (of {path!r}) in what it answers, which has {has}")
            value = value[name]
        return value
