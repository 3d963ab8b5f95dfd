"""Applies people's decisions to a mined haystack.

A decision identifies an insight by its content: the sentences of the texts in which it was found. So it still applies after the
folder has grown, although numbers and names in the haystack have changed.
"""

import copy
import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from summhay_ray.mine.haystack import kept_insights, short_id

PERSON = "a person"
"""The value of `by` for a document that a review adds."""
SAME = 0.5
"""A decision applies to an insight that is based on the same sentences in at least this share of the decision's documents."""
REVIEW, CHECK = "review", "check"
"""Fields of `topic_metadata.mine` with people's work: their decisions, and the pairs that they confirmed."""


class Decision(BaseModel):
    """A person's decision about one insight. An empty field keeps what mining found."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    insight_id: str
    found: str = ""
    """The text of the insight as it was found; empty if a person wrote it."""
    home: tuple[str, str] = ("", "")
    """The subtopic and the query under which it was found."""
    evidence: dict[str, tuple[str, str]] = {}
    """Document in which it was found -> (hash of its text, the sentences)."""
    keep: Literal["", "yes", "no"] = ""
    insight: str = ""
    subtopic: str = ""
    query: str = ""
    added: dict[str, str] = {}
    """Document that a person added -> hash of its text."""
    removed: dict[str, str] = {}
    into: str = ""
    """The insight into which this one is merged."""
    note: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is decided, as for an insight into which another one is merged."""
        return not any((self.keep, self.insight, self.subtopic, self.query, self.added, self.removed, self.into, self.note))


def text_hash(text: str) -> str:
    """Return the hash that identifies a document's text."""
    return hashlib.sha256(" ".join(text.split()).encode("utf-8", "replace")).hexdigest()[:16]


def homes_of(raw: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return insight id -> its subtopic and query."""
    return {one["insight_id"]: (part["subtopic"], part["query"]) for part in raw["subtopics"] for one in part["insights"]}


def decisions_of(raw: Mapping[str, Any]) -> list[Decision]:
    """Return the decisions in a haystack's JSON."""
    held = raw["topic_metadata"]["mine"].get(REVIEW) or {}
    return [Decision.model_validate(one) for one in held.get("decisions", ())]


def reviewed(raw: Mapping[str, Any], decisions: Sequence[Decision]) -> dict[str, Any]:
    """Return `raw`, the haystack as found, with the decisions applied. Without decisions, it equals `raw`."""
    made = copy.deepcopy(dict(raw))
    if not decisions:
        return made
    by_id = {one.insight_id: one for one in decisions}
    found = kept_insights(made)
    insights = {one["insight_id"]: one for one in found}
    insights |= {one.insight_id: _added(one) for one in decisions if one.insight_id not in insights}
    for decision in decisions:
        _decide(insights[decision.insight_id], decision)
    into = {one.insight_id: one.into for one in decisions if one.into}
    struck = {one.insight_id for one in decisions if one.keep == "no"}
    # Merged insights are processed in order, so that chains of merges reach their last insight.
    for insight_id in sorted(into, key=lambda one: len(_path(one, into)), reverse=True):
        target = insights[into[insight_id]]
        held = {evidence["document_id"] for evidence in target["evidence"]}
        target["evidence"] += [one for one in insights[insight_id]["evidence"] if one["document_id"] not in held]
        target["opposites"] += insights[insight_id]["opposites"]
    left = [one for insight_id, one in insights.items() if insight_id not in struck and insight_id not in into]
    for rank, one in enumerate(left, start=1):
        ends = dict.fromkeys(_path(other, into)[-1] for other in one["opposites"])
        one["opposites"] = [other for other in ends if other not in struck and other != one["insight_id"]]
        held = {evidence["document_id"] for evidence in one["evidence"]}
        one["doubtful"] = [evidence for evidence in one["doubtful"] if evidence["document_id"] not in held]
        one["rank"] = rank
    made["subtopics"] = _subtopics(made["subtopics"], left, by_id)
    included: dict[str, list[str]] = {}
    for one in left:
        for evidence in one["evidence"]:
            included.setdefault(evidence["document_id"], []).append(one["insight_id"])
    for document in made["documents"]:
        document["insights_included"] = included.get(document["document_id"], [])
    made["topic_metadata"]["mine"][REVIEW] = {
        "seen": len(decisions),
        "of": len(insights),
        "struck": len(struck | into.keys()),
        "decisions": [one.model_dump(mode="json", exclude_defaults=True) for one in decisions],
    }
    return made


def _added(decision: Decision) -> dict[str, Any]:
    return {
        "insight_id": decision.insight_id,
        "insight": decision.insight,
        "rank": 0,
        "confidence": 1.0,
        **{name: [] for name in ("opposites", "evidence", "doubtful")},
    }


def _decide(insight: dict[str, Any], decision: Decision) -> None:
    insight["insight"] = decision.insight or insight["insight"]
    held = [one for one in insight["evidence"] if one["document_id"] not in decision.removed]
    near = {one["document_id"]: one for one in insight["doubtful"]}
    for name in decision.added:
        words = near[name]["text"] if name in near else ""
        held.append({"document_id": name, "score": 1.0, "by": PERSON, "key": "", "text": words})
    insight["evidence"] = held


def _path(insight_id: str, into: Mapping[str, str]) -> list[str]:
    """Return the insight, the one into which it is merged, and so on. The last one remains."""
    path = [insight_id]
    while path[-1] in into:
        path.append(into[path[-1]])
    return path


def _subtopics(
    found: Sequence[dict[str, Any]], insights: Sequence[dict[str, Any]], decisions: Mapping[str, Decision]
) -> list[dict[str, Any]]:
    """Return the subtopics of these insights: the found ones in their order, then those that people made."""
    homes = {one["insight_id"]: subtopic["subtopic_id"] for subtopic in found for one in subtopic["insights"]}
    order = {insight_id: place for place, insight_id in enumerate(homes)}
    named: dict[str, str] = {}
    for subtopic in found:
        named.setdefault(subtopic["subtopic"], subtopic["subtopic_id"])
    groups: dict[str, list[dict[str, Any]]] = {subtopic["subtopic_id"]: [] for subtopic in found}
    asked: dict[str, tuple[str, str]] = {}
    for one in insights:
        decision = decisions.get(one["insight_id"])
        if decision is None or not decision.subtopic:
            key = homes[one["insight_id"]]
        else:
            key = named.setdefault(decision.subtopic, short_id(f"subtopic {decision.subtopic}"))
            asked.setdefault(key, (decision.subtopic, decision.query))
        groups.setdefault(key, []).append(one)
    listed = {subtopic["subtopic_id"]: subtopic for subtopic in found}
    for key in [key for key in groups if key not in listed]:
        # A renamed subtopic keeps its id and its position.
        empty = (home for one in groups[key] if (home := homes.get(one["insight_id"])) and not groups[home])
        if before := next(empty, ""):
            groups[before], asked[before] = groups.pop(key), asked.pop(key)
    made = []
    for key, ones in groups.items():
        # A subtopic with no documents in the haystack gets none.
        if ones or listed.get(key, {}).get("absent"):
            subtopic = dict(listed.get(key, {"subtopic_id": key}))
            if key in asked:
                subtopic["subtopic"], subtopic["query"] = asked[key]
            subtopic["insights"] = sorted(ones, key=lambda one: order.get(one["insight_id"], len(order)))
            made.append(subtopic)
    return made


def carried(decisions: Iterable[Decision], raw: Mapping[str, Any]) -> list[Decision]:
    """Convert decisions about earlier haystacks to decisions about `raw`. The first decision about an insight counts.

    If an edited insight is not found in `raw`, it stays as an insight that a person added, as long as `raw` contains one of its
    documents.
    """
    hashes = {document["document_id"]: text_hash(document["document_text"]) for document in raw["documents"]}
    names: dict[str, list[str]] = {}
    for name, digest in hashes.items():
        names.setdefault(digest, []).append(name)

    def there(documents: Mapping[str, str]) -> dict[str, str]:
        """Return the given documents (name -> hash of the text) that `raw` contains: matched by text or, if it has changed, by
        name."""
        now = [name for digest in documents.values() for name in names.get(digest, ())]
        now += [name for name, digest in documents.items() if name in hashes and digest not in names]
        return {name: hashes[name] for name in now}

    found = {one["insight_id"]: one for one in kept_insights(raw)}
    homes = homes_of(raw)
    sentences = _Sentences(found.values(), hashes)
    taken: dict[str, Decision] = {}
    ids: dict[str, str] = {}
    for old in decisions:
        if old.insight_id in ids:
            continue
        documents = {name: digest for name, (digest, _) in old.evidence.items()}
        added, removed = there(old.added), there(old.removed)
        if key := sentences.same(old):
            evidence = {one["document_id"]: (hashes[one["document_id"]], one["text"]) for one in found[key]["evidence"]}
            changes = {"insight_id": key, "found": found[key]["insight"], "home": homes[key], "evidence": evidence}
            changes["added"] = {name: added[name] for name in added if name not in evidence}
            changes["removed"] = {name: removed[name] for name in removed if name in evidence}
        else:
            kept = {name: digest for name, digest in (there(documents) | added).items() if name not in removed}
            edited = (old.insight or old.added) and old.keep != "no" and not old.into
            key = old.insight_id if kept and edited and old.insight_id not in found else ""
            place = {"subtopic": old.subtopic or old.home[0], "query": old.query or old.home[1]}
            changes = {"insight": old.insight or old.found, **place, "added": kept, "removed": {}}
        if key:
            ids[old.insight_id] = key
            taken.setdefault(key, old.model_copy(update=changes))
    joined = [one.model_copy(update={"into": ids.get(one.into, "")}) for one in taken.values()]
    return _followed(joined, raw)


class _Sentences:
    """The sentences on which insights are based, by text. `hashes`: document -> hash of its text."""

    def __init__(self, insights: Iterable[Mapping[str, Any]], hashes: Mapping[str, str]) -> None:
        self._texts = set(hashes.values())
        self._held: dict[str, dict[str, tuple[Mapping[str, Any], str]]] = {}
        for one in insights:
            for held in one["evidence"]:
                words = " ".join(held["text"].split())
                self._held.setdefault(hashes[held["document_id"]], {})[one["insight_id"]] = one, words

    def same(self, decision: Decision) -> str:
        """Return the id of the insight that is based on the sentences of a decision, in the same texts; empty if there is
        none."""
        words = {digest: " ".join(text.split()) for digest, text in decision.evidence.values() if digest in self._texts}
        shared: dict[str, list[Mapping[str, Any]]] = {}
        for digest, old in words.items():
            for key, (one, new) in self._held.get(digest, {}).items():
                if old in new or new in old:
                    shared.setdefault(key, []).append(one)

        def likeness(key: str) -> tuple[float, int]:
            one = shared[key][0]
            return len(shared[key]) / len(words) + (one["insight"] == decision.found), -int(one["rank"])

        best = max(shared, key=likeness, default="")
        return best if best and likeness(best)[0] >= SAME else ""


def _followed(decisions: list[Decision], raw: Mapping[str, Any]) -> list[Decision]:
    """Return the decisions, and decisions for new insights. If a person moved at least half of the insights that were found in
    one subtopic, its new insights move to the same place."""
    by_id = {one.insight_id: one for one in decisions}
    for part in raw["subtopics"]:
        moved = Counter((one.subtopic, one.query) for key in part["insights"] if (one := by_id.get(key["insight_id"])))
        (subtopic, query), n = max(moved.items(), key=lambda item: item[1], default=(("", ""), 0))
        for one in part["insights"] if subtopic and 2 * n >= len(part["insights"]) else ():
            if one["insight_id"] not in by_id:
                home = (part["subtopic"], part["query"])
                new = Decision(insight_id=one["insight_id"], found=one["insight"], home=home, subtopic=subtopic, query=query)
                decisions.append(new)
    return decisions
