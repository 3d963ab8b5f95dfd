"""The tables of an ETHIC run. Part of the ethic folder.

Scores are no column: they are made of these rows and the raw answers' texts, so that a better reading costs no call.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from summhay_ray.benchmark import Table


@dataclass(frozen=True, slots=True)
class EthicAnswer:
    """One model on one record."""

    item_id: Annotated[str, "the item: model@task/domain/ID"]
    model: Annotated[str, "model as the spec names it"]
    task: Annotated[str, "Recalling, Summarizing, Organizing, Attributing or Lookup"]
    domain: Annotated[str, "Books, Debates, Medicine, Law, or one of one's own"]
    record: Annotated[str, "ID of the record"]
    document: Annotated[str, "source document: records of one are alike"]
    outcome: Annotated[str, "answered, failed; skipped or zero for a prompt beyond the window, by the spec's over_length"]
    tokens: Annotated[int, "tokens of the whole prompt in the model's tokenizer, before anything was left out"]
    shown_tokens: Annotated[int, "tokens of the prompt that was sent, 0 where none was"]
    truncated: Annotated[bool, "the middle of the context was left out, since the prompt was beyond the window"]
    gold: Annotated[tuple[str, ...], "the record's labels; of Organizing the order, of Summarizing nothing"]
    sections: Annotated[tuple[int, ...], "numbers of the context's sections, of Summarizing alone"]
    section_tokens: Annotated[tuple[int, ...], "their lengths"]
    key: Annotated[str, "the raw answer, empty where there is none"]


@dataclass(frozen=True, slots=True)
class SectionRating:
    """What a judge says of one section's summary by one criterion."""

    item_id: Annotated[str, "the item"]
    judge: Annotated[str, "judge as the spec names it"]
    section: Annotated[str, "the section's number; as the answer's header has it where reading is release"]
    reading: Annotated[str, "whose pair of texts is rated: both, ours, or release (the scripts' alone)"]
    place: Annotated[float, "where the section stands: 0 is the context's beginning, 1 its end"]
    criterion: Annotated[str, "con, faith or rel"]
    value: Annotated[float | None, "rating, 1..5: over the scale's probability mass alone; null where none can be read"]
    released: Annotated[float, "the same as the authors' scripts have it: not renormalised"]
    mass: Annotated[float | None, "probability of all scores together; null without log probabilities"]
    how: Annotated[str, "logprobs, samples or text; malformed where no rating can be read"]
    summary_tokens: Annotated[int, "tokens of the section's summary"]
    key: Annotated[str, "the judge's first raw answer"]


ANSWERS = Table("ethic_answers", EthicAnswer, ("item_id",))
RATINGS = Table("section_ratings", SectionRating, ("item_id", "judge", "section", "reading", "criterion"))
