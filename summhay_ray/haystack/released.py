"""Reads and validates a released SummHay file.

The format is that of the paper's published data: a topic, its subtopics (query, insights, retriever scores, summaries and
judgments by system) and its documents with the insights that each contains. Other fields are kept in `ReleasedFile.raw`
unchecked.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import PurePosixPath
from typing import Any

from summhay_ray import plugins
from summhay_ray.haystack.check import InvalidHaystack, Node, described, parse
from summhay_ray.haystack.identity import RELEASED_RETRIEVERS, haystack_id_of, parse_system
from summhay_ray.haystack.nuggets import NUGGETS, UNREAD, holds_nuggets
from summhay_ray.records import NUGGET_WEIGHTS, Document, Haystack, Insight, Subtopic

_SAMPLES = resources.files("summhay_ray.haystack").joinpath("sample")
"""The two sample haystacks in this package, `conversation` and `news`, named after the paper's domains (section 3.1)."""
# Fields in which an insight or a subtopic may list its gold documents.
GOLD_FIELDS = tuple(
    f"{prefix}{noun}" for prefix in ("", "gold_", "reference_") for noun in ("documents", "document_ids", "docs", "doc_ids")
)


@dataclass(frozen=True, slots=True)
class ReleasedFile:
    """A released file as a haystack, with its unchanged JSON, and warnings of one line each."""

    haystack: Haystack
    raw: dict[str, Any] = field(repr=False)
    warnings: tuple[str, ...] = ()

    @property
    def retrievers(self) -> tuple[str, ...]:
        """The names of the retrievers whose scores the file stores, and of the release's retrievers."""
        stored = {name for by_retriever in self.haystack.released_scores.values() for name in by_retriever}
        return tuple(sorted(stored.union(RELEASED_RETRIEVERS)))


def read_released(source: bytes | str, file: str) -> ReleasedFile:
    """Read the haystack in `source`, the content of `file`. Raise InvalidHaystack for invalid content, and for gold documents
    (GOLD_FIELDS) that do not exist.

    Retriever scores may name documents that do not exist, as in released files.
    """
    try:
        return released_from(parse(source, file), file)
    except InvalidHaystack:
        if not holds_nuggets(source):
            raise
    mend = "name it under `haystacks:` of a summhay or retrieval spec, with `documents:` for what its references name"
    raise InvalidHaystack(f"{file}: holds nuggets, which are not yet a haystack; {mend}")


def released_from(raw: Any, file: str) -> ReleasedFile:
    """Like `read_released`, for JSON that is already parsed."""
    root = Node(file, "", raw)
    topic, metadata = root.entry("topic").text(), root.optional("topic_metadata")
    subtopic_nodes = root.entry("subtopics").items("a list of at least one subtopic", least=1)
    document_nodes = root.entry("documents").items("a list of at least one document", least=0 if raw.get(NUGGETS) is True else 1)
    identity = haystack_id_of(raw)
    subtopics = _subtopics(subtopic_nodes, identity)
    insights = _insights(subtopic_nodes, subtopics)
    documents = _documents(document_nodes, identity, {insight.insight_id for insight in insights})
    topic_id = root.optional("topic_id")
    # The participants may be names, objects with a name, or one string.
    people = (metadata.fields().get("participants") if metadata else None) or []
    people = people if isinstance(people, list | dict) else [people]
    named = [one.get("name", one) if isinstance(one, dict) else one for one in people]
    participants = tuple(one if isinstance(one, str) else json.dumps(one) for one in named)
    # The stated domain or, if it is missing, the one whose special fields the file has.
    stated = metadata.optional("domain") if metadata else None
    about = filter(None, (node.optional("document_metadata") for node in document_nodes))
    has_sources = any(isinstance(node.value, dict) and "article_source" in node.value for node in about)
    scores: dict[str, dict[str, dict[str, float]]] = {}
    for node, subtopic in zip(subtopic_nodes, subtopics, strict=True):
        stored = node.optional("retriever")
        by_name = {name: stored.entry(name) for name in stored.fields()} if stored else {}
        scores[subtopic.subtopic_id] = {
            name: {document: scored.entry(document).number() for document in scored.fields()} for name, scored in by_name.items()
        }
    haystack = Haystack(
        haystack_id=identity,
        name=PurePosixPath(file.replace("\\", "/")).name.removesuffix(".json"),
        topic_id=topic_id.text() if topic_id else "",
        topic=topic,
        domain=stated.identifier() if stated else "conversation" if participants else "news" if has_sources else "generic",
        participants=participants,
        documents=documents,
        subtopics=subtopics,
        insights=insights,
        released_scores=scores,
        nuggets=raw.get(NUGGETS) is True,
    )
    released = ReleasedFile(haystack, raw, tuple(f"{file}: {oddity}" for oddity in _oddities(haystack, raw)))
    document_ids = {document.document_id for document in documents}
    for node, subtopic in zip(subtopic_nodes, subtopics, strict=True):
        own = {insight.insight_id for insight in insights if insight.subtopic_id == subtopic.subtopic_id}
        _check_subtopic(node, document_ids, own, released)
    return released


def _subtopics(nodes: list[Node], identity: str) -> tuple[Subtopic, ...]:
    seen: dict[str, str] = {}
    subtopics = []
    for position, node in enumerate(nodes):
        subtopic = Subtopic(
            haystack_id=identity,
            subtopic_id=_unique(node.entry("subtopic_id"), seen),
            position=position,
            name=named.text() if (named := node.optional("subtopic_name")) else "",
            text=node.entry("subtopic").text(),
            query=node.entry("query").text(),
        )
        if (marked := node.optional("absent")) is not None and marked.value is not False:
            if marked.value is not True:
                raise marked.refuse("true or false")
            if node.entry("insights").items("a list of insights"):
                raise node.entry("insights").refuse("an empty list: no document says anything about an absent subtopic")
            subtopic = replace(subtopic, absent=True)
        subtopics.append(subtopic)
    return tuple(subtopics)


def _insights(nodes: list[Node], subtopics: tuple[Subtopic, ...]) -> tuple[Insight, ...]:
    seen: dict[str, str] = {}
    return tuple(
        Insight(
            haystack_id=subtopic.haystack_id,
            subtopic_id=subtopic.subtopic_id,
            insight_id=_unique(item.entry("insight_id"), seen),
            position=position,
            name=named.text() if (named := item.optional("insight_name")) else "",
            text=item.entry("insight").text(),
            importance=word.strip().lower() if isinstance(word := item.fields().get("importance"), str) else "",
        )
        for node, subtopic in zip(nodes, subtopics, strict=True)
        for position, item in enumerate(node.entry("insights").items("a list of insights"))
    )


def _documents(nodes: list[Node], identity: str, insight_ids: set[str]) -> tuple[Document, ...]:
    seen: dict[str, str] = {}
    documents = []
    for number, node in enumerate(nodes, start=1):
        included = dict[str, None]()
        for item in node.entry("insights_included").items("a list of insight ids"):
            if (insight_id := item.identifier()) not in insight_ids:
                raise item.refuse("the id of an insight of some subtopic")
            included[insight_id] = None
        documents.append(
            Document(
                haystack_id=identity,
                document_id=_unique(node.entry("document_id"), seen),
                number=number,
                text=node.entry("document_text").text(),
                insight_ids=tuple(included),
            )
        )
    return tuple(documents)


def _unique(node: Node, seen: dict[str, str]) -> str:
    """Return the identifier at `node`. Raise InvalidHaystack if it is already in `seen` (identifier -> path)."""
    identifier = node.identifier()
    if identifier in seen:
        raise node.refuse(f"a unique id (this one is the same as {seen[identifier]})")
    seen[identifier] = node.path
    return identifier


def _check_subtopic(subtopic: Node, document_ids: set[str], insight_ids: set[str], file: ReleasedFile) -> None:
    """Raise InvalidHaystack for invalid gold documents, summaries, judgments and systems of a subtopic.

    A gold document must exist (named by id, or by number from 1). Summaries must be lists of strings. A judgment must have a
    coverage and a known insight. Two keys may not name the same system (with and without the prefix), since their rows would have
    the same id.
    """
    for node in [subtopic, *subtopic.entry("insights").items()]:
        # This runs for every insight, but few have such a field.
        for key in filter(node.fields().__contains__, GOLD_FIELDS):
            listed = node.optional(key)
            for item in listed.items() if listed and isinstance(listed.value, list) else []:
                if isinstance(item.value, str) and item.value not in document_ids:
                    raise item.refuse("the id of a document of the file")
                if isinstance(item.value, int) and not 1 <= item.value <= len(document_ids):
                    raise item.refuse(f"a document's number (1 to {len(document_ids)})")
    summaries, judged = subtopic.optional("summaries"), subtopic.optional("eval_summaries")
    for summary in summaries.entries() if summaries else []:
        for bullet in summary.items("a list of strings"):
            bullet.text()
    for judgments in judged.entries() if judged else []:
        for judgment in judgments.items("a list of judgments"):
            judgment.entry("coverage").text()
            judged_insight = judgment.entry("insight_id")
            if judged_insight.identifier() not in insight_ids:
                raise judged_insight.refuse("the id of an insight of this subtopic")
    for place in filter(None, (summaries, judged)):
        seen, retrievers = dict[object, str](), file.retrievers
        for key in place.fields():
            system = parse_system(key, retrievers)
            if system in seen:
                raise place.entry(key).refuse(f"a unique system ({seen[system]!r} is the same)", "the same system twice")
            seen[system] = key


def _oddities(haystack: Haystack, raw: Mapping[str, Any]) -> list[str]:
    """Return warnings: insights in no document, odd importance, moved documents, duplicate insights, subtopics without
    insights."""
    lines = [
        f"insight {insight_id!r} is in no document: no citation of it can be right"
        for insight_id, numbers in haystack.gold.items()
        if numbers == frozenset()
    ]
    unknown = sum(numbers is None for numbers in haystack.gold.values())
    if not haystack.contained:
        lines.append("no document holds an insight: coverage is scored; citations and joint are not")
    elif unknown:
        lines.append(
            f"{unknown} of {len(haystack.insights)} nuggets have no reference to a document of the haystack: their coverage is "
            "scored; citations and joint are those of the others"
        )
    named = [insight.importance for insight in haystack.insights]
    if any(named):
        others = [importance for importance in named if importance not in NUGGET_WEIGHTS["weighted"]]
        if others:
            such = f"{len(others)} of {len(named)} nuggets are neither vital nor okay, such as {others[0] or 'no importance'!r}"
            lines.append(f"{such}: they count in the scores of all alone")
        vital = {insight.subtopic_id for insight in haystack.insights if insight.importance == "vital"}
        lacking = [subtopic.subtopic_id for subtopic in haystack.subtopics if subtopic.subtopic_id not in vital]
        if lacking and vital:
            such = f"{len(lacking)} of {len(haystack.subtopics)} queries have no vital nugget, such as {lacking[0]!r}"
            lines.append(f"{such}: they count 0 in the vital scores")
    unread = raw.get(UNREAD) or ()
    lines += [f"documents that were not read: {len(unread)}, such as {unread[0]}"] if unread else []
    moved = [place for place, document in enumerate(raw["documents"]) if document.get("idx", place) != place]
    if moved:
        where = f"documents[{moved[0]}].idx is {described(raw['documents'][moved[0]]['idx'])}"
        lines.append(f"{where}: documents are missing or moved, but summaries cite them by position")
    first: dict[str, str] = {}
    for insight in haystack.insights:
        known = first.setdefault(insight.text, insight.insight_id)
        if known != insight.insight_id:
            lines.append(f"insights {known!r} and {insight.insight_id!r} have the same text")
    filled = {insight.subtopic_id for insight in haystack.insights}
    lines += [
        f"subtopic {subtopic.subtopic_id!r} has no insights"
        for subtopic in haystack.subtopics
        if subtopic.subtopic_id not in filled and not subtopic.absent
    ]
    return lines


def load_sample(name: str) -> dict[str, Any]:
    """Return a new copy of a sample as parsed JSON in the released format: one topic, 32 documents, 4 subtopics, 22 insights.
    Raise UnknownName, with the nearest sample's name."""
    names = sorted(entry.name.removesuffix(".json") for entry in _SAMPLES.iterdir() if entry.name.endswith(".json"))
    if name not in names:
        raise plugins.unknown("sample haystack", name, names)
    parsed: dict[str, Any] = json.loads(_SAMPLES.joinpath(f"{name}.json").read_text(encoding="utf-8"))
    return parsed
