"""The health of a haystack: whether it can show which system is better, in plain sentences.

`topic_metadata.mine` of a mined haystack records people's work: `review` has their decisions, and `check` the pairs of an insight
and a document that they checked. The haystack's id excludes both, so existing runs remain valid.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

FEWEST_QUERIES = 6
"""Minimum number of queries for naming a winner."""
LEAST_GOLD = 0.75
"""Minimum share of right pairs, among those that people checked, for naming a winner."""
FEWEST_PAIRS = 10
"""Minimum number of checked pairs for an estimate of the share of right pairs."""
LEAST_ORACLE = 0.1
"""Minimum joint score of the best system with only the gold documents, for naming a winner."""
MOST_METADATA, SOME_METADATA = 1 / 3, 0.1
"""Shares of insights that look like metadata. From the first share on, no winner is named; from the second on, a sentence reports
it."""
FEWEST_DOCUMENTS = 2.5
"""If the mean number of documents per insight is lower, a sentence reports it."""
LEAST_AGREEMENT = 0.8
"""Minimum agreement of a free judge with people on the checked pairs. If it is lower, a sentence advises another judge."""
FREE_JUDGE = "offline/judge"
_SHOWN = 3
"""Maximum number of haystacks in a list."""

_MARKS = re.compile(
    r"^\s*(?:[#>|]|```|---)"  # headings, quotations, tables, fences
    r"|\|.*\|"  # rows of a table
    r"|\]\(\S+\)|https?://\S+\s*$"  # links
    r"|^\s*[\w .-]{1,30}:\s*(?:\S{0,60}|[\W\dTZ]+)\s*$"  # a field and its value
    r"|\b[0-9a-f]{8}-[0-9a-f]{4}-"  # ids
    r"|^\s*\W*\d{1,4}[-./:]\d{1,2}\S*\s+\S+(?:\s\S+){0,2}$"  # a time and a word or two
    r"|(?:^|\s)@\w+|<[^<>\s]+@[^<>\s]+>"  # a user name or an e-mail address
)
_WORD = re.compile(r"[^\W\d_]+")


def looks_like_metadata(text: str) -> bool:
    """Whether an insight does not look like a statement: a field, a row of a table, a heading, a list of names or of initials."""
    words = _WORD.findall(text)
    if any(word.lower() == word.upper() for word in words):
        # In a script without capitals, words may have no spaces between them.
        return bool(_MARKS.search(text))
    lower = [word for word in words if word.islower() and len(word) > 1]
    return bool(_MARKS.search(text)) or len(lower) < max(2, len(words) / 4)


@dataclass(frozen=True, slots=True)
class HaystackFacts:
    """What is known about a mined haystack. A run stores it."""

    run: str
    """The run that mined it."""
    insights: int
    like_metadata: int
    """Number of insights that look like metadata."""
    example: str
    """One of these insights."""
    seen: int
    """Number of insights about which people decided."""
    checked: int = 0
    """Number of pairs of an insight and a document that people checked."""
    right: int = 0
    low: float | None = None
    """Lower and upper end of the 95 % interval (Wilson's) of the share of right pairs."""
    high: float | None = None
    judged: int = 0
    """Number of these pairs that the free judge judged, too."""
    agreed: int = 0
    pairs: int = 0
    """Number of pairs of an insight and a document that states it; 0 if unknown."""


def facts_of(raw: Mapping[str, Any]) -> HaystackFacts | None:
    """Return the facts of a haystack's JSON; None if it was not mined, since then its documents were written from its
    insights."""
    metadata = raw.get("topic_metadata")
    made = metadata.get("mine") if isinstance(metadata, dict) else None
    if not isinstance(made, dict):
        return None
    listed = [one for subtopic in raw["subtopics"] for one in subtopic["insights"]]
    texts = [str(one["insight"]) for one in listed]
    odd = [text for text in texts if looks_like_metadata(text)]
    review, check = (record if isinstance(record := made.get(name), dict) else {} for name in ("review", "check"))
    return HaystackFacts(
        run=str(made.get("run", "")),
        insights=len(texts),
        like_metadata=len(odd),
        example=odd[0][:60] if odd else "",
        seen=review.get("seen", 0),
        pairs=sum(len(one.get("evidence", ())) for one in listed),
        **{name: check[name] for name in ("checked", "right", "low", "high", "judged", "agreed") if name in check},
    )


@dataclass(frozen=True, slots=True)
class Health:
    """Reasons to doubt a run's results, one sentence each.

    A haystack that was not mined was written from its insights, so only a low number of queries is a reason.
    """

    doubts: tuple[str, ...]
    limits: tuple[str, ...]
    """The reasons for which no winner is named."""
    caveats: tuple[str, ...] = ()
    """Reasons to be less confident in a winner, in a few words each."""

    def lines(self) -> list[str]:
        return [*self.limits, *self.doubts]


def health(
    haystacks: Sequence[tuple[str, HaystackFacts | None]],
    n_queries: int,
    oracle: float | None = None,
    judge: str = "",
) -> Health:
    """Assess whether haystacks (name, facts) are a sound basis for a decision. `oracle`: the best joint score (0 to 1) with only
    the gold documents, by `judge`, if known."""
    doubts: list[str] = []
    limits: list[str] = []
    unchecked = [name for name, facts in haystacks if facts and facts.checked < FEWEST_PAIRS]
    fewer = f"of which people have checked fewer than {FEWEST_PAIRS}{' each' if len(unchecked) > 1 else ''}"
    caveats = [f"the gold documents of {_listed(unchecked)}, {fewer}"] if unchecked else []
    if n_queries < FEWEST_QUERIES:
        queries = "1 query is" if n_queries == 1 else f"{n_queries} queries are"
        limits.append(f"{queries} too few: with fewer than {FEWEST_QUERIES} no winner is named; ask more, or add haystacks")
    if oracle is not None and oracle < LEAST_ORACLE and any(facts for _, facts in haystacks):
        what = f"with the gold documents alone (oracle) the best system has a joint score of {100 * oracle:.1f} %"
        limits.append(f"{what}: below {100 * LEAST_ORACLE:.0f} % no winner is named; look at the insights and the judge")
    for name, facts in haystacks:
        if facts is None:
            continue
        share = facts.like_metadata / max(1, facts.insights)
        if share >= SOME_METADATA:
            what = f"{name}: {facts.like_metadata} of {facts.insights} insights look like metadata, such as {facts.example!r}"
            mend = "strike them in a review (summhay mine --review)"
            if share >= MOST_METADATA:
                limits.append(f"{what}: with so many no winner is named; {mend}")
            else:
                doubts.append(f"{what}; {mend}")
        if thin := few_documents(facts.insights, facts.pairs):
            doubts.append(f"{name}: {thin}")
        if facts.checked:
            right = _right(name, facts)
            if facts.checked < FEWEST_PAIRS:
                doubts.append(f"{right}; at least {FEWEST_PAIRS} are needed: check more (summhay mine --check)")
            elif facts.right < LEAST_GOLD * facts.checked:
                least = f"below {100 * LEAST_GOLD:.0f} % no winner is named"
                limits.append(f"{right}: {least}; mend the haystack (summhay mine --review)")
            else:
                doubts.append(right)
        elif facts.seen:
            what = f"{name}: people decided about {facts.seen} of {facts.insights} insights, and nobody has checked its pairs"
            doubts.append(f"{what}: summhay mine {name}.json --check 20 takes a minute")
        if judge == FREE_JUDGE and facts.judged >= FEWEST_PAIRS:
            agreed = f"{name}: {judge} agrees with the person on {facts.agreed} of {facts.judged} checked pairs"
            few = facts.agreed < LEAST_AGREEMENT * facts.judged
            doubts.append(f"{agreed}{'; a model as judge, or labels (summhay label), would tell more' if few else ''}")
    unseen = [name for name, facts in haystacks if facts and not facts.checked and not facts.seen]
    if unseen:
        these = "this haystack" if len(unseen) == 1 else f"these {len(unseen)} haystacks"
        mend = f"summhay mine {unseen[0]}.json --check 20 takes a minute"
        doubts.append(f"{_listed(unseen)}: nobody has looked at {these}, whose gold is by words alone or by a model; {mend}")
    return Health(tuple(doubts), tuple(limits), tuple(caveats))


def _listed(names: Sequence[str]) -> str:
    """Some names, and the number of further ones."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def few_documents(n_insights: int, n_pairs: int) -> str:
    """Return a sentence if the insights have too few documents to distinguish systems' citations; else an empty string."""
    if not 0 < n_pairs < FEWEST_DOCUMENTS * n_insights:
        return ""
    mean = f"{n_insights} insights have {n_pairs / n_insights:.1f} documents each on average"
    return f"{mean}, so each wrong one weighs much in citation scores; more documents about the same things would help"


def _right(name: str, facts: HaystackFacts) -> str:
    ends = "" if facts.low is None or facts.high is None else f", 95 % interval {100 * facts.low:.0f} to {100 * facts.high:.0f} %"
    share = f"{100 * facts.right / facts.checked:.0f} %{ends}"
    return f"{name}: {facts.right} of {facts.checked} checked pairs of insight and document are right ({share})"
