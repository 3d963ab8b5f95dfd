"""Part of the synth room's writer: paraphrases a sentence and keeps its numbers, dates and names. For the writer alone.

It works on any English sentence. A change applies only to sentences whose form leaves no doubt which words belong together. If a
paraphrase loses a fact, the original words are used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from random import Random
from typing import TypeVar

from summhay_ray.synth.writer.grammar import Voice
from summhay_ray.synth.writer.sentences import DATE, FUNCTION_WORDS, complete, count, lower_start, split_sentences, words_of
from summhay_ray.synth.writer.synonyms import other_words

APART = {1: 0.15, 2: 0.5, 3: 1.0}
"""Paraphrase level -> share of the insights whose facts are spread over several sentences. Synonyms alone hide little from
methods that compare words, since names and numbers weigh most and stay: without this, levels 1 and 2 would be as easy as 0."""
_CLAUSE = "when|while|after|before|because(?! of)|although|unless|since"
_WHEN = rf"{DATE}|(?:19|20)\d\d"
_LEADING = re.compile(
    r"(When|While|After|Before|Because(?! of)|Although|Following|According to|In|On|By|At|During|Throughout|Without|Under|Since"
    r"|Despite)"
    r" ((?:(?!, |[;:\"“]).)+), ((?:(?!, |[;:\"“]).)+)\.$"
)
_TRAILING_CLAUSE = re.compile(rf"((?:(?!, |[;:\"“]).)+?),? ({_CLAUSE})(?! (?:{_WHEN})) ((?:(?!, |[;:\"“]).)+)\.$")
_TRAILING_DATE = re.compile(rf"((?:(?!, |[;:\"“]).)+) (on|in|since|by) ({_WHEN})\.$")
_LEADING_DATE = re.compile(rf"(On|In|Since|By) ({_WHEN}), ((?:(?![;:\"“]).)+)\.$")
_MIDDLE_DATE = re.compile(rf"((?:(?!, |[;:\"“]).){{8,}}) on ({DATE})((?: that| to| after| because| for| and found) .{{8,}})\.$")
_APPOSITION = re.compile(r"([^,;:\"“]{4,60}), ((?:an? |[a-z]+ed by )[^,;:\"“]{4,60}), ([a-z][^;:\"“]{8,})\.$")
_AUXILIARY = "is|are|was|were|has|have|had|will|would|can|could|may|might|must"
_PAST = (
    "came|broke|drew|sent|won|told|said|rose|fell|sold|bought|wrote|left|found|paid|gave|made|took|went|led|built|ran|held|kept|lost|met|set|spent|stood"
    "|became|began|[a-z]{3,}ed"
)
_VERB = re.compile(
    rf"(?:{_AUXILIARY}|{_PAST}|[a-z]{{3,}}(?<!s)(?<!thi)(?<!alway)(?<!perhap)(?<!acros)s)\b",
)
"""A verb, with which the sentence continues after an apposition to its subject."""
_SAYS = re.compile(
    rf"\b(?:{_AUXILIARY}|went to)\b|\b(?:{_PAST})\b(?= (?:[$€£\dA-Z]|(?:the|an?|its|his|her|their|up|down|no)\b|[a-z]+s\b))"
)
"""A verb that surely is a main verb: "Ann built the dam after ..." has one, "the dam built after ..." does not."""
_SUBJECTS = "the a an its his her their our my it they he she this these some many several most all"
_DETERMINERS = frozenset(_SUBJECTS.split())
_JOINED = re.compile(rf"\b(?:and|or|but|that|which|who|whose|whether|if|not|no|between|from|to be|{_CLAUSE})\b", re.IGNORECASE)
"""Words with which the end of a sentence may belong to only a part of it."""
_WHICH = re.compile(r"(.{20,}), which ((?:is|was|has|had|will|would|can|could|may|might|must|[a-z]+s|[a-z]+ed) .{8,})\.$")
_REASON = re.compile(r"((?:(?!, |[;:\"“]).){12,}),? because (?!of )((?:(?![;:\"“]| because ).){8,})\.$")
_RESULT = re.compile(r"(.{30,}), ([a-z]+ing) ([^,;:\"“]{8,})\.$")
_ABOUT = (
    r"(?:(?:at least|at most|about|around|nearly|almost|over|more than|up to|under|below|above|less than|fewer than|exactly"
    r"|roughly|only) )?"
)
_ABOUT_SO_MANY = _ABOUT.replace("|over", "").replace("|under|below|above", "")
"""Before a count, "over" and "under" may be prepositions: "cars running under 9 seconds"."""

_MONEY = re.compile(
    rf"(?<= )(?P<sum>{_ABOUT}[$€£]\d[\d,]*(?:\.\d+)?(?: (?:million|billion|trillion))?)"
    r"(?=\.$|,? (?:for|in|on|a|an|because|from|when|after|and|as|by|at|with|was|is)\b)"
)
_SHARE = re.compile(rf"(?P<sum>{_ABOUT}\d[\d.,]*(?:%| percent| per cent))(?= of )")
_COUNT = re.compile(
    rf"(?P<sum>{_ABOUT_SO_MANY}\d{{1,3}}(?:,\d{{3}})*(?:\.\d+)?)"
    r"(?= (?!and\b|or\b|to\b|percent|per\b|million|billion|trillion)[a-z])"
)
_BINDING = re.compile(
    r"(?:^|\b(?:a|an|the|its|his|her|their|our|my|these|those|no|number|and|or|to|from|between|of|all|any|some|both|every|each"
    r"|another|other|first|last|next|only|than|as|just|per|under|over|above|below|beyond) |[A-Z][\w-]* )$"
)
_SUMS = (
    ("a certain sum", "The sum in question: {}."),
    ("a sum that is on record", "The sum on record: {}."),
    ("a known amount", "To be exact, the amount is {}."),
)
_SHARES = (("a certain share", "To be exact, the share is {}."), ("a known share", "Put in figures, that share is {}."))
_COUNTS = (
    ("a certain number of", "The number of {noun}: {}."),
    ("a known number of", "Put in figures, the number of {noun} is {}."),
)
_DATES = ("The date given for that is {}.", "The record dates that to {}.", "As the date of that, {} is given.")
_RESULTS = """
    make=made allow ensure=ensured cause=caused lead=led showcase=showcased highlight boost provide=provided offer present
    force=forced prompt create=created reduce=reduced increase=increased raise=raised reflect signal mark give=gave bring=brought
    enable=enabled emphasize=emphasized underline=underlined stress demonstrate=demonstrated impact cement guarantee=guaranteed
    show contribute=contributed add prevent drive=drove limit leave=left help improve=improved enhance=enhanced expose=exposed
    threaten save=saved
"""
_PAST_OF = {base: past or f"{base}ed" for base, _, past in (word.partition("=") for word in _RESULTS.split())}
_BASE_OF = {f"{base.removesuffix('e')}ing": base for base in _PAST_OF}
"""Participle -> base form, of verbs whose subject may be the whole main clause: "..., causing delays"."""

_MODAL = re.compile(r"\b(?:will|would|can|could|may|might|should|must|likely|expected|plans?|aims?)\b")
_TENSE = re.compile(
    r"\b(?:(?P<now>(?:is|are|has|have|does|do)\b|(?:sells|comes|needs|makes|takes)\b"
    r"|[a-z]{2,}(?<!s)s (?:(?:the|an?|its|their|his|her)\b|[$€£\d]))"
    rf"|(?:was|were|had)\b|(?:{_PAST})\b(?<!ed)|[a-z]{{3,}}ed (?:the|an?|its|his|her|their|[$€£\dA-Z]))"
)
"""The first verb that surely is a main verb; group `now` for the present tense."""

_ACTS = re.compile(r"[a-z]{3,}ed (?:to|that|in|on|by|with|for|at|as|from|into|against|about|out|off|up|down) ")

_T = TypeVar("_T")
_SHORT = 6
"""Most words of a main clause to which a year at the end surely belongs."""

_Apart = tuple[str, str] | None
"""A sentence without one of its parts, and a second sentence that states this part; None if there is no such part."""


def restate(insight: str, level: int, ways: Voice, rng: Random, topic: Collection[str] = ()) -> str:
    """The insight at a paraphrase level from 0 to 3 (`kinds.Difficulty.paraphrase`), as one to three sentences on one line.

    It has every number, date and name of the insight. `ways`: makes sentence frames from the domain's filler grammar. `topic`:
    lower-case words that get no synonyms.
    """
    plain = complete(insight)
    if level <= 0 or not plain:
        return plain
    sentences = split_sentences(plain)
    if level >= 2:
        sentences = [other_words(sentence, rng, topic) for sentence in sentences]
    said = " ".join(_said(sentences, level, ways, rng))
    before, after = words_of(plain), words_of(said)
    kept = before.facts <= after.tokens
    return said if kept and _numbers(before.tokens) == _numbers(after.tokens) else plain


def _numbers(tokens: frozenset[str]) -> set[str]:
    return {token for token in tokens if token[0].isdigit()}


def _said(sentences: list[str], level: int, ways: Voice, rng: Random) -> list[str]:
    if rng.random() < APART[min(level, 3)]:
        spread = _spread(sentences, rng)
        return spread if len(spread) > 1 else [_framed(spread[0], ways, rng)]
    turned = [_reordered(sentence) for sentence in sentences]
    if level == 1 and turned != sentences and rng.random() < 0.5:
        return turned
    return [_framed(turned[0], ways, rng), *turned[1:]]


def _framed(sentence: str, ways: Voice, rng: Random) -> str:
    """The sentence in a frame: quoted, or with a clause that names a source.

    A sentence that may lack a main verb ("A push for stricter rules.") is only quoted.
    """
    inner = lower_start(sentence)
    kinds = ["frame_quote"] if '"' not in sentence else []
    if sentence.endswith(".") and _is_stated(sentence):
        kinds += ["frame_tail", *(["frame_lead"] * 2 if inner is not None else [])]
    if not kinds:
        return sentence
    kind = kinds[int(rng.random() * len(kinds))]
    bare = (inner or sentence).removesuffix(".") if kind == "frame_lead" else sentence.removesuffix(".")
    return ways.say(kind, {"s": bare, "S": sentence})


@lru_cache(maxsize=1 << 14)
def _is_stated(sentence: str) -> bool:
    """Whether the sentence surely has a main verb and no source yet. Cached, since many documents state the same insight."""
    return "according to" not in sentence.lower() and any(verb.search(sentence) for verb in (_MODAL, _ACTS, _TENSE))


def _reordered(sentence: str) -> str:
    changes = (change(sentence) for change in (_lead_to_end, _date_to_front, _clause_to_front))
    return next(filter(None, changes), sentence)


def _lead_to_end(sentence: str) -> str | None:
    match = _LEADING.match(sentence)
    if match is None or not _balanced(match.group(2)):
        return None
    lead, clause, main = match.groups()
    # After a list or a date there is no main clause: "In Rome, Paris and ..."
    if len(main.split()) < 4 or main.split()[0] in ("and", "or", "but") or main[0].isdigit() and re.match(r"\d{4}\b", main):
        return None
    if _JOINED.search(main):
        return None
    return complete(f"{main}{',' if lead == 'According to' else ''} {lead[0].lower()}{lead[1:]} {clause}")


def _date_to_front(sentence: str) -> str | None:
    match = _TRAILING_DATE.match(sentence)
    if match is None or not _dates_all(match):
        return None
    main = lower_start(match.group(1))
    return None if main is None else complete(f"{match.group(2)} {match.group(3)}, {main}")


def _dates_all(match: re.Match[str]) -> bool:
    """Whether the date at the end dates the whole sentence; a year may date only its last words: "a launch in 2024"."""
    main = match.group(1)
    return not _JOINED.search(main) and (not match.group(3).isdigit() or count(main) <= _SHORT)


def _clause_to_front(sentence: str) -> str | None:
    match = _TRAILING_CLAUSE.match(sentence)
    if match is None or len(match.group(3).split()) < 4 or _JOINED.search(match.group(1)) or not _balanced(match.group(1)):
        return None
    # In "The mill sold since May is old" and "the dam built after the flood broke" the clause ends before the sentence.
    spare = match.group(2) in ("when", "while", "because", "although", "unless")
    if len(re.findall(rf"\b(?:{_AUXILIARY})\b", match.group(3))) > spare or not _SAYS.search(match.group(1)):
        return None
    main = lower_start(match.group(1))
    return None if main is None else complete(f"{match.group(2)} {match.group(3)}, {main}")


def _balanced(text: str) -> bool:
    return text.count("(") == text.count(")") and text.count('"') % 2 == 0


def _spread(sentences: list[str], rng: Random) -> list[str]:
    """The sentences with their facts spread: a date, a sum, a reason or a consequence gets its own sentence."""
    spread: list[str] = []
    room = max(1, 3 - len(sentences))
    for sentence in sentences:
        main, apart = sentence, list[str]()
        for change in (*_mixed(_CLAUSES_APART, rng), *_mixed(_VALUES_APART, rng)):
            changed = change(main, rng) if len(apart) < room else None
            if changed is not None:
                main = changed[0]
                # "That has been so since ..." must directly follow the main sentence.
                apart.insert(0 if change is _date_apart else len(apart), changed[1])
        room -= len(apart)
        spread += [main, *apart]
    return spread


def _mixed(changes: Sequence[Callable[[str, Random], _Apart]], rng: Random) -> list[Callable[[str, Random], _Apart]]:
    return rng.sample(changes, len(changes))


def _date_apart(sentence: str, rng: Random) -> _Apart:
    trailing, leading = _TRAILING_DATE.match(sentence), _LEADING_DATE.match(sentence)
    if trailing is not None and _dates_all(trailing):
        main, how, date = trailing.groups()
        said = {"since": "That has been so since {}.", "by": "That was so by {}."}.get(how) or _one_of(_DATES, rng)
        return complete(main), said.format(date)
    middle = _MIDDLE_DATE.match(sentence)
    if middle is not None and not _JOINED.search(middle.group(1)):
        return complete(f"{middle.group(1)}{middle.group(3)}"), _one_of(_DATES, rng).format(middle.group(2))
    if leading is not None and leading.group(1) in ("On", "In") and len(leading.group(3).split()) >= 4:
        return complete(leading.group(3)), _one_of(_DATES, rng).format(leading.group(2))
    return None


def _reason_apart(sentence: str, _: Random) -> _Apart:
    match = _REASON.match(sentence)
    return None if match is None else (complete(match.group(1)), f"The reason is that {_inner(match.group(2))}.")


def _which_apart(sentence: str, _: Random) -> _Apart:
    match = _WHICH.match(sentence)
    return None if match is None or not _balanced(match.group(1)) else (complete(match.group(1)), f"That {match.group(2)}.")


def _result_apart(sentence: str, _: Random) -> _Apart:
    match = _RESULT.match(sentence)
    base = _BASE_OF.get(match.group(2)) if match is not None else None
    if match is None or base is None or re.search(r", [a-z]+ing |\b[a-z]+ing\b[^,]*$", match.group(1)):
        return None
    if (_leads_in(match.group(1)) and ", " not in match.group(1)) or re.search(r" and [a-z]+ing\b", match.group(3)):
        return None
    tense = _TENSE.search(match.group(1))
    if _MODAL.search(match.group(1)):
        verb = f"would {base}"
    elif tense is None:
        return None
    else:
        verb = f"{base}{'es' if base.endswith('s') else 's'}" if tense.group("now") else _PAST_OF[base]
    return complete(match.group(1)), f"This {verb} {match.group(3)}."


def _apposition_apart(sentence: str, _: Random) -> _Apart:
    match = _APPOSITION.match(sentence)
    if match is None or _JOINED.search(match.group(1)) or not _VERB.match(match.group(3)):
        return None
    subject, beside, main = match.groups()
    if _leads_in(subject):
        return None
    # The apposition does not say when it was true: "is described as" leaves that open.
    verb = "is described as" if beside.startswith(("a ", "an ")) else "was"
    return complete(f"{subject} {main}"), f"{subject} {verb} {beside}."


def _leads_in(text: str) -> bool:
    """Whether the text begins with an introduction instead of a subject: "In Rome", "According to Ann"."""
    opening = text.split()[0].lower()
    return opening in FUNCTION_WORDS and opening not in _DETERMINERS


def _money_apart(sentence: str, rng: Random) -> _Apart:
    match = _MONEY.search(sentence)
    if match is None or _bound(sentence, match.start()) or _paired(sentence, match):
        return None
    instead, said = _one_of(_SUMS, rng)
    return _without(sentence, match, instead), said.format(match.group("sum"))


def _share_apart(sentence: str, rng: Random) -> _Apart:
    match = _SHARE.search(sentence)
    if match is None or match.start() and _bound(sentence, match.start()):
        return None
    instead, said = _one_of(_SHARES, rng)
    return _without(sentence, match, instead), said.format(match.group("sum"))


def _count_apart(sentence: str, rng: Random) -> _Apart:
    match = _COUNT.search(sentence)
    if (
        match is None
        or match.start()
        and sentence[match.start() - 1] != " "
        or re.fullmatch(r"(?:19|20)\d\d", match.group("sum"))
    ):
        return None
    if match.start() and _bound(sentence, match.start()):
        return None
    # "12 more units", "3 percent" and "1 unit" are no number of units.
    noun = re.match(r" ((?:[a-z]+ )?[a-z]+s)\b(?<! is| as)(?<!ss)(?<! was| has)(?<! less)(?! per )", sentence[match.end() :])
    if noun is None or _paired(sentence, match):
        return None
    instead, said = _one_of(_COUNTS, rng)
    return _without(sentence, match, instead), said.format(match.group("sum"), noun=noun.group(1))


def _one_of(ways: Sequence[_T], rng: Random) -> _T:
    return ways[int(rng.random() * len(ways))]


def _without(sentence: str, match: re.Match[str], instead: str) -> str:
    return complete(sentence[: match.start()] + instead + sentence[match.end() :])


def _bound(sentence: str, start: int) -> bool:
    """Whether the number at `start` belongs to the word before it: "the 25 people", "Demon 170"."""
    return start > 0 and _BINDING.search(sentence[:start]) is not None


def _paired(sentence: str, match: re.Match[str]) -> bool:
    """Whether a later number depends on this one: "3,000 cars for Rome and 300 for Paris"."""
    return re.search(r"\b(?:and|or|to) [$€£]?\d", sentence[match.end() :]) is not None


def _inner(clause: str) -> str:
    return lower_start(clause) or clause


_CLAUSES_APART = (_reason_apart, _which_apart, _result_apart, _apposition_apart)
_VALUES_APART = (_date_apart, _money_apart, _share_apart, _count_apart)
