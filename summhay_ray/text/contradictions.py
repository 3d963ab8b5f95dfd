"""Finds contradictions between a statement and its evidence: numbers, amounts, dates, times, names, denials.

Two facts contradict each other if they have the same role but different values. They have the same role if they share a noun, a
unit or neighbouring words, in sentences that share words. There is no contradiction if the evidence contains the statement's fact
anywhere, in any form, or does not mention it.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from summhay_ray.text.fact_tokens import Day, infinitive
from summhay_ray.text.facts import MOVING, MUTUAL, PARTICLES, Action, Fact, Kind, Statement, read_statement
from summhay_ray.text.negations import Negation
from summhay_ray.text.words import root, sentences, stem

_WINDOW = 3
"""Number of adjacent sentences in a window of the evidence."""
_SHARED = 0.4
"""Minimum share of the statement's words that its evidence must contain, for numbers and dates; denials and names need more."""
_SHARED_BY_DENIALS, _SHARED_BY_NAMES, _SHARED_BY_OPPOSITES = 0.5, 0.6, 0.6
_SHARED_BY_LONE = 0.5
"""Minimum share of the shorter sentence's words, if each sentence has only one number with this unit."""
_SHORT = 4
"""Maximum number of content words in a short statement."""
_NEAR = 3
"""Maximum distance, in content words, of a word that belongs to a fact."""
_MANY = 100
"""Equal numbers with different nouns count different things if they are below this limit. From the limit on, they are assumed to
count the same things: 640 participants may be 640 people."""
_FEW = 2
"""Numbers up to this one are often written in other ways: "a pair", "both"."""
_BEGINNING = 4
"""Number of first letters in which a name and its adjective agree, such as Norway and Norwegian."""
_ARTICLES = frozenset(("the", "a", "an"))
_IN = frozenset(("in", "on", "at", "inside", "under", "near"))
_LEADS = _ARTICLES | _IN
_WHERE = _IN | {"to", "from"}
_PARTLY = ("all", "every", "many", "much", "always", "entirely", "necessarily")
_ALL = frozenset((*_PARTLY, *map(root, _PARTLY)))
"""Words after `not` that make a denial partial: "not all" leaves the statement true in part."""
_DECISION_WORDS = """
    accept accepted adopt adopted agree agreed allow allowed approval approve approved authorize authorized carried confirm
    confirmed continue continued enable enabled endorse endorsed extend extended favor favour grant granted impose imposed
    introduce introduced keep kept legal pass passed permit permitted proceed proceeded ratify reinstate reinstated renew
    renewed restore restored resume resumed retain retained sign signed support supported uphold upheld
    / abandon abandoned abolish abolished against appeal ban banned block blocked cancel cancelled cease ceased defeat
    defeated denied deny disable disabled disagree disagreed discard discarded discontinue discontinued dismiss dismissed drop
    dropped end ended forbade forbid forbidden halt halted illegal lift lifted objection oppose opposed overturn overturned
    postpone postponed prohibit prohibited refusal refuse refused reject rejected rejection remove removed repeal repealed
    revoke revoked scrap scrapped stop stopped suspend suspended terminate terminated veto vetoed withdraw
"""
"""Words for yes, then words for no. Two words for no in a row are a yes: "rejected the appeal"."""
_JOINING = ({"and"}, {"or"})
_SYMMETRIC = MUTUAL | {"with", "as", "when", "while"}
"""Words between two parts that can change places without another meaning. `_JOINING` words are such words if no other function
word is between the parts."""
_PART = 3
"""Maximum number of words in such a part, without articles."""
_SIDING = frozenset(map(stem, ("vote", "rule", "argue", "decide", "campaign", "speak", "testify", "lobby")))
"""Verbs after which `for` and `against` are opposites."""
_REACH = 8
"""Maximum number of tokens from a verb to `for` or `against`, and on to the noun."""
_MOST = 4
"""For each pair of opposites, at most this many of its words are compared in each of two sentences."""
_DIRECTIONS = frozenset(("up", "down", "off", "out", "back", "forward"))
"""Particles that make opposites of a verb."""
_TURNING = frozenset(("against", root("appeal"), root("objection")))
"""Words for no that count only next to another word for yes or no: "rejected the appeal"."""
_UNCERTAIN_WORDS = """
    only few little rarely barely hardly unlike instead rather except insufficient impossible unable without unless
    prevent lose avoid lack absence missing failure exempt
"""
_SOFT = frozenset(map(root, _UNCERTAIN_WORDS.split() + _DECISION_WORDS.split("/")[1].split())) | {"against"}
"""Words that deny a statement without "not", or make it uncertain: "rejected", "barely"."""
_MOVING = MOVING | {"be", "been", "is", "are", "was", "were"}
"""Words that form an opposite together with a particle: "rates went up", but not "the team set up a server"."""
_OPPOSITE_WORDS = """
    rose rise risen rising increase grew grow grown growth climb gain surge soar jump upward up
    / fell fall fallen falling decrease decline drop shrink shrank shrunk reduce reduction loss slump plunge plummet tumble down
    on / off
    raise raised up / lower lowered reduce reduced cut down
    double doubled / triple tripled / halve halved
    hourly / daily / weekly / monthly / quarterly / yearly annually annual
    high higher highest / low lower lowest
    large larger largest big bigger biggest / small smaller smallest
    long longer / short shorter
    fast faster / slow slower
    strong stronger / weak weaker
    begin began begun start started / end ended stop stopped finish finished
    open opened reopen reopened start started / close closed shut
    end ended / complete completed
    improve improved better / worsen worsened worse deteriorate deteriorated
    succeed succeeded success / fail failed failure
    win won keep kept retain retained / lose lost
    survive survived / die died dead
    before / after
    from since / until
    first / last
    earliest / latest
    earlier sooner / later
    hire hired / dismiss dismissed
    buy bought / sell sold
    lend lent / borrow borrowed
    create created add added include included / cut eliminate eliminated exclude excluded remove removed drop dropped
    join joined stay stayed / leave left quit
    advance advanced / postpone postponed delay delayed
    connect connected / disconnect disconnected
    arrest arrested / release released
    held / cancel cancelled scrap scrapped postpone postponed suspend suspended
    support supported favour favor / oppose opposed against
    positive / negative
    indoors indoor / outdoors outdoor
    most many / few
    pass passed / fail failed
    guilty convict convicted sentence sentenced / innocent acquit acquitted
    public / private
    manual manually / automatic automatically
    temporary temporarily / permanent permanently
    expensive costly / cheap inexpensive
    present / absent
    full / empty
    profit / loss
    surplus / deficit
    strengthen strengthened / weaken weakened
    majority / minority
    minimum / maximum
    mandatory compulsory required / optional voluntary
    north northern / south southern
    east eastern / west western
    inside / outside
    always / never
    all every each / none / half / only
    subject / exempt
"""
_PRONOUNS = frozenset(("it", "they", "them", "he", "him", "she", "her", "this", "these", "both"))
_BREAKING_WORDS = ", ; : and or but after before because when while which who that if although though"
_BREAKS = frozenset(_BREAKING_WORDS.split())
"""Tokens between words for yes and no that do not belong together."""
_SIDES: dict[str, set[tuple[int, int]]] = {}
"""Stem of a word -> (group of words that exclude each other, the word's side in this group)."""
for _place, _line in enumerate([_DECISION_WORDS, *_OPPOSITE_WORDS.replace("\n    /", " /").strip().splitlines()]):
    for _side, _words in enumerate(_line.split("/")):
        for _word in _words.split():
            for _form in {_word, stem(infinitive(_word))}:
                _SIDES.setdefault(_form, set()).add((_place, _side))


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A contradiction between a statement and its evidence."""

    kind: Kind
    statement: str
    """The statement's words that are contradicted."""
    evidence: str
    """The evidence's words that contradict them."""


def find_contradictions(statement: str, evidence: str | Sequence[str]) -> list[Contradiction]:
    """Return the contradictions between a statement and its evidence, in the order of the statement, at most one for each fact.

    `evidence`: a passage of any length, or its sentences. Each sentence of the statement is compared with the three adjacent
    sentences of the evidence that share the most words with it. A statement never contradicts itself.
    """
    said, shown = _passage(statement), _passage(evidence if isinstance(evidence, str) else tuple(evidence))
    found: list[Contradiction] = []
    for one in said.statements:
        opposes = bool(one.prefixed or one.particles) or any(not some.isdisjoint(one.stems) for some in (_SIDES.keys(), _SIDING))
        twins = [near for near in shown.statements if len(one.roots - near.roots) == 1 == len(near.roots - one.roots)]
        swapped = (
            (shown.actions and _swapped_action(one, said.actions, shown.actions))
            or _other_agent(one, said.statements, shown.statements)
            or _swapped_words(one, shown.statements)
        )
        stages = (one.done & shown.planned) - shown.done - said.planned | (one.planned & shown.done) - shown.planned - said.done
        if not (one.facts or one.negations or shown.denies or opposes or twins or swapped or stages):
            continue
        if len(one.roots & shown.roots) < _SHARED * min(len(one.roots), len(shown.roots)):
            continue
        missing = [fact for fact in one.facts if not _is_among(fact, shown.facts)]
        if not (missing or one.negations or shown.denies or opposes or twins or swapped or stages):
            continue
        # The shortest run of adjacent sentences that contains the most words of the statement.
        shared = [one.roots & near.roots for near in shown.statements]
        runs = [slice(begin, begin + size) for size in range(1, _WINDOW + 1) for begin in range(len(shared) - size + 1)]
        best = max(runs, key=lambda run: len(frozenset().union(*shared[run])), default=slice(0))
        window = shown.statements[best]
        common = one.roots & frozenset().union(*(near.roots for near in window))
        least = min(len(one.roots), len(frozenset().union(*(near.roots for near in window))))
        if not common or len(common) < _SHARED * least:
            continue
        earlier = len(found)
        for fact in missing:
            rivals = [other for near in window for other in near.facts if _same_role(fact, one, other, near, common)]
            # A number does not contradict if it is another fact of the statement, or a sum of the statement's or the evidence's
            # numbers.
            rivals = [other for other in rivals if not _is_among(other, said.facts)]
            sums = any(_adds_up(fact, near.facts) for near in window) or any(_adds_up(other, one.facts) for other in rivals)
            if rivals and not sums:
                found.append(Contradiction(fact.kind, fact.words, rivals[0].words))
        if len(common) >= _SHARED_BY_DENIALS * least:
            found += _denials(one, said.statements, window, shown.statements)
        found += _opposites(one, window)
        found += _stages(one, stages, window)
        if swapped:
            found.append(swapped)
        if len(found) == earlier:
            found += _other_words(one, twins, said.roots, shown.roots)
    return found


def find_omissions(statement: str, evidence: str) -> list[str]:
    """Return the numbers, dates, times and names of a statement that the evidence does not contain in any form.

    Facts that are often expressed by other words are left out: one and two, ordinals and fractions in words, and a single word at
    the beginning of a sentence, which may not be a name.
    """
    shown, omitted = _passage(evidence), []
    for fact in _passage(statement).facts:
        if (number := fact.quantity) is not None:
            in_words = not any(letter.isdigit() for letter in fact.words)
            often_replaced = in_words and (number.unit in ("%", "#") or all(value <= _FEW for value in number.stated))
            found = often_replaced or any(other.quantity and number.agrees(other.quantity) for other in shown.facts)
        else:
            # The first word of a sentence may be a common noun: "Skipper Ada Lake".
            words = fact.name[fact.place == 0 and len(fact.name) > 1 :]
            # A name may appear as an adjective: Norwegian ships are ships from Norway.
            beginnings = {root[:_BEGINNING] for root in shown.roots} if words else ()
            found = (fact.begins and not fact.acts) or any(word[:_BEGINNING] in beginnings for word in words)
            found = found or _is_among(fact, shown.facts)
        if not found:
            omitted.append(fact.words)
    return omitted


@dataclass(frozen=True, slots=True)
class _Passage:
    """The sentences of a text, and the facts of all of them."""

    statements: Sequence[Statement]
    facts: Sequence[Fact]
    """The facts, without repeated values."""
    roots: frozenset[str]
    actions: frozenset[Action]
    denies: bool
    """Whether any sentence has a negation or a negative prefix."""
    done: frozenset[str]
    planned: frozenset[str]


@functools.lru_cache(maxsize=1 << 14)
def _passage(text: str | tuple[str, ...]) -> _Passage:
    """Return the passage of a text, or of its sentences."""
    statements = [read_statement(sentence) for sentence in (sentences(text) if isinstance(text, str) else text)]
    facts = {
        (one.kind, one.quantity, one.days, one.edges, one.minutes, one.name): one for read in statements for one in read.facts
    }
    roots, done, planned = (
        (
            frozenset[str]().union(*of_sentences)
            for of_sentences in zip(*((one.roots, one.done, one.planned) for one in statements), strict=True)
        )
        if statements
        else (frozenset[str](),) * 3
    )
    actions = frozenset(action for one in statements for action in one.actions)
    denies = any(one.negations or one.prefixed for one in statements)
    return _Passage(statements, list(facts.values()), roots, actions, denies, done, planned)


def _is_among(fact: Fact, others: Sequence[Fact]) -> bool:
    """Whether one of the others can be the same fact. If some of them count exactly the same things, only these are compared:
    "two high severity issues" are not "two low severity issues" if the text mentions both."""
    if fact.quantity and fact.quantity.unit != "#" and len(nouns := fact.quantity.nouns) > 1:
        exact = [other for other in others if other.quantity and other.quantity.nouns == nouns]
        others = exact or others
    return any(_agree(fact, other) for other in others)


def _agree(one: Fact, other: Fact) -> bool:
    """Whether two facts can be the same: their values are equal, or one is part of the other."""
    if one.name or other.name:
        return bool(one.name and other.name and _same_name(one.name, other.name))
    if one.days and other.days:
        # "After 1 March" means "from 2 March".
        pairs = [(one.days, other.days)]
        if bool(one.edges) != bool(other.edges):
            pairs += [(one.edges, other.days), (one.days, other.edges)]
        return any(_same_day(first, second) for days, others in pairs for first in days for second in others)
    if one.minutes and other.minutes:
        return bool(one.minutes & other.minutes)
    if one.quantity and other.quantity:
        nouns, others = one.quantity.nouns, other.quantity.nouns
        # "The second" omits its noun, and 640 participants may be 640 people.
        elsewhere = nouns and others and not nouns & others and one.quantity.unit != "#" and one.quantity.low < _MANY
        return one.quantity.agrees(other.quantity) and not elsewhere
    return False


def _adds_up(fact: Fact, parts: Sequence[Fact]) -> bool:
    """Whether a number is the sum of two others with the same unit: 3,300 units are 3,000 here and 300 there."""
    if fact.quantity is None:
        return False
    given = [other.quantity for other in parts if other.quantity and other.quantity.unit == fact.quantity.unit]
    alike = [one.low for one in given if one.low == one.high]
    return any(one + two == fact.quantity.low for one, two in itertools.combinations(alike, 2))


def _same_day(one: Day, other: Day) -> bool:
    """Whether two dates agree in all parts that both give."""
    for first, second in ((one[0], other[0]), (one[1], other[1]), (one[3], other[3])):
        if first is not None and second is not None and first != second:
            return False
    if one[2] is None or other[2] is None:
        return True
    (begin, end), (first_day, last_day) = one[2], other[2]
    return (begin <= first_day and last_day <= end) or (first_day <= begin and end <= last_day)


@functools.lru_cache(maxsize=1 << 16)
def _same_name(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether one name is a part of the other, or consists of its initials."""
    for part, whole in ((one, other), (other, one)):
        if all(any(long.startswith(word) or word.startswith(long) for long in whole) for word in part):
            return True
    return any("".join(word[:1] for word in long)[:5] in short for short, long in ((one, other), (other, one)))


def _same_role(fact: Fact, statement: Statement, other: Fact, near: Statement, common: frozenset[str]) -> bool:
    """Whether two different facts have the same role, that is, are about the same thing."""
    if fact.kind != other.kind:
        return False
    if fact.name:
        own, foreign = set(fact.name) - set(other.name), set(other.name) - set(fact.name)
        if foreign & statement.roots or own & near.roots:
            return False
        whole = statement.roots - own <= near.roots or near.roots - foreign <= statement.roots
        if fact.begins and other.begins:
            alike = _neighbours(fact, statement)[1] == _neighbours(other, near)[1]
            return fact.acts and other.acts and alike and whole
        rest = len(statement.roots - own)
        shared = len(common) >= _SHARED_BY_NAMES * rest and len(common & near.roots) >= _SHARED * rest
        if whole and {*_neighbours(fact, statement)[0][:1]} & {*_neighbours(other, near)[0][:1]} & _WHERE:
            return True
        return shared and (_same_place(fact, statement, other, near) or _same_agent(fact, statement, other, near))
    if fact.quantity and other.quantity:
        nouns, other_nouns = fact.quantity.nouns, other.quantity.nouns
        if fact.quantity.unit != other.quantity.unit:
            # Amounts in different currencies are different amounts.
            return fact.kind == "amount" and fact.quantity.low == other.quantity.low
        if not fact.quantity.agrees(other.quantity) and _is_lone(fact, statement) and _is_lone(other, near):
            shorter = min(len(statement.roots), len(near.roots))
            if len(statement.roots & near.roots) >= max(2, _SHARED_BY_LONE * shorter):
                return True
        if nouns and other_nouns:
            return bool(nouns & other_nouns)
    # The date of the same event may be at the opposite end of the sentence.
    whole = len(statement.roots & near.roots) > 1 and (statement.roots <= near.roots or near.roots <= statement.roots)
    if fact.days and whole and _is_dated(fact, statement) and _is_dated(other, near):
        return True
    return _alike_around((fact.place, fact.end), statement, (other.place, other.end), near)


def _is_lone(number: Fact, statement: Statement) -> bool:
    """Whether a number has a unit that no other number of its sentence has."""
    units = [fact.quantity.unit for fact in statement.facts if fact.quantity]
    return bool(number.quantity and number.quantity.unit not in ("", "#") and units.count(number.quantity.unit) == 1)


def _is_dated(date: Fact, statement: Statement) -> bool:
    """Whether a date is the only one of its sentence, and has a day."""
    return all(day[2] for day in date.days) and sum(bool(fact.days) for fact in statement.facts) == 1


def _alike_around(span: tuple[int, int], statement: Statement, other: tuple[int, int], near: Statement) -> bool:
    """Whether the words around two places share the nearest content word on one side, or two nearby ones."""
    (before, after), (other_before, other_after) = _around(span, statement), _around(other, near)
    nearest = before[:1] == other_before[:1] != [] or after[:1] == other_after[:1] != []
    return nearest or len({*before, *after} & {*other_before, *other_after}) > 1


def _swapped(span: tuple[int, int], statement: Statement, other: tuple[int, int], near: Statement) -> bool:
    """Whether words change sides between two places: "A is faster than B", "B is slower than A"."""
    (before, after), (other_before, other_after) = _around(span, statement), _around(other, near)
    return not (set(before).isdisjoint(other_after) or set(after).isdisjoint(other_before))


def _around(span: tuple[int, int], statement: Statement) -> tuple[list[str], list[str]]:
    """Return the roots of the content words before a place (begin, end), and of those after it. Both lists start with the nearest
    word."""
    before = [token for token in statement.tokens[: span[0]] if token in statement.roots]
    after = [token for token in statement.tokens[span[1] :] if token in statement.roots]
    return before[: -_NEAR - 1 : -1], after[:_NEAR]


def _same_place(fact: Fact, statement: Statement, other: Fact, near: Statement) -> bool:
    """Whether two names have the same neighbours: two words on one side, or one on each side."""
    pairs = zip(_neighbours(fact, statement), _neighbours(other, near), strict=True)
    (before, *far_before), (after, *far_after) = (
        [one == two for one, two in zip(*pair, strict=False)] or [False] for pair in pairs
    )
    return (before and after) or (before and any(far_before)) or (after and any(far_after))


def _same_agent(fact: Fact, statement: Statement, other: Fact, near: Statement) -> bool:
    """Whether one name follows "by" and the other precedes the same verb: "run by Ada Lake", "Bob Reed will run"."""
    for by, passive, subject, active in ((fact, statement, other, near), (other, near, fact, statement)):
        if passive.tokens[by.place - 1 : by.place] == ("by",):
            verb = _around((by.place, by.end), passive)[0][:1]
            if verb == _around((subject.place, subject.end), active)[1][:1] != []:
                return True
    return False


def _neighbours(fact: Fact, statement: Statement) -> tuple[list[str], list[str]]:
    """Return the two words before a fact, the nearest first, and the two after it."""
    before = [token for token in statement.tokens[: fact.place] if token not in _ARTICLES]
    after = [token for token in statement.tokens[fact.end :] if token not in _ARTICLES]
    return before[:-3:-1], after[:2]


def _denials(
    one: Statement, said: Sequence[Statement], window: Sequence[Statement], shown: Sequence[Statement]
) -> Iterator[Contradiction]:
    """Find statements that one text denies and the other makes."""
    for near in window:
        for negation in near.negations:
            if _asserts(one, negation, near) and not any(_denies(other, negation, near) for other in said):
                yield Contradiction("denial", " ".join(sorted(negation.what & one.roots)), negation.words)
                return
    for negation in one.negations:
        for near in window:
            if _asserts(near, negation, one) and not any(_denies(other, negation, one) for other in shown):
                yield Contradiction("denial", negation.words, " ".join(sorted(negation.what & near.roots)))
                return


def _opposites(one: Statement, window: Sequence[Statement]) -> Iterator[Contradiction]:
    """Find pairs of opposite words, such as rose and fell, that the texts use about the same thing."""
    for place, near in enumerate(window):
        # Short statements such as "prices rose" and "prices fell" share only one other word.
        shorter, longer = sorted((len(one.roots), len(near.roots)))
        least = 1 if longer <= _SHORT else max(2, _SHARED_BY_OPPOSITES * (shorter - 1))
        # "Bolt made an offer. The council turned it down".
        before = window[place - 1].roots if place and not _PRONOUNS.isdisjoint(near.tokens) else frozenset[str]()
        if len(one.roots & (near.roots | before)) < least:
            continue
        own, others = _sides(one, near), _sides(near, one)
        for pair in own.keys() & others:
            # If one text contains both words of a pair, ignore the pair.
            sides, its_sides = ({side for side, _ in spots} for spots in (own[pair], others[pair]))
            if not len(sides | its_sides) == 2 == len(sides) + len(its_sides):
                continue
            for (_, place), (_, other) in itertools.product(own[pair][:_MOST], others[pair][:_MOST]):
                places = (place, place + 1), one, (other, other + 1), near
                then, since = _nearest_date(place, one), _nearest_date(other, near)
                at_other_times = then and since and not _agree(then, since)
                same = one.tokens[place] == near.tokens[other] and isinstance(pair, int)
                if not same and not at_other_times and _alike_around(*places) and not _swapped(*places):
                    yield Contradiction("denial", one.tokens[place], near.tokens[other])
                    return


def _stages(one: Statement, verbs: Collection[str], window: Sequence[Statement]) -> Iterator[Contradiction]:
    """Find verbs for what happened in one of two similar sentences, and for what is only planned or possible in the other."""
    for near in window:
        least = max(2, _SHARED_BY_OPPOSITES * min(len(one.roots), len(near.roots)))
        if len(one.roots & near.roots) < least or one.negations or near.negations:
            continue
        for verb in sorted((one.done & near.planned | one.planned & near.done).intersection(verbs)):
            place, other = one.tokens.index(verb), near.tokens.index(verb)
            if _alike_around((place, place + 1), one, (other, other + 1), near):
                yield Contradiction("denial", verb, verb)
                return


def _nearest_date(place: int, statement: Statement) -> Fact | None:
    """The date nearest to a word."""
    return min((fact for fact in statement.facts if fact.days), key=lambda fact: abs(fact.place - place), default=None)


def _swapped_action(one: Statement, said: Collection[Action], shown: Collection[Action]) -> Contradiction | None:
    """Find an action whose agent and object are exchanged in the evidence. `said`, `shown`: the actions of the whole texts."""
    for agent, verb, other in one.actions:
        if any(_same_action((other, verb, agent), action) for action in said):
            continue
        turned = [action for action in shown if _same_action((other, verb, agent), action)]
        if turned and not any(_same_action((agent, verb, other), action) for action in shown):
            words = (" ".join((*subject, verb, *its_object)) for subject, verb, its_object in ((agent, verb, other), turned[0]))
            return Contradiction("name", *words)
    return None


def _other_agent(one: Statement, said: Sequence[Statement], shown: Sequence[Statement]) -> Contradiction | None:
    """Find two different agents of the same verb in sentences with the same words, if one of the texts names both agents."""
    rivals = [(near, other, verb) for near in shown if one.agents for other, verb in near.agents]
    for (agent, verb), (near, other, its_verb) in itertools.product(one.agents, rivals):
        if verb == its_verb and not _same_name(agent.name, other.name):
            words, near_words = one.roots.difference(agent.name), near.roots.difference(other.name)
            shared = len(words & near_words)
            if shared < _SHARED_BY_NAMES * min(len(words), len(near_words)):
                continue
            if 0 <= max(_most_shared(agent, verb, words, shown), _most_shared(other, verb, near_words, said)) < shared:
                return Contradiction("name", agent.words, other.words)
    return None


def _most_shared(agent: Fact, verb: str, words: frozenset[str], statements: Sequence[Statement]) -> int:
    """Return the maximum number of shared words of a sentence with this agent before this verb. Return 0 if the agent occurs only
    elsewhere, and -1 if it does not occur."""
    named = [(near, fact) for near in statements for fact in near.facts if fact.name and _same_name(fact.name, agent.name)]
    return max((len(words & near.roots) if verb in near.tokens[fact.end :] else 0 for near, fact in named), default=-1)


def _swapped_words(one: Statement, shown: Sequence[Statement]) -> Contradiction | None:
    """Find two parts of a sentence that change places in a sentence with otherwise the same words in the same order."""
    # Without punctuation marks and articles.
    words, *alike = (
        [token for token in near.tokens if token[0].isalnum() and token not in _ARTICLES]
        for near in (one, *(near for near in shown if near.roots == one.roots))
    )
    for other in alike if words not in alike else ():
        before = _common_prefix(words, other)
        end = len(words) - _common_prefix(words[before:][::-1], other[before:][::-1])
        own, others = words[before:end], other[before:end]
        for first, last in itertools.product(range(1, _PART + 1), range(1, _PART + 1)):
            part, between, opposite = own[:first], own[first:-last], own[-last:]
            symmetric = between and (_SYMMETRIC.intersection(between) or {*between} - one.roots in _JOINING)
            if between and others == [*opposite, *between, *part] and not symmetric:
                return Contradiction("name", " ".join(part), " ".join(opposite))
    return None


def _same_action(one: Action, other: Action) -> bool:
    return one[1] == other[1] and _same_name(one[0], other[0]) and _same_name(one[2], other[2])


def _other_words(
    one: Statement, twins: Sequence[Statement], said: frozenset[str], shown: frozenset[str]
) -> Iterator[Contradiction]:
    """Compare sentences with otherwise the same words in the same order. Find a different place ("in the kitchen"), or a
    different name after the same noun ("the user Ada"). `said`, `shown`: the roots of the whole texts."""
    for near in twins if len(one.roots) > 2 else ():
        (own, spots), (others, other_spots) = _tokens_of(one), _tokens_of(near)
        before = _common_prefix(own, others)
        after = _common_prefix(own[before:][::-1], others[before:][::-1])
        end, other_end = len(own) - after, len(others) - after
        lead = own[:before]
        while before < min(end, other_end) and own[before] in _LEADS and others[before] in _LEADS:
            lead, before = [*lead, own[before]], before + 1
        if not end - before == other_end - before == 1 or others[before] in said or own[before] in shown:
            continue
        word, other = own[before], others[before]
        second, first = ["", "", *lead][-2:]
        place = first in _IN or (first in _ARTICLES and second in _IN)
        names = {fact.place for fact in one.facts if fact.name}, {fact.place for fact in near.facts if fact.name}
        named = spots[before] in names[0] or other_spots[before] in names[1] or not (word + other).isalpha()
        if place or (named and second in _ARTICLES and first in one.roots):
            yield Contradiction("name", word, other)
            return


def _tokens_of(statement: Statement) -> tuple[list[str], list[int]]:
    """Return the tokens of a statement without punctuation marks, and their indexes."""
    spots = [spot for spot, token in enumerate(statement.tokens) if token[0].isalnum()]
    return [statement.tokens[spot] for spot in spots], spots


def _common_prefix(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the number of equal tokens at the beginning of both."""
    return next(
        (n for n, (own, foreign) in enumerate(zip(one, other, strict=False)) if own != foreign), min(len(one), len(other))
    )


def _sides(statement: Statement, other: Statement) -> dict[int | str, list[tuple[int, int]]]:
    """Return pair of opposites -> (side, index) of its words in a statement. A negated word has the other side.

    A word with a negative prefix and the same word without the prefix in another statement are a pair. So are two particles of
    one verb.
    """
    found: dict[int | str, list[tuple[int, int]]] = {}
    plain = {root for _, root in other.prefixed}
    # "Only one node" is the opposite of "every node"; "only" alone is not.
    counted = {fact.place for fact in statement.facts if fact.quantity}
    verbs = dict(statement.particles)
    negations = statement.negations
    negated = frozenset[str]().union(*(one.what for one in negations if one.certain and not one.whole))
    # "Approved no plan" denies the verb, too.
    denied = (one.scope | one.what | (one.before if len(one.before) == 1 else frozenset()) for one in negations)
    unclear = frozenset[str]().union(*denied, (root(one.words.split()[0].lower()) for one in negations)) - negated
    decisions: list[list[tuple[int, int]]] = []
    last = 0
    for place, token in enumerate(statement.tokens):
        if (token == "only" and place + 1 not in counted) or token in unclear:
            continue
        if token in ("for", "against") and not _SIDING.isdisjoint(statement.stems[max(0, place - _REACH) : place]):
            following = [after for after in statement.tokens[place : place + _REACH] if after in statement.roots]
            found.setdefault(" ".join(["for", *following[:1]]), []).append((token == "against", place))
        if place in verbs and token in _DIRECTIONS and (verb := statement.tokens[verbs[place]]) in statement.done & other.done:
            found.setdefault(f"{verb} ...", []).append((PARTICLES.index(token), verbs[place]))
        if token in PARTICLES and (place not in verbs or statement.stems[verbs[place]] not in _MOVING):
            continue
        # Treat "not many" like "few".
        turned = token in negated or statement.tokens[place - 1 : place] == ("not",)
        for pair, side in _SIDES.get(statement.stems[place], ()):
            if pair:
                found.setdefault(pair, []).append((side ^ turned, place))
                continue
            # "In the end", "at the end of the year".
            if token == "end" and _ARTICLES.intersection(statement.tokens[place - 1 : place]):
                continue
            # "Appeal against" is one word for no.
            if token == "against" and _TURNING.intersection(statement.tokens[place - 1 : place]):
                continue
            if not (decisions and _BREAKS.isdisjoint(statement.tokens[last:place])):
                decisions.append([])
            decisions[-1].append((side ^ turned, place))
            last = place
        if token in plain:
            found.setdefault(token, []).append((0 ^ turned, place))
    for words in decisions:
        new = [place for _, place in words if statement.tokens[place] not in other.tokens]
        if new and not _TURNING.issuperset(statement.tokens[place] for _, place in words):
            found.setdefault(0, []).append((sum(side for side, _ in words) % 2, new[0]))
    for place, base in statement.prefixed:
        found.setdefault(base, []).append((1, place))
    return found


def _asserts(statement: Statement, negation: Negation, denying: Statement) -> bool:
    """Whether a statement asserts what another one negates, about the same subject."""
    partly = any(pair[0] == "not" and pair[1] in _ALL for pair in itertools.pairwise(statement.tokens))
    if not negation.certain or partly:
        return False
    # Words such as "without" do not make a statement uncertain if both have them, unless they are the negation itself.
    soft_words = _SOFT.difference({*denying.tokens}.difference(map(root, negation.words.split())))
    if negation.whole:
        return len(negation.what & statement.roots) * 2 >= len(negation.what) and not soft_words.intersection(statement.tokens)
    content = [token for token in statement.tokens if token in statement.roots or token == "against"]
    for place, token in enumerate(content):
        before, after = content[max(0, place - _NEAR) : place], content[place + 1 : place + 1 + _NEAR]
        # If no word follows the negation ("does not work"), only the words before it identify the subject.
        shared = negation.before & {*before, *(after if negation.after else ())} | negation.after & {*before, *after}
        soft = soft_words.intersection(content[max(0, place - 2 * _NEAR) : place + 1 + 2 * _NEAR]) - negation.what
        if token in negation.what and shared and not soft:
            return True
    return False


def _denies(statement: Statement, negation: Negation, denying: Statement) -> bool:
    """Whether a statement denies the same thing as a negation of another statement. Negations inside the denied part do not
    count."""
    shared = {one.words for one in denying.negations if one is not negation} if negation.whole else ()
    own = [one for one in statement.negations if one.words not in shared]
    return any(one.scope & (negation.scope | negation.what) or (one.whole and negation.whole) for one in own)
