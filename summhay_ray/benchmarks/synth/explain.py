"""Explain a haystack, a document or an answer of a synthesis: show the checks, answers and prompts behind it."""

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from summhay_ray.benchmark import RawAnswer, Request, RunStore
from summhay_ray.benchmarks.summhay.haystacks.metadata import read_source, rows_of
from summhay_ray.benchmarks.summhay.results.explain import SHORTEST_KEY
from summhay_ray.benchmarks.synth.make_haystack import asker_of, synthesis_of
from summhay_ray.benchmarks.synth.recipe import Recipe
from summhay_ray.benchmarks.synth.results import described_haystack
from summhay_ray.benchmarks.synth.spec import GROUPS
from summhay_ray.benchmarks.synth.topics import Made, made_by, stored_topics
from summhay_ray.errors import StoreError
from summhay_ray.haystack import ReleasedFile
from summhay_ray.loops import run_loop
from summhay_ray.outcome import Answer, Failed, Outcome
from summhay_ray.synth import Asker, Task, Topic, synthesize

CHECK = "check"
"""The task shown for an answer that only a check refers to."""
NAMED = 8
"""Maximum number of haystacks that an error lists."""
_ROUND_OF = {
    "document_copy": ["kind"],
    "subtopic_distinct": ["kind", "subject"],
    "insight_distinct": ["kind", "subject"],
    "query_leak": ["kind", "subject"],
}
"""Kind of check -> the columns that identify a repeated check. Only its last round counts, since dropped items have no row in
later rounds."""
_READ: Mapping[str, str] = {"edit_document": "document", "insights_present": "document", "chapter_check": "chapter"}
"""Task -> the field of its input that holds the text of a document or chapter."""
_SHOWN = ("key", "model", "input_tokens", "output_tokens", "usd_micros", "attempts")
_MADE_OF = ("seed", "license", "shape", "difficulty", "models", "conflicts", "offline_writer")


@dataclass(frozen=True, slots=True)
class _Named:
    """What a key refers to: the cell of a topic, or a document or an answer in it."""

    cell_id: str
    document_id: str = ""
    answer: str = ""


def explain_synth(recipe: Recipe, run: RunStore, key: str) -> dict[str, Any]:
    """Explain a haystack (by its name, haystack_id or cell), a document of it (`NAME/DOCUMENT_ID`), or an answer (by its key).
    A prefix of the key is enough. Raises StoreError as `explain` does.

    The result has, for a haystack, its sizes and its checks by kind; for a document, the insights planned and found; for an
    answer, its prompt and the checks that it decides.
    """
    topics, made = dict(stored_topics(run.store, run.record)), made_by(run)
    named = _find(run, key, topics, made)
    cell_id = named.cell_id
    source = read_source(run.store, made[cell_id].source()) if cell_id in made else None
    checks = run.table("checks", [cell_id])
    raw: dict[str, RawAnswer] = {answer.key: answer for answer in rows_of(run, "raw_answers", [cell_id])}
    haystack = None
    if source:
        synthesis, described = synthesis_of(source), asdict(described_haystack(made[cell_id], source))
        del described["topic"]
        haystack = {**described, "calls": int(synthesis["calls"]), **{name: synthesis[name] for name in _MADE_OF}}
    explained: dict[str, Any] = {
        "run": run.run_id,
        "cell_id": cell_id,
        "topic": asdict(topics[cell_id]),
        "haystack": haystack,
        "checks": [],
        "checks_by_kind": [],
        "amiss": [],
        "documents": [],
        "document": None,
        "raw_answer": None,
        "prompt": None,
        "answers": len(raw),
        "failures": run.table("failures", [cell_id]).to_dicts(),
    }
    texts = _texts(source) if source else {}
    if named.answer:
        shown = _with_texts(checks.filter(pl.col("key") == named.answer), texts)
        # None if this version of the program renders another prompt.
        prompt = _Replay(recipe, topics[cell_id], raw).prompts.get(named.answer)
        return {**explained, "checks": shown, "raw_answer": asdict(raw[named.answer]), "prompt": prompt}
    if named.document_id:
        shown = _with_texts(checks.filter(pl.col("subject") == named.document_id), texts)
        document = _document(recipe, run, topics[cell_id], named.document_id, source, shown, raw)
        return {**explained, "checks": shown, "document": document}
    documents = [_described(document, source) for document in source.raw["documents"]] if source else []
    ids = [*texts, *(document["document_id"] for document in documents)]
    by_kind, amiss = _count_checks(checks, ids)
    return {**explained, "checks_by_kind": by_kind, "amiss": _with_texts(amiss, texts), "documents": documents}


def _find(run: RunStore, key: str, topics: Mapping[str, Topic], made: Mapping[str, Made]) -> _Named:
    """Return the cell, document or answer to which the key refers. Raises StoreError if it matches none or several."""
    haystack, slash, document_id = key.partition("/")
    hits = {_Named(cell) for cell, topic in topics.items() if topic.name == haystack}
    if not hits and len(haystack) >= SHORTEST_KEY:
        hits = {_Named(row.cell_id) for row in made.values() if row.haystack_id.startswith(haystack)}
        hits |= {_Named(cell) for cell in topics if cell.startswith(haystack)}
        for cell in topics if not slash else ():
            answers = run.table("raw_answers", [cell]).filter(pl.col("key").str.starts_with(key))
            hits |= {_Named(cell, answer=answer) for answer in answers["key"]}
    if not hits:
        names = [topic.name for topic in topics.values()]
        known = ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
        if len(key) < SHORTEST_KEY:
            raise StoreError(
                f"key {key!r} is too short for a cell_id or an answer's key, and no haystack of run {run.run_id} has that name; "
                f"it has: {known}"
            )
        raise StoreError(f"run {run.run_id} has no cell or answer {key!r}, and no haystack of that name; it has: {known}")
    if len(hits) > 1:
        raise StoreError(f"{len(hits)} cells or answers of run {run.run_id} begin with {key!r}; give a longer prefix")
    [named] = hits
    return _Named(named.cell_id, document_id) if slash else named


def _count_checks(checks: pl.DataFrame, ids: Sequence[str]) -> tuple[list[dict[str, Any]], pl.DataFrame]:
    """Return a row per kind of check (`n`, the numbers by checker, and the number of unexpected results), and the unexpected
    checks that no later check replaces.

    `ids`: the ids in the haystack, whose checks count; if empty, all checks count. Checks of chapters are left out if their
    document was checked.
    """
    rows: dict[str, dict[str, Any]] = {}
    for check in checks.sort("position").iter_rows(named=True):
        row = rows.setdefault(check["kind"], {"kind": check["kind"], "n": 0, "unexpected": 0, "by": {}})
        row["n"] += 1
        row["unexpected"] += check["expected"] != check["found"]
        row["by"][check["by"]] = row["by"].get(check["by"], 0) + 1

    last = checks.sort("position").unique(["kind", "subject", "object"], keep="last", maintain_order=True)
    for kind, columns in _ROUND_OF.items():
        last = last.filter((pl.col("kind") != kind) | (pl.col("round") == pl.col("round").max().over(columns)))
    checked = last.filter(pl.col("kind") == "document_insight")["subject"].unique().to_list()
    last = last.filter((pl.col("kind") != "chapter_insight") | ~pl.col("subject").is_in(checked))
    if ids:
        last = last.filter(*(pl.col(column).is_in(["", *ids]) for column in ("subject", "object")))
    return list(rows.values()), last.filter(pl.col("expected") != pl.col("found"))


def _texts(source: ReleasedFile) -> dict[str, str]:
    """Map ids to the texts of a haystack's insights and subtopics, including distracting ones."""
    texts = {insight.insight_id: insight.text for insight in source.haystack.insights}
    texts |= {subtopic.subtopic_id: subtopic.text for subtopic in source.haystack.subtopics}
    for subtopic in synthesis_of(source).get("distractors", []):
        texts[subtopic["subtopic_id"]] = subtopic["subtopic"]
        texts |= {insight["insight_id"]: insight["insight"] for insight in subtopic["insights"]}
    return texts


def _with_texts(checks: pl.DataFrame, texts: Mapping[str, str]) -> list[dict[str, Any]]:
    """Add to each check the texts of its subject and object, if `texts` has them."""
    return [
        {**check, **{f"{column}_text": texts[check[column]] for column in ("subject", "object") if check[column] in texts}}
        for check in checks.sort("position").iter_rows(named=True)
    ]


def _described(document: Mapping[str, Any], source: ReleasedFile) -> dict[str, Any]:
    """Return a document's row: its length, metadata, and ids of its insights. `distractors`: insights of distracting
    subtopics."""
    document_id = document["document_id"]
    metadata = document.get("document_metadata") or {}
    distracting = [
        insight["insight_id"]
        for subtopic in synthesis_of(source).get("distractors", [])
        for insight in subtopic["insights"]
        if document_id in insight["documents"]
    ]
    return {
        "document_id": document_id,
        "words": len(document["document_text"].split()),
        "insights": list(document["insights_included"]),
        "distractors": distracting,
        **{name: metadata.get(name) for name in ("writer", "date", "refers_to", "corrections")},
    }


def _document(
    recipe: Recipe,
    run: RunStore,
    topic: Topic,
    document_id: str,
    source: ReleasedFile | None,
    checks: list[dict[str, Any]],
    raw: Mapping[str, RawAnswer],
) -> dict[str, Any]:
    """Return one document: its text, the insights planned and found in it, and the answers behind it. `source`: the haystack.
    `raw`: the topic's answers by key."""
    if source is None:
        raise StoreError(
            f"topic {topic.name!r} of run {run.run_id} has no haystack, so it has no documents; explain the name alone to see why"
        )
    documents = source.raw["documents"]
    places = {document["document_id"]: place for place, document in enumerate(documents)}
    if document_id not in places:
        ids = [*places]
        raise StoreError(f"haystack {topic.name} has no document {document_id!r}; it has {len(ids)}, {ids[0]} to {ids[-1]}")
    document, number = documents[places[document_id]], places[document_id] + 1
    answers = answers_of_document(recipe, topic, raw, number)
    known = {key for _, key in answers}
    answers += [(CHECK, key) for key in dict.fromkeys(check["key"] for check in checks) if key in raw and key not in known]
    # The document's last check of each insight tells which insights were planned or found.
    last = {check["object"]: check for check in checks if check["kind"] == "document_insight"}
    plan = [
        {
            "insight_id": check["object"],
            "insight": check.get("object_text", ""),
            "planned": check["expected"] == "yes",
            "found": check["found"] == "yes",
            **{name: check[name] for name in ("round", "by", "score", "evidence", "key")},
        }
        for check in last.values()
        if "yes" in (check["expected"], check["found"])
    ]
    return {
        **_described(document, source),
        "number": number,
        "text": document["document_text"],
        "plan": plan,
        "answers": [{"task": task, **{name: getattr(raw[key], name) for name in _SHOWN}} for task, key in answers],
    }


@dataclass(frozen=True, slots=True)
class _Question:
    """A question to a model: its task and input, the keys of its requests, and the value of its answer (None without an
    answer)."""

    task: Task
    given: Mapping[str, Any]
    keys: tuple[str, ...]
    value: Any


class _Replay:
    """Replays the synthesis of a topic from its stored answers, to recover the questions and prompts, which are not stored.
    If a rebuilt prompt has the key of a stored answer, it is the prompt that was sent. Implements `synth.Asker`."""

    def __init__(self, recipe: Recipe, topic: Topic, raw: Mapping[str, RawAnswer]) -> None:
        self.questions: list[_Question] = []
        self.prompts: dict[str, str] = {}
        self._raw = raw
        # Questions overlap, each in its own asyncio task.
        self._keys: ContextVar[list[str]] = ContextVar("keys")
        self._asker: Asker = asker_of(recipe, dict.fromkeys(GROUPS, self._answer))
        run_loop(lambda: synthesize(recipe.of(topic), self))

    def model(self, task: Task) -> str:
        return self._asker.model(task)

    async def ask(self, task: Task, given: Mapping[str, Any], sample: int = 0) -> Outcome[Any]:
        keys: list[str] = []
        self._keys.set(keys)
        outcome = await self._asker.ask(task, given, sample)
        self.questions.append(_Question(task, given, tuple(keys), outcome.value if isinstance(outcome, Answer) else None))
        return outcome

    async def _answer(self, request: Request) -> Outcome[RawAnswer]:
        self._keys.get().append(request.key)
        self.prompts[request.key] = request.prompt
        if (answer := self._raw.get(request.key)) is not None:
            return Answer(answer, key=answer.key, attempts=answer.attempts, usd_micros=answer.usd_micros)
        return Failed("not_asked", "explaining makes no call")


def answers_of_document(recipe: Recipe, topic: Topic, raw: Mapping[str, RawAnswer], number: int) -> list[tuple[str, str]]:
    """Return the (task, key) of the answers that wrote, edited and checked a document (by its number, from 1), in order.

    They are found by the document's number or text in their inputs. Empty if this version of the program renders other prompts.
    """
    texts: list[str] = []
    answers: list[tuple[str, str]] = []
    for question in _Replay(recipe, topic, raw).questions:
        read = question.given.get(_READ.get(question.task, ""), "")
        writes = question.task in ("document", "chapter") and question.given.get("number") == number
        # `in`, because a document of several chapters is checked and edited as a whole.
        if not (writes or any(text in read for text in texts)):
            continue
        if isinstance(question.value, str) and question.value:
            texts.append(question.value)
        answers += [(question.task, key) for key in question.keys if key in raw]
    return answers
