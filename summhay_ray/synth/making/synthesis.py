"""Makes a verified haystack, as released JSON with its settings, or reports the reason for the failure.

The stages follow Laban et al., "Summary of a Haystack", section 3.2 and appendix A.1: outline, placement, documents, each with
its verification. The format is that of the paper's published data, which `summhay_ray.haystack` reads. We have added
`topic_metadata.synthesis`, and queries about subjects that no document mentions.
"""

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources
from typing import Any

from summhay_ray.errors import UserError
from summhay_ray.outcome import Malformed, Refusal
from summhay_ray.synth.checking.verifier import NotChecked, Verifier
from summhay_ray.synth.making import kinds
from summhay_ray.synth.making.asking import GROUP_OF, GaveUp, TopicRecipe, Work, gave_up
from summhay_ray.synth.making.documents import write_documents
from summhay_ray.synth.making.domains import TASKS
from summhay_ray.synth.making.outline import make_outline
from summhay_ray.synth.making.placement import check_placement, place
from summhay_ray.text import FUNCTION_WORDS, root, text_hash

OFFLINE = "offline/"
_MANNER = ("genre", "tone", "language", "method", "tries", "rounds", "outline_rounds")
"""Fields of the domain that determine texts, in addition to its prompts."""
SUBJECTS = "absent_subjects.txt"
_GAP, _FORM = "\0", "What do the documents report about \0?"
_WORD = re.compile(r"[^\W\d_]+")


async def synthesize(
    recipe: TopicRecipe, asker: kinds.Asker, make_verifier: Callable[[str, kinds.Asker, kinds.Input], Verifier] = Verifier
) -> kinds.Synthesized | kinds.Unverified:
    """Return the haystack of the recipe with all checks, or the stage that gave up and the reason.

    The same answers give the same result. Raises only what cannot be recorded: a full disk, a store that does not answer, a bug.
    """
    work = Work(recipe, asker)
    verifier = make_verifier(recipe.cell_id, work, recipe.input_fields)
    try:
        with _shaping("subtopics"):
            check_placement(recipe.shape, recipe.difficulty, recipe.domain)
        outline = await make_outline(work, verifier)
        with _shaping("documents"):
            planned = place(outline, recipe.shape, recipe.difficulty, recipe.domain, recipe.seed)
        written = await write_documents(work, verifier, outline, planned)
        absent = absent_subjects([one.text for one in written], recipe.absent, f"{recipe.topic.name} {recipe.seed}")
        if len(absent) < recipe.absent:
            message = f"the documents speak of all but {len(absent)} of the known subjects; lower absent"
            raise GaveUp("queries", "too_few_absent", message)
    except NotChecked as unchecked:
        return _unverified(gave_up("verification", unchecked.task, unchecked.outcome), work, verifier)
    except GaveUp as reason:
        return _unverified(reason, work, verifier)
    models = {task: asker.model(task) for task in TASKS}
    raw = released_json(recipe, outline, written, models, sum(work.costs.values()), absent)
    return kinds.Synthesized(raw, verifier.checks)


@contextmanager
def _shaping(stage: str) -> Iterator[None]:
    """Turn a UserError about the haystack's shape into GaveUp. A UserError from asking a model propagates."""
    try:
        yield
    except UserError as problem:
        raise GaveUp(stage, "shape", str(problem)) from problem


def _unverified(reason: GaveUp, work: Work, verifier: Verifier) -> kinds.Unverified:
    outcome = reason.outcome
    return kinds.Unverified(
        stage=reason.stage,
        error=reason.error,
        message=reason.message,
        checks=verifier.checks,
        retryable=getattr(outcome, "retryable", False),
        usd_micros=sum(work.costs.values()),
        key=outcome.key if outcome else "",
        attempts=outcome.attempts if outcome else 0,
        kind="refusal" if isinstance(outcome, Refusal) else "malformed" if isinstance(outcome, Malformed) else "failed",
    )


def released_json(
    recipe: TopicRecipe,
    outline: kinds.PlannedHaystack,
    written: Sequence[kinds.Written],
    models: Mapping[kinds.Task, str],
    usd_micros: int,
    absent: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the haystack as released JSON. `models`: the model of each task, or empty; `usd_micros`: the cost of all answers;
    `absent`: subjects that no document mentions.

    Distracting subtopics are only in `topic_metadata.synthesis.distractors`. No query asks for them, so they do not make a
    document relevant.
    """
    asked = [subtopic for subtopic in outline.subtopics if subtopic.asked]
    asked_ids = {insight.insight_id for subtopic in asked for insight in subtopic.insights}
    writer = models["chapter" if recipe.domain.method == "chapters" else "document"]
    document_ids = {document.planned.number: document.planned.document_id for document in written}
    return {
        "topic_id": recipe.topic.name,
        "topic": recipe.topic.topic,
        "topic_metadata": {
            "domain": recipe.domain.name,
            "participants": recipe.participants,
            "synthesis": _synthesis(recipe, outline, written, models, usd_micros),
        },
        "subtopics": [
            *(
                {
                    **_id_and_text(subtopic),
                    "query": subtopic.query,
                    "insights": [_insight(insight) for insight in subtopic.insights],
                    "retriever": {},
                    "summaries": {},
                    "eval_summaries": {},
                }
                for subtopic in asked
            ),
            *absent_subtopics(absent, [(one.text, one.query) for one in asked]),
        ],
        "documents": [
            {
                "document_id": document.planned.document_id,
                "document_text": document.text,
                "document_metadata": {
                    "writer": writer,
                    "date": document.planned.date,
                    "refers_to": [document_ids[number] for number in document.planned.refers_to],
                    "corrections": document.corrections,
                },
                "insights_included": [insight_id for insight_id in document.planned.insight_ids if insight_id in asked_ids],
                "idx": place,
            }
            for place, document in enumerate(written)
        ],
    }


def _synthesis(
    recipe: TopicRecipe,
    outline: kinds.PlannedHaystack,
    written: Sequence[kinds.Written],
    models: Mapping[kinds.Task, str],
    usd_micros: int,
) -> dict[str, Any]:
    order = {insight.insight_id: place for place, insight in enumerate(outline.insights)}
    holders = defaultdict[str, list[str]](list)
    for document in written:
        for insight_id in document.planned.insight_ids:
            holders[insight_id].append(document.planned.document_id)
    return {
        "seed": recipe.seed,
        "manner": {name: getattr(recipe.domain, name) for name in _MANNER},
        "context": [text_hash(text) for text in recipe.topic.context],
        "shape": asdict(recipe.shape),
        "difficulty": asdict(recipe.difficulty),
        "models": {
            group: next(models[task] for task in models if GROUP_OF[task] == group) for group in dict.fromkeys(GROUP_OF.values())
        },
        "prompts": recipe.domain.hashes(),
        "usd_micros": usd_micros,
        "offline_writer": any(models[task].startswith(OFFLINE) for task in models if GROUP_OF[task] == "write"),
        "corrections": sum(document.corrections for document in written),
        "conflicts": [
            [insight.insight_id, other]
            for insight in outline.insights
            if (other := insight.conflicts_with) in order and order[insight.insight_id] < order[other]
        ],
        "distractors": [
            {
                **_id_and_text(subtopic),
                "insights": [{**_insight(insight), "documents": holders[insight.insight_id]} for insight in subtopic.insights],
            }
            for subtopic in outline.subtopics
            if not subtopic.asked
        ],
        # This comes last, because it may replace model names by longer descriptions.
        **recipe.metadata,
    }


def _id_and_text(subtopic: kinds.PlannedSubtopic) -> dict[str, Any]:
    return {"subtopic_id": subtopic.subtopic_id, "subtopic_name": subtopic.name, "subtopic": subtopic.text}


def _insight(insight: kinds.PlannedInsight) -> dict[str, Any]:
    return {"insight_id": insight.insight_id, "insight_name": insight.name, "insight": insight.text}


@dataclass(frozen=True, slots=True)
class Subject:
    """A subject, and the roots of the words by which documents would mention it, including its own."""

    text: str
    roots: frozenset[str]


@dataclass(frozen=True, slots=True)
class Field:
    """A field that documents may be about: the roots of its usual words, and its subjects."""

    roots: frozenset[str]
    subjects: tuple[Subject, ...]


@cache
def fields() -> tuple[Field, ...]:
    found: list[tuple[frozenset[str], list[Subject]]] = []
    for line in resources.files("summhay_ray.synth").joinpath(SUBJECTS).read_text(encoding="utf-8").splitlines():
        text, _, words = line.strip("[]").partition(":")
        if line.startswith("["):
            found.append((_roots(words.split()), []))
        elif line and not line.startswith("#"):
            found[-1][1].append(Subject(text, _roots(_WORD.findall(f"{text} {words}".lower()))))
    return tuple(Field(roots, tuple(subjects)) for roots, subjects in found)


def absent_subjects(texts: Iterable[str], wanted: int, topic: str = "") -> list[str]:
    """Return up to `wanted` English subjects whose words occur in no text.

    Subjects of the field whose usual words are most frequent in the texts come first, since the texts could plausibly mention
    them. The same texts and topic give the same subjects.
    """
    words = set[str]()
    for text in texts:
        words.update(_WORD.findall(text.lower()))
    known = _roots(words)
    nearest = sorted(fields(), key=lambda field: -len(field.roots & known) / max(1, len(field.roots)))

    def drawn(subject: Subject) -> str:
        return hashlib.sha256(f"{topic}\0{subject.text}".encode()).hexdigest()

    absent = [one for field in nearest for one in sorted(field.subjects, key=drawn) if not one.roots & known]
    return [subject.text for subject in absent[:wanted]]


def absent_subtopics(subjects: Iterable[str], asked: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """Return the subjects as subtopics of a haystack's released JSON, each with a query and without insights.

    Each query has the form of one in `asked` (the haystack's subtopics and queries), usual forms first. So the form does not
    reveal which queries have no answer.
    """
    counted = Counter(_form(text, query) for text, query in asked)
    forms = [form for form, _ in counted.most_common() if form]
    return [
        {
            "subtopic_id": hashlib.sha256(subject.encode()).hexdigest()[:12],
            "subtopic": subject,
            "query": (forms or [_FORM])[place % max(1, len(forms))].replace(_GAP, subject),
            "insights": [],
            "absent": True,
        }
        for place, subject in enumerate(subjects)
    ]


def _form(subtopic: str, query: str) -> str:
    """Return the query with a gap in place of its subtopic, or an empty string if the query does not contain the subtopic."""
    asks = rf"(.*\b(?:about|with|for|of|on|regarding|concerning)) (?:the )?{re.escape(subtopic)}\b(\W*)"
    found = re.fullmatch(asks, query, re.IGNORECASE | re.DOTALL)
    return f"{found[1]} {_GAP}{found[2]}" if found else ""


def _roots(words: Iterable[str]) -> frozenset[str]:
    return frozenset(root(word) for word in words if word not in FUNCTION_WORDS)
