"""Checks an outline and its documents (appendices A.1.1 to A.1.3).

Each check is made offline first, and gets a row. A model is asked only if the offline check is unsure and the asker has a model
for the task.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from summhay_ray.outcome import Answer, NoAnswer, Outcome
from summhay_ray.records import Check
from summhay_ray.synth.checking import outline_checks
from summhay_ray.synth.checking.copies import COPY, near_copies
from summhay_ray.synth.checking.presence import Presence
from summhay_ray.synth.checking.rows import OFFLINE, CheckRows, Decision, ModelAnswer, decisions
from summhay_ray.synth.making import kinds
from summhay_ray.synth.making.prompting import numbered

NOTHING = 0.05
"""Maximum score of a "not found" that is sure in any language."""

WORTH_ASKING = 0.2
"""Minimum score at which the model is asked about a planned insight, even if the offline check surely does not find it. Most
planned insights are in their documents."""

_Pair = tuple[int, int]


class NotChecked(Exception):
    """A model gave no usable answer to a check. `outcome` gives the reason."""

    def __init__(self, task: kinds.Task, outcome: NoAnswer) -> None:
        super().__init__(f"{task}: {outcome.error}: {outcome.message}")
        self.task: kinds.Task = task
        self.outcome = outcome


@dataclass(frozen=True, slots=True)
class Compared:
    """A document compared with its plan, as ids of insights. `evidence`: id of each found insight -> the words that show it."""

    missing: tuple[str, ...]
    extraneous: tuple[str, ...]
    evidence: Mapping[str, str]


class Verifier:
    """Makes the checks of one haystack.

    `given`: the fields of every prompt's input (topic, domain, language, ...). Calls for one document, query or stage of the
    outline must be awaited one after the other. Every method raises NotChecked if a model gives no usable answer.
    """

    def __init__(self, cell_id: str, asker: kinds.Asker, given: kinds.Input) -> None:
        self._asker, self._given, self._rows = asker, given, CheckRows(cell_id)
        self._english = outline_checks.is_english(str(given.get("language", outline_checks.ENGLISH)))
        self._passed: set[tuple[str, str]] = set()
        self._copy_rounds = 0
        self._presence: tuple[tuple[str, ...], Presence] = ((), Presence(()))

    @property
    def checks(self) -> tuple[Check, ...]:
        """All checks so far, in an order that does not depend on timing; see `CheckRows`."""
        return self._rows.checks

    async def subtopics(self, texts: Sequence[tuple[str, str]], round: int, settled: Collection[str] = ()) -> set[str]:
        """Return the ids of the subtopics (id, text) that overlap an earlier one. Each gets a row about the nearest earlier one.
        The `settled` ones are not compared with each other again."""
        pairs = {
            (one, two): self._read(outline_checks.overlap(texts[one][1], texts[two][1], str(self._given.get("topic", ""))))
            for two in range(len(texts))
            for one in range(two)
            if texts[two][0] not in settled
        }
        named, key = await self._pairs("overlapping_subtopics", "subtopics", [text for _, text in texts], pairs)
        return self._distinct("subtopic_distinct", round, texts, pairs, named, key)

    async def insights(self, subtopics: Sequence[kinds.PlannedSubtopic], round: int, drop: bool = True) -> set[str]:
        """Return the ids of the insights that are not specific, repeat an earlier one, or belong to another subtopic.

        Conflicting insights are no duplicates, but must be about the same question. Accepted insights are not assigned again.
        Without a model, an insight is dropped because of its subtopic only if the offline check is sure. Insights that one check
        drops skip the later checks; without `drop`, every insight gets every check.
        """
        listed = [insight for subtopic in subtopics for insight in subtopic.insights]
        dropped = self._dropped_by_words(subtopics, round)
        skipped = dropped if drop else set[str]()
        # Put accepted insights first, so that if a new insight equals an accepted one, the new one is the duplicate.
        kept = sorted(
            (insight for insight in listed if insight.insight_id not in skipped),
            key=lambda insight: (insight.insight_id, insight.text) not in self._passed,
        )
        pairs = {
            (one, two): self._read(outline_checks.same_insight(kept[one].text, kept[two].text))
            for two in range(len(kept))
            for one in range(two)
            if kept[one].insight_id != kept[two].conflicts_with and kept[two].insight_id != kept[one].conflicts_with
        }
        texts = [(insight.insight_id, insight.text) for insight in kept]
        named, key = await self._pairs("duplicate_insights", "insights", [text for _, text in texts], pairs)
        dropped |= (same := self._distinct("insight_distinct", round, texts, pairs, named, key))
        return dropped | await self._misassigned(subtopics, skipped | same if drop else skipped, round)

    async def query(self, subtopic: kinds.PlannedSubtopic, others: Sequence[kinds.PlannedInsight], round: int) -> bool:
        """Whether the subtopic's query reveals no insight. Words of the subtopic and topic do not count. There is a row for each
        insight of the subtopic, and for each of `others` (insights of other subtopics) that is surely revealed."""
        insights, known = subtopic.insights, f"{subtopic.text} {self._given.get('topic', '')}"
        findings = [self._read(outline_checks.leak(subtopic.query, insight.text, known)) for insight in insights]
        by_model = ModelAnswer()
        if unsure := self._unsure("query_leaks", findings):
            given = {"query": subtopic.query, "subtopic": subtopic.text}
            answer = await self._ask("query_leaks", {**given, "insights": numbered([insights[place].text for place in unsure])})
            by_model = self._model_answer("query_leaks", unsure, dict.fromkeys(answer.value, subtopic.query), answer.key)
        decided = decisions(findings, by_model)
        for insight, decision in zip(insights, decided, strict=True):
            self._rows.add("query_leak", round, (subtopic.subtopic_id, insight.insight_id), "no", decision)
        of_others = [(insight, self._read(outline_checks.leak(subtopic.query, insight.text, known))) for insight in others]
        leaked_too = [(insight, finding) for insight, finding in of_others if finding.found and finding.sure]
        for insight, finding in leaked_too:
            ids = (subtopic.subtopic_id, insight.insight_id)
            self._rows.add("query_leak", round, ids, "no", Decision(True, finding.score, finding.evidence))
        return not leaked_too and not any(decision.found for decision in decided)

    async def document(
        self, planned: kinds.PlannedDocument, text: str, insights: Sequence[kinds.PlannedInsight], round: int
    ) -> Compared:
        """Compare a document's insights with its plan: return the missing planned ones, and the additional ones. There is a row
        for each insight of the topic.

        The model is asked once, about all insights on which the offline check is unsure. An insight that the model names counts
        if the offline check found it, too, or if the model's evidence is in the text and about the insight.
        """
        presence = self._presence_of(insights)
        findings, expected = [*map(self._read, presence.find(text))], frozenset(planned.insight_ids)
        by_model = ModelAnswer()
        hoped = {place for place, insight in enumerate(insights) if insight.insight_id in expected}
        if unsure := self._unsure("insights_present", findings, hoped):
            listed = numbered([insights[place].text for place in unsure])
            answer = await self._ask("insights_present", {"document": text, "insights": listed})
            shown, unshown = {}, {}
            for place, words in answer.value.items():
                if place < len(unsure):
                    finding = findings[unsure[place]]
                    if presence.shows(unsure[place], words, text):
                        shown[place] = words
                    elif finding.found:
                        shown[place] = finding.evidence
                    else:
                        unshown[unsure[place]] = words
            by_model = replace(self._model_answer("insights_present", unsure, shown, answer.key), unshown=unshown)
        there: dict[str, str] = {}
        for insight, decision in zip(insights, decisions(findings, by_model), strict=True):
            wanted = "yes" if insight.insight_id in expected else "no"
            self._rows.add("document_insight", round, (planned.document_id, insight.insight_id), wanted, decision)
            if decision.found:
                there[insight.insight_id] = decision.evidence
        missing = tuple(insight_id for insight_id in planned.insight_ids if insight_id not in there)
        return Compared(missing, tuple(insight_id for insight_id in there if insight_id not in expected), there)

    def settle(self, document_id: str, round: int, last: int) -> None:
        """Copy the rows of a document's round as those of its last round, because that round's text is kept."""
        self._rows.repeat("document_insight", document_id, round, last)

    async def chapter(
        self, text: str, expected: kinds.PlannedInsight, outline: kinds.PlannedHaystack, document_id: str, round: int
    ) -> bool:
        """Whether a chapter introduces the insight for which it was written, and no other insight of the topic. There is one
        row."""
        insights = outline.insights
        place = [insight.insight_id for insight in insights].index(expected.insight_id)
        findings = [*map(self._read, self._presence_of(insights).find(text))]
        others = [spot for spot, finding in enumerate(findings) if finding.found and spot != place]
        spot = next((spot for spot in others if findings[spot].sure), None)
        by, key = OFFLINE, ""
        if (
            spot is None
            and (others or self._unsure("chapter_check", [findings[place]], {0}))
            and self._asker.model("chapter_check")
        ):
            listed = {
                "subtopics": numbered([subtopic.text for subtopic in outline.subtopics]),
                "insights": numbered([insight.text for insight in insights]),
            }
            answer = await self._ask("chapter_check", {"chapter": text, **listed})
            spot, by, key = _within(answer.value, len(insights)), self._asker.model("chapter_check"), answer.key
        elif spot is None:
            spot = place if findings[place].found and not others else next(iter(others), None)
        said = "no" if spot is None else insights[spot].insight_id
        evidence = "" if spot is None else findings[spot].evidence
        decision = Decision(spot == place, findings[place].score, evidence, by, key, said)
        self._rows.add("chapter_insight", round, (document_id, expected.insight_id), expected.insight_id, decision)
        return spot == place

    def reference(self, ids: tuple[str, str], texts: tuple[str, str], named: Mapping[str, str], round: int) -> bool:
        """Whether the first document refers to the second. There is one row.

        `ids`: those of the two documents. `texts`: the first document's text, which is searched for the `date` of `named`, and
        its sentences without insights, which are searched for the `headline`.
        """
        finding = outline_checks.refers(texts, named["date"], named["headline"], str(self._given.get("topic", "")))
        self._rows.add("document_reference", round, ids, "yes", Decision(finding.found, finding.score, finding.evidence))
        return finding.found

    async def copies(self, texts: Mapping[str, str]) -> set[str]:
        """Return the ids of the documents that are near-copies of an earlier one. There is a row for each pair with at least half
        the similarity of a near-copy, and one for the haystack."""
        # Ten thousand documents take a minute. A thread keeps the event loop free for other haystacks.
        pairs = await asyncio.to_thread(near_copies, texts)
        for earlier, later, share in pairs:
            evidence = f"{share:.0%} of their runs of words are the same" if share >= COPY else ""
            self._rows.add("document_copy", self._copy_rounds, (later, earlier), "no", Decision(share >= COPY, share, evidence))
        copies = {later for _, later, share in pairs if share >= COPY}
        summary = f"{len(texts)} documents, {len(copies)} near-copies of an earlier one, {len(pairs)} pairs that come near it"
        nearest = max((share for *_, share in pairs), default=0.0)
        self._rows.add("document_copy", self._copy_rounds, ("", ""), "no", Decision(bool(copies), nearest, summary))
        self._copy_rounds += 1
        return copies

    def _dropped_by_words(self, subtopics: Sequence[kinds.PlannedSubtopic], round: int) -> set[str]:
        """Return the ids of the insights that fail a check of their words. Accepted insights are not checked again.

        An insight fails if it has no number, date or name, or no conflict although one is planned, or if the text of its own
        subtopic reveals it. In the last case, any query about the subtopic would reveal it.
        """
        topic, dropped = str(self._given.get("topic", "")), set[str]()
        listed = [(subtopic, insight) for subtopic in subtopics for insight in subtopic.insights]
        new = [(subtopic, insight) for subtopic, insight in listed if (insight.insight_id, insight.text) not in self._passed]
        for _, insight in new:
            finding = outline_checks.specific(insight.text)
            decision = Decision(finding.found, finding.score, finding.evidence)
            self._rows.add("insight_specific", round, (insight.insight_id, ""), "yes", decision)
            # In other languages, names are not recognized. An insight without a number or date may still be specific.
            if not finding.found and finding.sure and self._english:
                dropped.add(insight.insight_id)

        known = {insight.insight_id: (place, insight) for place, (_, insight) in enumerate(listed)}
        for _, insight in new:
            place, earlier = known.get(insight.conflicts_with, (len(listed), None))
            if earlier is None or place >= known[insight.insight_id][0]:
                continue
            finding = outline_checks.other_side(insight.text, earlier.text)
            decision = Decision(finding.found, finding.score, finding.evidence)
            self._rows.add("insight_conflict", round, (insight.insight_id, earlier.insight_id), "yes", decision)
            if not finding.found and (self._english or self._read(finding).sure):
                dropped.add(insight.insight_id)

        for subtopic, insight in new:
            finding = self._read(outline_checks.leak(subtopic.text, insight.text, topic))
            leaked = finding.found and finding.sure and outline_checks.holds_facts(f"{subtopic.text} {topic}", insight.text)
            decision = Decision(leaked, finding.score, finding.evidence if leaked else "")
            self._rows.add("subtopic_leak", round, (subtopic.subtopic_id, insight.insight_id), "no", decision)
            if leaked:
                dropped.add(insight.insight_id)
        return dropped

    async def _pairs(
        self, task: kinds.Task, name: str, texts: Sequence[str], pairs: Mapping[_Pair, kinds.Finding]
    ) -> tuple[set[_Pair], str]:
        """Return the pairs of indices that the model calls the same, and its answer's key. One question covers all unsure
        pairs."""
        places = sorted({place for pair, finding in pairs.items() if not finding.sure for place in pair})
        if not places or not self._asker.model(task):
            return set(), ""
        answer = await self._ask(task, {name: numbered([texts[place] for place in places])})
        named = {(min(pair), max(pair)) for pair in answer.value if max(pair) < len(places)}
        return {(places[first], places[second]) for first, second in named if first != second}, answer.key

    def _distinct(
        self,
        kind: str,
        round: int,
        texts: Sequence[tuple[str, str]],
        pairs: Mapping[_Pair, kinds.Finding],
        named: set[_Pair],
        key: str,
    ) -> set[str]:
        """Return the ids of the texts (id, text) with the same meaning as an earlier, kept text. Each text gets a row about the
        nearest earlier one.

        `named`: the pairs that the model calls the same; `key`: the key of its answer.
        """
        model = self._asker.model("overlapping_subtopics" if kind == "subtopic_distinct" else "duplicate_insights")
        dropped: set[int] = set()
        for two, (name, _) in enumerate(texts):
            best, nearest = Decision(True, 0.0, said="yes"), ""
            for one in range(two):
                finding = pairs.get((one, two))
                if finding is None or one in dropped:
                    continue
                by_model = bool(model) and ((one, two) in named or not finding.sure)
                same = (one, two) in named if by_model else finding.found
                here = Decision(not same, finding.score, texts[one][1] if same else "", said="no" if same else "yes")
                if not nearest or (not here.found, here.score) > (not best.found, best.score):
                    best, nearest = replace(here, by=model, key=key) if by_model else here, texts[one][0]
            if not best.found:
                dropped.add(two)
            self._rows.add(kind, round, (name, nearest), "yes", best)
        return {texts[place][0] for place in dropped}

    async def _misassigned(self, subtopics: Sequence[kinds.PlannedSubtopic], dropped: set[str], round: int) -> set[str]:
        """Assign the insights to subtopics without their plan; return the ids of those that are assigned to another subtopic.
        Dropped insights are skipped. A model decides if the offline check is unsure."""
        texts, elsewhere = [subtopic.text for subtopic in subtopics], set()
        new = [
            (subtopic, insight)
            for subtopic in subtopics
            for insight in subtopic.insights
            if insight.insight_id not in dropped and (insight.insight_id, insight.text) not in self._passed
        ]
        assignments = []
        for _, insight in new:
            others = [[other.text for other in every.insights if other is not insight] for every in subtopics]
            place, finding = outline_checks.assigned(insight.text, texts, others)
            assignments.append((place, self._read(finding), OFFLINE, ""))
        model = self._asker.model("assign_subtopic")
        unsure = [spot for spot, (_, finding, *_) in enumerate(assignments) if model and not finding.sure]
        shared = {"task": "assign_subtopic", **self._given, "subtopics": numbered(texts)}
        asked = [self._asker.ask("assign_subtopic", {**shared, "insight": new[spot][1].text}) for spot in unsure]
        for spot, outcome in zip(unsure, await asyncio.gather(*asked), strict=True):
            answer = _answered("assign_subtopic", outcome)
            assignments[spot] = (_within(answer.value, len(texts)), assignments[spot][1], model, answer.key)
        for (subtopic, insight), (place, finding, by, key) in zip(new, assignments, strict=True):
            said = "none" if place is None else subtopics[place].subtopic_id
            evidence = "" if place is None else texts[place]
            decision = Decision(said == subtopic.subtopic_id, finding.score, evidence, by, key, said)
            self._rows.add("insight_subtopic", round, (insight.insight_id, subtopic.subtopic_id), subtopic.subtopic_id, decision)
            if not decision.found and (finding.sure or by != OFFLINE):
                elsewhere.add(insight.insight_id)
            else:
                self._passed.add((insight.insight_id, insight.text))
        return elsewhere

    def _presence_of(self, insights: Sequence[kinds.PlannedInsight]) -> Presence:
        """Return the index of these insights, which is cached until others are requested."""
        texts = tuple(insight.text for insight in insights)
        if self._presence[0] != texts:
            self._presence = (texts, Presence(texts))
        return self._presence[1]

    def _read(self, finding: kinds.Finding) -> kinds.Finding:
        """Return the finding. In languages other than English, only a clear "not found" stays sure."""
        return (
            finding if self._english else replace(finding, sure=finding.sure and not finding.found and finding.score <= NOTHING)
        )

    def _unsure(self, task: kinds.Task, findings: Sequence[kinds.Finding], hoped: Collection[int] = ()) -> list[int]:
        """Return the indices of the findings about which the model must be asked; none without a model. `hoped`: indices of
        planned insights."""
        if not self._asker.model(task):
            return []
        nearly = {place for place in hoped if not findings[place].found and findings[place].score > WORTH_ASKING}
        return [place for place, finding in enumerate(findings) if not finding.sure or place in nearly]

    def _model_answer(self, task: kinds.Task, asked: Sequence[int], named: Mapping[int, str], key: str) -> ModelAnswer:
        shown = {asked[place]: words for place, words in named.items() if place < len(asked)}
        return ModelAnswer(frozenset(asked), shown, self._asker.model(task), key)

    async def _ask(self, task: kinds.Task, given: kinds.Input) -> Answer[Any]:
        return _answered(task, await self._asker.ask(task, {"task": task, **self._given, **given}))


def _answered(task: kinds.Task, outcome: Outcome[Any]) -> Answer[Any]:
    if isinstance(outcome, Answer):
        return outcome
    raise NotChecked(task, outcome)


def _within(place: int | None, number: int) -> int | None:
    return place if place is not None and place < number else None
