"""Plants faults in synthesized haystacks, and counts how many the verification finds without a model.

    python tools/plants.py --plants 1000

It prints JSON: for each paraphrase level and kind of fault, the number planted and the share found, and the share of false alarms
in checks of faultless texts. `offline/writer` writes the documents again, so that a planted fault does not depend on the check.
The kinds of faults are:

- removed: a document is written without one of its insights, and checked against the plan with it.
- leaked: a document is written with one more insight of the topic, and checked against the plan without it.
- subtopic: a subtopic is added again in other words.
- query: a subtopic's query reveals one of its insights, or most of it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from summhay_ray.llm import RawAnswer, Request
from summhay_ray.outcome import Answer, Failed, Outcome
from summhay_ray.synth import (
    Difficulty,
    ModelAsker,
    OfflineWriter,
    Shape,
    Synthesized,
    Topic,
    TopicRecipe,
    load_domain,
    synthesize,
)
from summhay_ray.synth.checking.verifier import Verifier
from summhay_ray.synth.making.kinds import PlannedDocument, PlannedInsight, PlannedSubtopic

KINDS = ("removed", "leaked", "subtopic", "query")
SYNONYMS = {
    "festivals": "fairs",
    "reports": "accounts",
    "prices": "costs",
    "costs": "prices",
    "delays": "hold-ups",
    "new": "recent",
}
LEADS = (
    "News of {}",
    "What is known of {}",
    "Questions about {}",
    "{} in general",
    "{}, and what comes of it",
    "The state of {}",
)
ASKING = ("Is it true that {}", "{}, or is that wrong", "What follows from this: {}", "How is it explained that {}")
WRITER = OfflineWriter()


class NoModel:
    """The asker of a haystack that is only checked offline."""

    def model(self, task: str) -> str:
        """Return an empty string: no task has a model."""
        return ""

    async def ask(self, task: str, given: Any, sample: int = 0) -> Outcome[Any]:
        """Never called."""
        raise AssertionError(f"{task} was asked of no model")


async def written(request: Request) -> Outcome[RawAnswer]:
    """Return the offline writer's answer, as from the gateway."""
    try:
        text = WRITER.answer(request)
    except LookupError as error:
        return Failed("no_answer", str(error))
    return Answer(RawAnswer(request.key, request.model, text, "stop", 0, 0, 0, 0, 1), request.key)


@dataclass
class Tally:
    """The counts of one paraphrase level: faults planted and found by kind, checks without a fault, and false alarms."""

    planted: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    clean: Counter[str] = field(default_factory=Counter)
    alarms: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)
    """Some of the planted faults that were not found."""

    def note(self, kind: str, found: bool, plant: str) -> None:
        """Count one planted fault."""
        self.planted[kind] += 1
        self.found[kind] += found
        if not found and len(self.lost) < 20:
            self.lost.append(f"{kind}: {plant}")

    def summary(self) -> dict[str, Any]:
        """Return the counts as JSON."""
        kinds = {kind: {"planted": n, "found": round(self.found[kind] / n, 4)} for kind, n in self.planted.items()}
        clean = {kind: {"checked": n, "false_alarms": self.alarms[kind]} for kind, n in self.clean.items()}
        return {"plants": kinds, "unplanted": clean}


class Haystack:
    """A synthesized haystack, and the faults planted in it."""

    def __init__(self, domain: str, level: int, seed: int, documents: int) -> None:
        self.rng, self.level, self.domain = random.Random(f"plants {domain} {level} {seed}"), level, load_domain(domain)
        models = {"outline": WRITER.name, "write": WRITER.name}
        asker = ModelAsker({"outline": written, "write": written}, self.domain, models, {})
        difficulty = Difficulty(paraphrase=level, conflicts=3, distractors=1)
        topic = Topic(f"planted-{seed}", f"What {seed} towns did after the storm")
        job = TopicRecipe("plants", topic, self.domain, Shape(documents=documents), difficulty, seed)
        made = asyncio.run(synthesize(job, asker))
        assert isinstance(made, Synthesized), made
        self.given, self.participants, self.raw = job.input_fields, job.participants, made.raw
        synthesis = made.raw["topic_metadata"]["synthesis"]
        listed = [*made.raw["subtopics"], *synthesis["distractors"]]
        other = {side: pair[1 - at] for pair in synthesis["conflicts"] for at, side in enumerate(pair)}
        self.subtopics = [planned_subtopic(subtopic, other) for subtopic in listed]
        self.insights = [insight for subtopic in self.subtopics for insight in subtopic.insights]

    def verifier(self) -> Verifier:
        """Return a new verifier."""
        return Verifier("plants", NoModel(), self.given)

    def written(self, task: str, **more: Any) -> str:
        """Return the writer's answer to a task."""
        manner = {
            "genre": self.domain.genre,
            "tone": self.domain.tone,
            "participants": self.participants,
            "words": self.domain.words,
        }
        rest = {
            "date": "",
            "references": [],
            "context": [],
            "avoid": [],
            "paraphrase": self.level,
            "number": self.rng.randrange(10**6),
        }
        given = {"task": task, **self.given, **manner, **rest, **more}
        return WRITER.answer(Request(WRITER.name, f"Input:\n{json.dumps(given)}"))

    def documents(self, tally: Tally) -> None:
        """Remove an insight from each document, and add one to each."""
        texts = {insight.insight_id: insight.text for insight in self.insights}
        verifier = self.verifier()
        for number, document in enumerate(self.raw["documents"], 1):
            held = list(document["insights_included"])
            for kind in ("removed", "leaked"):
                planned, inside = list(held), list(held)
                victim = self.rng.choice(held if kind == "removed" else sorted(set(texts) - set(held)))
                if kind == "removed":
                    inside.remove(victim)
                else:
                    inside.insert(self.rng.randint(0, len(inside)), victim)
                listed = [{"id": place, "text": texts[one]} for place, one in enumerate(inside, 1)]
                text = self.written("document", insights=listed)
                plan = PlannedDocument(document["document_id"], number, tuple(planned))
                found = asyncio.run(verifier.document(plan, text, self.insights, 0))
                wrong = {"removed": found.missing, "leaked": found.extraneous}
                tally.note(kind, victim in wrong[kind], f"{texts[victim]} || {text}")
                tally.clean["document_insight"] += len(texts) - 1
                tally.alarms["document_insight"] += len(set(found.missing + found.extraneous) - {victim})

    def double_subtopics(self, tally: Tally, number: int) -> None:
        """Add `number` subtopics in other words."""
        listed = [(subtopic.subtopic_id, subtopic.text) for subtopic in self.subtopics]
        for _ in range(number):
            name, text = self.rng.choice(listed)
            plant = reword(text, self.rng)
            dropped = asyncio.run(self.verifier().subtopics([*listed, ("planted", plant)], 0))
            tally.note("subtopic", "planted" in dropped, f"{text} || {plant}")
            tally.clean["subtopic_distinct"] += len(listed)
            tally.alarms["subtopic_distinct"] += len(dropped - {"planted"})

    def leak_queries(self, tally: Tally, number: int) -> None:
        """Make `number` queries reveal an insight."""
        asked = [subtopic for subtopic in self.subtopics if subtopic.query]
        for _ in range(number):
            subtopic = self.rng.choice(asked)
            insight = self.rng.choice(subtopic.insights)
            revealed = self.written("edit_document", document="", remove=[], add=[{"id": 1, "text": insight.text}])
            if self.rng.random() < 0.3:
                words = revealed.split()
                revealed = " ".join(words[: max(4, round(0.7 * len(words)))])
            query = f"{subtopic.query.rstrip('?')}: {self.rng.choice(ASKING).format(revealed.rstrip('.'))}?"
            verifier = self.verifier()
            leaking = PlannedSubtopic(subtopic.subtopic_id, subtopic.name, subtopic.text, query, subtopic.insights)
            clean = asyncio.run(verifier.query(leaking, (), 0))
            rows = {row.object: row.found for row in verifier.checks}
            tally.note("query", not clean and rows[insight.insight_id] == "yes", f"{insight.text} || {query}")
            others = {insight.conflicts_with, insight.insight_id}
            tally.clean["query_leak"] += len(rows.keys() - others)
            tally.alarms["query_leak"] += sum(rows[one] == "yes" for one in rows.keys() - others)


def planned_subtopic(subtopic: dict[str, Any], other: dict[str, str]) -> PlannedSubtopic:
    """Return the plan of a subtopic of a released haystack."""
    subtopic_id = subtopic["subtopic_id"]
    insights = tuple(
        PlannedInsight(one["insight_id"], subtopic_id, one["insight_name"], one["insight"], other.get(one["insight_id"], ""))
        for one in subtopic["insights"]
    )
    return PlannedSubtopic(subtopic_id, subtopic["subtopic_name"], subtopic["subtopic"], subtopic.get("query", ""), insights)


def reword(text: str, rng: random.Random) -> str:
    """Return the subtopic in other words: with its halves exchanged, a word replaced or left out, or a phrase added."""
    halves = re.split(r" and ", text, maxsplit=1)
    if len(halves) == 2 and rng.random() < 0.5:
        text = f"{halves[1]} and {halves[0].lower()}"
    words = [SYNONYMS.get(word.lower(), word) for word in text.split()]
    if len(words) > 4 and rng.random() < 0.3:
        words.pop(rng.randrange(len(words)))
    text = " ".join(words)
    return rng.choice(LEADS).format(text[0].lower() + text[1:]) if rng.random() < 0.7 else text[0].upper() + text[1:]


def plant_faults(domains: list[str], level: int, plants: int, documents: int) -> Tally:
    """Make haystacks, domain by domain, until each kind of fault has been planted `plants` times."""
    tally, seed = Tally(), 0
    while min(tally.planted[kind] for kind in KINDS) < plants:
        haystack = Haystack(domains[seed % len(domains)], level, seed, documents)
        haystack.documents(tally)
        haystack.double_subtopics(tally, documents)
        haystack.leak_queries(tally, documents)
        seed += 1
    return tally


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plants", type=int, default=1000, help="of each kind, at each level, at least")
    parser.add_argument("--levels", type=int, nargs="+", default=[0, 1, 2, 3], help="paraphrase levels")
    parser.add_argument("--domains", nargs="+", default=["news", "conversation", "product_reviews", "incident_reports"])
    parser.add_argument("--documents", type=int, default=50, help="of a haystack")
    parser.add_argument("--show", action="store_true", help="some of the plants that were not found, too")
    asked = parser.parse_args()
    began = time.monotonic()
    report: dict[str, Any] = {"domains": asked.domains}
    for level in asked.levels:
        tally = plant_faults(asked.domains, level, asked.plants, asked.documents)
        report[f"paraphrase_{level}"] = tally.summary() | ({"lost": tally.lost} if asked.show else {})
    report["seconds"] = round(time.monotonic() - began, 1)
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
