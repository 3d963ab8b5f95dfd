"""The tables of an ETHIC run, and of an `ethic_build` run.

The run's tables hold no scores. Scores are computed from the rows and the raw answers, so that a new way to read answers needs
no call.
"""

from dataclasses import dataclass
from typing import Annotated

from summhay_ray.benchmark import Table


@dataclass(frozen=True, slots=True)
class EthicAnswer:
    """The answer of one model to one record."""

    item_id: Annotated[str, "the item: model@task/domain/ID"]
    model: Annotated[str, "model as the spec names it"]
    task: Annotated[str, "Recalling, Summarizing, Organizing, Attributing or Lookup"]
    domain: Annotated[str, "Books, Debates, Medicine, Law, or your own"]
    record: Annotated[str, "ID of the record"]
    document: Annotated[str, "source document, the cluster of the intervals"]
    outcome: Annotated[str, "answered or failed; if the prompt exceeds the window, skipped or zero, by over_length in the spec"]
    tokens: Annotated[int, "tokens of the whole prompt in the model's tokenizer, before any truncation"]
    shown_tokens: Annotated[int, "tokens of the prompt that was sent; 0 if none was"]
    truncated: Annotated[bool, "whether the middle of the context was left out to fit the window"]
    gold: Annotated[tuple[str, ...], "the record's labels; for Organizing the order, for Summarizing empty"]
    sections: Annotated[tuple[int, ...], "numbers of the context's sections; only for Summarizing"]
    section_tokens: Annotated[tuple[int, ...], "cl100k tokens of these sections"]
    key: Annotated[str, "the raw answer; empty if there is none"]


@dataclass(frozen=True, slots=True)
class SectionRating:
    """The rating of one section's summary by one judge for one criterion."""

    item_id: Annotated[str, "the item"]
    judge: Annotated[str, "judge as the spec names it"]
    section: Annotated[str, "the section's number; if reading is release, as in the answer's header"]
    reading: Annotated[str, "which reading of the answer gave this pair of section and summary: ours, release, or both"]
    place: Annotated[float, "position of the section: 0 is the context's beginning, 1 its end"]
    criterion: Annotated[str, "con, faith or rel"]
    value: Annotated[float | None, "rating, 1..5, renormalized to the probability mass of the scale; null if unreadable"]
    released: Annotated[float, "the rating as the authors' scripts compute it, not renormalized"]
    mass: Annotated[float | None, "total probability of the scale's scores; null without log probabilities"]
    how: Annotated[str, "logprobs, samples, text or panel; malformed if unreadable"]
    summary_tokens: Annotated[int, "tokens of the section's summary"]
    key: Annotated[str, "the judge's first raw answer"]
    n_votes: Annotated[int, "samples that could be read; 0 for an expectation, or if unreadable"] = 0
    n_asked: Annotated[int, "samples that were requested"] = 1
    votes: Annotated[tuple[float, ...], "for a panel, the ratings of its members, in their order"] = ()
    keys: Annotated[tuple[str, ...], "for a panel, the raw answers of its members"] = ()


@dataclass(frozen=True, slots=True)
class EthicRecord:
    """A built record."""

    task: Annotated[str, "Recalling, Summarizing, Organizing, Attributing or Lookup"]
    domain: Annotated[str, "domain of the source, from the spec"]
    record: Annotated[str, "ID"]
    document: Annotated[str, "source document"]
    context: Annotated[str, "the context"]
    system: Annotated[str, "system message"]
    user: Annotated[str, "the whole prompt"]
    answer: Annotated[tuple[str, ...], "labels; for Organizing the order, for Summarizing empty"]
    meta: Annotated[str, "JSON: sha256 of the source, chunk borders in characters, labeler, prompt hash, seed, tokens"]


@dataclass(frozen=True, slots=True)
class ChunkLabels:
    """The labels of one chunk, for people to check."""

    domain: Annotated[str, "domain of the source, from the spec"]
    document: Annotated[str, "source document"]
    task: Annotated[str, "Recalling; or Lookup: a model wrote a question about the chunk, and the labels are its answer"]
    chunk: Annotated[int, "number of the chunk, from 1"]
    text: Annotated[str, "the chunk"]
    labels: Annotated[tuple[str, ...], "what the chunk contains, by the labeler"]


ANSWERS = Table("ethic_answers", EthicAnswer, ("item_id",))
RATINGS = Table("section_ratings", SectionRating, ("item_id", "judge", "section", "reading", "criterion"))
MADE = Table("ethic_records", EthicRecord, ("task", "domain", "record"), texts=("context", "system", "user"))
"""Built records; `run/ID` in `data` of an ETHIC run reads this table."""
LABELS = Table("ethic_labels", ChunkLabels, ("domain", "document", "task", "chunk"), texts=("text",))
