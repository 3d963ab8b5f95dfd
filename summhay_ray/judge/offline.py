"""`offline/judge`, the free judge: it needs no key.

It reads the same prompt as any model, and answers in the same form. `features` compares insight and bullets, and an ordinal
logistic model turns the features into probabilities of coverage. `fit.py` fits its parameters to people's judgments. The
parameters are few enough for a person to review (`offline_judge.json`, which also holds the held-out agreement). A summary that
contradicts the insight with another number, date or name, or denies it, does not cover it (`text.find_contradictions`). Apart
from that, the judge does not understand meaning.

A word is reduced to its root: lower case, without an English ending, and cut after five letters, so that prescribe and
prescription are the same word. A number is kept with all its digits. Scripts without blanks between words (Chinese, Japanese,
Thai, ...) are split into characters. English function words, and citations such as [8, 11], are dropped.

Shared words are weighted by rarity: ln((n + 1) / f) for a word in f of the n given texts, which are bullets and insights. So
words that every text repeats count little, and no corpus is needed. Each feature was chosen because it improves the agreement on
the held-out topic (`fit.py` prints it):

- recall: the share of the insight's words that its best bullet contains, 0..1. A word that no bullet contains has a lower weight.
- whole: the same share for the whole summary, for insights that are spread over several bullets.
- pairs: ln(1 + number of word pairs that are close together in both insight and bullet, in either order).
- lead: the fit of the insight to its bullet minus the fit of the best other insight to that bullet, -1..1. An insight judged
  alone has `margin` instead: the fit of its bullet minus that of the second-best bullet, 0..1. Both show whether the bullet is
  about the insight.

The best bullet has the highest cosine of weighted words; the first one wins a tie. So if two bullets share the same words with
the insight, the shorter bullet is the best.

A question that no document answers has a separate prompt (`judge_absence`). The free judge recognizes statements of absence in
some twenty languages (`absence_patterns.txt`). In any other language, every statement counts as a claim.
"""

import json
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from typing import Any, ClassVar, NamedTuple

from summhay_ray.judge.base import Verdict
from summhay_ray.judge.prompt import INSIGHT_HEADING, numbered_at, read, shipped
from summhay_ray.judge.strategies import Absence
from summhay_ray.llm import Request
from summhay_ray.records import Coverage
from summhay_ray.text import FUNCTION_WORDS, UNSPACED, find_contradictions, find_omissions, root, sentences, values_of

COMMON_WEIGHT = 0.5
"""Weight of a common word, one in `COMMON_ROOTS`, relative to other words."""

_WORD = re.compile(rf"\d+(?:[.,]\d+)*|[{UNSPACED}]|[^\W\d_{UNSPACED}]+")
_NUMBER = r"\s{0,3}(?:[A-Za-z]{1,12}\s{0,3})?\d{1,5}\s{0,3}"
_CITATION = re.compile(rf"[\[【]{_NUMBER}(?:[,;–-]{_NUMBER})*[\]】]")
_STOP_WORDS = FUNCTION_WORDS - {"here", "until", "whether"} | {"still"}
"""The function words with which the parameters were fitted."""

# Words of reporting and assessment. Two accounts of the same fact differ in these words.
_COMMON_WORDS = """
    ability able accord account achieve acknowledge act address advise affect aim allow approach around ask aspect base become
    begin believe better bring call cause certain claim come common concern consider continue crucial current deal describe
    despite detail different discuss drive due effect emphasize enable end ensure especially essential event example expect
    explain face fact factor feature feel find first focus follow form future general get give go good great happen help high
    highlight idea identify impact important include increase indicate inform instance involve issue keep key know large lead
    level like likely look main major make manner matter mean measure mention method move need new note notable number offer
    outline overall part particular past people person place plan play point possible potential present problem process produce
    provide put quite range reason recent recommend reduce reflect relate remain remark report require result reveal review role
    say second see seek seem serve set share show significant similar situation specific speak start state step stress suggest
    support take talk tell tend term thing think time today together topic try type underline understand use usual various vital
    want way well word work year
"""

ALONE = ("recall", "whole", "pairs", "margin")
TOGETHER = ("recall", "whole", "pairs", "lead")
UNSAID = 0.6
"""Weight factor of a word that no bullet contains: the summary may express it in other words."""
_NEAR = 3
_SENTENCES = 3
"""Maximum number of a bullet's sentences that are compared with an insight at a time."""
_LONGEST_KEPT = 5000
_LONGEST_BULLET = 12
"""Maximum number of sentences in a bullet that can cover an insight fully."""
_CLOSE = 0.4
"""Minimum recall at which `features` checks the insight for omissions."""
_LOST = 0.25
"""A summary is incomplete if it lacks more than this share of an insight's words. Words that the best bullet replaces with others
do not count."""
_CONTINUES = re.compile(r"\W*(?:it|its|this|that|they|their|these|he|she)\b", re.IGNORECASE)
"""A bullet that begins in this way continues the one before it."""

_DENYING = frozenset(map(root, ("nobody", "none", "nothing")))
"""Words that are ignored when words are compared, since the other text may express the same denial in other words. Whether only
one of the texts denies something is checked by `find_contradictions`."""

Pair = tuple[str, str]


def roots(text: str) -> list[str]:
    """Return the roots and numbers of a text, in order."""
    words: list[str] = _WORD.findall(unicodedata.normalize("NFC", remove_citations(text).lower()))
    return [word.replace(",", "") if word[0].isdigit() else root(word) for word in words if word not in _STOP_WORDS]


def remove_citations(text: str) -> str:
    """Return the text without numeric citations: [8], [Articles 8, 11], 【8-11】."""
    return _CITATION.sub(" ", text)


COMMON_ROOTS = frozenset(roots(_COMMON_WORDS))
"""Roots of words of reporting, which have little content."""


@dataclass(frozen=True, slots=True)
class Features:
    """The features of one insight."""

    bullet: int
    """The best bullet, from 0."""
    values: tuple[float, ...]
    """Values in the order of `TOGETHER` (or `ALONE` for a single insight)."""
    contradicted: bool = False
    """Whether the best bullet contradicts the insight (`text.find_contradictions`)."""
    incomplete: bool = False
    """Whether the insight is at most partly covered, because the summary lacks one of its facts or many of its words, or because
    the best bullet is a whole document."""


@dataclass(frozen=True, slots=True)
class _Text:
    words: tuple[str, ...]
    """Distinct roots, in the order of the text."""
    kinds: frozenset[str]
    pairs: frozenset[Pair]


def features(insights: Sequence[str], bullets: Sequence[str]) -> list[Features | None]:
    """Return the features of insights judged together; None for an insight without words, and for all if there are no bullets.

    A long bullet, such as a copied document, is compared in parts of three sentences. All its sentences together would share
    words with many insights that it does not state.
    """
    forms = {value: words for insight in reversed(insights) for value, words in values_of(insight).items()}
    owners, parts = zip(*_parts(bullets, forms), strict=True) if bullets else ((), ())
    # All insights are judged against the same bullets, hence the cache. Huge texts are not cached.
    bullet_texts, insight_texts = (
        [(_read_again if len(text) <= _LONGEST_KEPT else _read)(text) for text in texts] for texts in (parts, insights)
    )
    if not bullet_texts:
        return [None] * len(insight_texts)
    # A single insight does not show which words are rare among insights.
    counted = [*insight_texts, *bullet_texts] if len(insight_texts) > 1 else bullet_texts
    frequency = Counter(word for text in counted for word in text.words)
    weights = {
        word: math.log((len(counted) + 1) / max(frequency[word], 1)) * (COMMON_WEIGHT if word in COMMON_ROOTS else 1.0)
        for text in (*insight_texts, *bullet_texts)
        for word in text.words
    }
    norms, own_norms = (
        [math.sqrt(math.fsum(weights[word] ** 2 for word in text.words)) for text in texts]
        for texts in (bullet_texts, insight_texts)
    )
    fits = [
        # The cosine, 0..1, with each bullet.
        [
            math.fsum(weights[word] ** 2 for word in insight.words if word in bullet.kinds) / (own * norm) if own * norm else 0.0
            for bullet, norm in zip(bullet_texts, norms, strict=True)
        ]
        for insight, own in zip(insight_texts, own_norms, strict=True)
    ]
    said = frozenset().union(*(text.kinds for text in bullet_texts))
    found: list[Features | None] = []
    for place, (insight, own) in enumerate(zip(insight_texts, fits, strict=True)):
        wanted = {word: weights[word] * (1.0 if word in said else UNSAID) for word in insight.words}
        total = math.fsum(wanted.values())
        if not total:
            found.append(None)
            continue
        best = max(range(len(own)), key=own.__getitem__)
        kinds = (bullet_texts[best].kinds, said)
        recall, whole = (math.fsum(weight for word, weight in wanted.items() if word in some) / total for some in kinds)
        pairs = math.log1p(len(insight.pairs & bullet_texts[best].pairs))
        others = [fit[best] for other, fit in enumerate(fits) if other != place]
        rival = max(others) if others else max((fit for other, fit in enumerate(own) if other != best), default=0.0)
        bullet = owners[best]
        following = bullets[bullet + 1] if bullet + 1 < len(bullets) else ""
        passage = bullets[bullet] + (f"\n{following}" if _CONTINUES.match(following) else "")
        contradicted = bool(find_contradictions(insights[place], passage))
        lost, added = len(insight.kinds - said), len(bullet_texts[best].kinds - insight.kinds)
        lacks_words = lost - added > _LOST * len(insight.kinds)
        is_document = owners.count(bullet) * _SENTENCES > _LONGEST_BULLET
        # If recall is lower, the insight is not fully covered anyway.
        incomplete = recall >= _CLOSE and (
            lacks_words
            or is_document
            or any(not said.issuperset(roots(fact)) for fact in find_omissions(insights[place], passage))
        )
        found.append(Features(bullet, (recall, whole, pairs, own[best] - rival), contradicted, incomplete))
    return found


def _parts(bullets: Sequence[str], forms: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    """Yield (bullet index from 0, text) for each part of the bullets.

    `forms`: value -> words. The values of a part are written in these words, so that "2 hours" and "120 minutes" are the same.
    """
    for place, bullet in enumerate(bullets):
        lines = []
        for line in sentences(bullet) or [bullet]:
            for value, words in values_of(line).items() if forms else ():
                if (form := forms.get(value, words)) != words:
                    line = re.sub(rf"(?<!\w){re.escape(words)}(?!\w)", form.replace("\\", r"\\"), line)
            lines.append(line)
        yield from ((place, " ".join(lines[begin : begin + _SENTENCES])) for begin in range(0, len(lines), _SENTENCES))


def _read(text: str) -> _Text:
    words = [word for word in roots(text) if word not in _DENYING]
    pairs = {
        (first, second) if first < second else (second, first)
        for place, first in enumerate(words)
        for second in words[place + 1 : place + 1 + _NEAR]
    }
    kinds = tuple(dict.fromkeys(words))
    return _Text(kinds, frozenset(kinds), frozenset(pairs))


_read_again = lru_cache(maxsize=1024)(_read)


SHIPPED = "offline_judge.json"
_DIGITS = 4
_CONTRADICTED = 0.1
"""Maximum expected coverage of an insight that the summary contradicts. It is above 0 because a seeming denial may not be one."""
_BELOW = 0.01
"""An incomplete insight is rated this much below the threshold of full coverage, since people rate many such insights as full."""

MOST_UNCERTAIN = 0.5
"""The greatest standard deviation of a coverage between 0 and 1."""


@dataclass(frozen=True, slots=True)
class Coefficients:
    """The fitted parameters for one set of features, and the thresholds of expected coverage for the labels."""

    weights: tuple[float, ...]
    some: float
    """Intercept of "covered at all". `full` is the intercept of "fully covered", which is lower."""
    full: float
    partial_from: float = 0.0
    full_from: float = 0.0

    def expected(self, values: Sequence[float]) -> tuple[float, float]:
        """Return the expected coverage (0..1) of an insight with these features, and its standard deviation (0..0.5). NO counts
        0, PARTIAL 0.5 and FULL 1."""
        total = math.fsum(weight * value for weight, value in zip(self.weights, values, strict=True))
        # The probabilities that a person labels it as covered at all, and as fully covered.
        some, full = (1 / (1 + math.exp(-max(-30.0, min(30.0, total + intercept)))) for intercept in (self.some, self.full))
        value = (some + full) / 2
        return value, math.sqrt(max(0.0, (some - full) / 4 + full - value**2))


@dataclass(frozen=True, slots=True)
class Rated:
    """The free judge's rating of one insight."""

    coverage: Coverage
    bullet: int | None
    """The bullet that covers it, from 0; None if the label is NO_COVERAGE."""
    value: float
    """Expected coverage, 0..1."""
    uncertainty: float
    """Its standard deviation, 0..0.5."""

    @property
    def verdict(self) -> Verdict:
        """Return the rating as a judge's verdict, which counts bullets from 1."""
        return Verdict(self.coverage, '"NA"' if self.bullet is None else str(self.bullet + 1), self.value, self.uncertainty)


@dataclass(frozen=True, slots=True)
class Parameters:
    """The fitted parameters: for insights judged alone, and for the insights of a summary judged together."""

    alone: Coefficients
    together: Coefficients
    uncertainties: tuple[float, ...] = ()
    """Quantiles of the uncertainty over the annotated insights, in descending order."""


def rate(
    insights: Sequence[str], bullets: Sequence[str], together: bool = True, parameters: Parameters | None = None
) -> list[Rated]:
    """Rate each insight of one summary. If `together` is false, each insight is rated alone. `parameters` defaults to the shipped
    ones."""
    parameters = parameters or shipped_parameters()
    if not together:
        return [rated for insight in insights for rated in rate([insight], bullets, parameters=parameters)]
    coefficients = parameters.together if len(insights) > 1 else parameters.alone
    return [rating(coefficients, feature, bool(bullets)) for feature in features(insights, bullets)]


def rating(coefficients: Coefficients, feature: Features | None, bullets: bool = True) -> Rated:
    """Return the rating for an insight's features.

    Without bullets, the insight is certainly not covered. For an insight without words, the result is unknown.
    """
    if feature is None:
        return Rated("NO_COVERAGE", None, 0.0, MOST_UNCERTAIN if bullets else 0.0)
    # Rounded to hide platform differences in the last digits.
    value, uncertainty = (round(one, _DIGITS) for one in coefficients.expected(feature.values))
    if feature.contradicted:
        return Rated("NO_COVERAGE", None, min(value, _CONTRADICTED), uncertainty)
    if feature.incomplete:
        value = min(value, round(coefficients.full_from - _BELOW, _DIGITS))
    if value < coefficients.partial_from and value < coefficients.full_from:
        return Rated("NO_COVERAGE", None, value, uncertainty)
    coverage: Coverage = "FULL_COVERAGE" if value >= coefficients.full_from else "PARTIAL_COVERAGE"
    return Rated(coverage, feature.bullet, value, uncertainty)


def uncertainty_at(share: float) -> float:
    """Return the uncertainty that this share (0..1) of the annotated insights reaches when insights are judged together.

    For share 0 it is 1, which no insight reaches. Raises ValueError for a share outside 0..1.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"the share is {share}; expected 0 to 1")
    if share == 0:
        return 1.0
    steps = shipped_parameters().uncertainties
    place = share * (len(steps) - 1)
    below = min(int(place), len(steps) - 2)
    return steps[below] + (place - below) * (steps[below + 1] - steps[below])


class OfflineJudge:
    """The local model `offline/judge` (llm.LocalModel)."""

    name: ClassVar[str] = "offline/judge"
    revision: ClassVar[str] = "11"

    def answer(self, request: Request) -> str:
        """Return the verdict as JSON, with `value` and `uncertainty`, on the insight and bullets in the request's prompt.

        For a prompt with several insights (`Reference Insights:`): `{"judgments": [...]}`, each with its `insight_id`. For a
        question that no document answers, the verdict is whether the answer invents something (`rate_absence`). Raises
        LookupError if the prompt lacks insights or bullets.
        """
        asked, listed = (list(heading.finditer(request.prompt)) for heading in (_QUERY_HEADING, _BULLETS_HEADING))
        if asked and listed and not INSIGHT_HEADING.search(request.prompt):
            query = json.loads(request.prompt[asked[-1].end() : listed[-1].start()])
            bullets = numbered_at(request.prompt, listed[-1].end(), "bullet") or []
            found = rate_absence(query, [text for _, text in bullets])
            bullet = "NA" if found.bullet is None else bullets[found.bullet - 1][0]
            return json.dumps({"invents": found.invents > 0, "bullet_id": bullet, "uncertainty": found.uncertainty})
        question = read(request.prompt)
        rated = rate(question.insights, question.bullets, question.together)
        verdicts = [
            {
                "coverage": one.coverage,
                "bullet_id": "NA" if one.bullet is None else question.bullet_ids[one.bullet],
                "value": one.value,
                "uncertainty": one.uncertainty,
            }
            for one in rated
        ]
        if not question.together:
            return json.dumps(verdicts[0])
        numbered = zip(question.insight_ids, verdicts, strict=True)
        return json.dumps({"judgments": [{"insight_id": number, **verdict} for number, verdict in numbered]})


@cache
def shipped_parameters() -> Parameters:
    """Return the shipped parameters, which are read once."""
    text = resources.files("summhay_ray.judge").joinpath(SHIPPED).read_text(encoding="utf-8")
    return parameters_of(json.loads(text))


def parameters_of(fitted: Mapping[str, Any]) -> Parameters:
    """Read the parameters from the content of a fitted file. Raise KeyError if one is missing."""
    alone, together = (
        Coefficients(
            weights=tuple(float(fitted[how]["weights"][name]) for name in names),
            **{name: float(fitted[how][name]) for name in ("some", "full", "partial_from", "full_from")},
        )
        for how, names in (("alone", ALONE), ("together", TOGETHER))
    )
    return Parameters(alone, together, tuple(fitted["uncertainties"]))


# --- questions that no document answers ----------------------------------------------------------------------------------

_QUERY_HEADING = re.compile(r"^Question Without Answer:[ \t]*\r?$", re.MULTILINE)
_BULLETS_HEADING = re.compile(r"^Bullet Points:[ \t]*\r?$", re.MULTILINE)
UNSURE = 0.5
"""The free judge's uncertainty about a claim without any number."""


def rate_absence(query: str, bullets: Sequence[str]) -> Absence:
    """Decide by patterns whether an answer invents something. It does if a clause states no absence and has content beyond the
    query.

    If the answer states an absence, a clause may also say what the documents discuss instead.
    """
    patterns = _patterns()
    asked = {*roots(patterns.source.sub(" ", query.casefold()))}
    claims, is_denied = list[tuple[int, str, bool]](), False
    for number, bullet in enumerate(bullets, start=1):
        plain = re.sub(r"[*_#`>|]+", " ", remove_citations(bullet)).replace("\u2019", "'")
        for clause, is_instead in _clauses(plain):
            found = {*roots(patterns.source.sub(" ", clause))}
            # Some clauses have no content: a heading with the query's words, a greeting, "the minutes", or advice to look
            # elsewhere.
            is_empty = not found - asked - _BARE and not (found & asked and _DENIAL.search(clause))
            if not is_empty:
                is_absence = bool(patterns.absence.search(clause)) and not _figures(clause) - _figures(query)
                is_denied |= is_absence
                if not is_absence:
                    claims.append((number, clause, is_instead))
    for number, clause, is_instead in claims:
        # For example, "They discuss vaccines, not volcanic ash".
        about = re.sub(r"\bnot\b[^,]*", "", clause)
        shared, has_figures = len(asked.intersection(roots(about)) - _BARE), bool(_figures(clause))
        is_on_query = shared > len(asked - _BARE) / 2 or (shared and has_figures)
        if not (is_denied and not is_on_query and is_instead and not (shared and _CLAIM.search(clause))):
            return Absence(1.0, number, 0.0 if has_figures else UNSURE)
    return Absence(0.0, uncertainty=0.0)


def _clauses(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each clause of a text, and whether it states another subject that the documents discuss.

    Such a clause may continue after "and". It may also concede something before an absence: "Although a rail broke, nobody is
    named", "The text says that a rail broke, but names nobody".
    """
    patterns = _patterns()
    absence, instead = patterns.absence, patterns.instead
    for sentence in sentences(text):
        conceded = _CONCESSION.sub(r"\1;", sentence.casefold())
        first, *others = _BREAK.split(conceded)
        if of_sources := bool(patterns.says.match(first)):
            # The documents are also the subject of "but do not say why".
            others[1::2] = [patterns.says_on.sub("they \\g<0>", clause.strip()) for clause in others[1::2]]
        concedes = (conceded != sentence.casefold() or of_sources) and bool(absence.search("".join(others[1:2])))
        is_instead = False
        for sign, clause in [("", first), *zip(others[::2], others[1::2], strict=True)]:
            clause = clause.strip(" ,")
            goes_on = (
                is_instead and sign.strip(" ,").startswith("and") or bool(_INSTEAD.search(sign)) and clause.startswith("they ")
            )
            is_instead = goes_on or not absence.search(clause) and bool(instead.search(clause))
            if plain := " ".join(clause.split()):
                yield plain, is_instead or (concedes and not sign)


def _figures(clause: str) -> set[str]:
    """Return the clause's numbers, except for counts of documents."""
    return {*re.findall(r"\d[\d.,]*", _patterns().counts.sub(" ", clause))}


class _Patterns(NamedTuple):
    """The regular expressions of absence_patterns.txt."""

    absence: re.Pattern[str]
    """Matches a statement of absence."""
    instead: re.Pattern[str]
    """Matches a statement about what the documents discuss."""
    source: re.Pattern[str]
    """Matches a word for documents."""
    says: re.Pattern[str]
    """Matches a clause about what documents report."""
    says_on: re.Pattern[str]
    """Matches a clause about reporting that lacks its subject."""
    counts: re.Pattern[str]
    """Matches a count of documents, document numbers, or the number of a list entry."""


@cache
def _patterns() -> _Patterns:
    named: dict[str, str] = {}
    others: dict[str, list[str]] = {"": [], "INSTEAD: ": []}
    for line in shipped("absence_patterns.txt").splitlines():
        definition = re.fullmatch(r"([A-Z]+) = (.+)", line)
        text = definition[2] if definition else line
        for name, inserted in named.items():
            text = text.replace(f"{{{name}}}", inserted)
        if definition:
            named[definition[1]] = text
        elif line and not line.startswith("#"):
            kind = "INSTEAD: " if line.startswith("INSTEAD: ") else ""
            others[kind].append(f"(?:{text.removeprefix(kind)})")
    source, many = named["SOURCE"], r"\d+(?:\s*(?:-|\u2013|to|and|,)\s*\d+)*"
    counted = rf"\b(?:\d[\d,]*\s+(?:\w+\s+)?{source}|{source}\s+(?:nos?\.?\s*)?{many})|^\W*\d+[.)]\s"
    absence, instead = (re.compile("|".join(some)) for some in others.values())
    reported = r".*\b(?:is|are) (?:reported|mentioned|described|discussed)\b"
    says = re.compile(rf"\W*(?:according to )?(?:the |these |those |all )?(?:\w+ )?(?:{source}|they)\b|{reported}")
    says_on = re.compile(rf"^(?:(?:do|does|did|can|could)(?:n't| ?not)|never|fails?|{named['SAY']})\b")
    return _Patterns(absence, instead, re.compile(rf"\b{source}\b"), says, says_on, re.compile(counted))


_CLAIM = re.compile(r"[%$€£]|\b(?:that|which|who|whose|because)\b")
"""Matches signs that a clause states what the documents report, and not only what they are about."""
_BREAK = re.compile(
    r"([;:\n\u3002\uff1b\uff01]+|(?:,\s*)?\b(?:but|however|nevertheless|nonetheless|yet|instead|rather|whereas|"
    r"and (?:they|it|the|that|no ?one|nobody|none)|"
    r"(?:that|which|who)(?=\s(?:is|are|was|were|do|does|did|has|have)(?:n't| not)\b)|"
    r"aber|jedoch|sondern|cependant|pero|sin embargo|però|tuttavia|porém|maar|echter|jednak|однако)\b,?|"
    r",\s*(?:which|who|so)\b|(?:,\s*)?\bwhose\b|,\s*(?:although|though|while)\b(?=[^,]*$)|,\s*(?:mais|sino|ma|mas|men|ale|но)\b|(?:但是|但|然而|しかし|ただし|ですが|그러나|하지만))"
)
"""Separators between the clauses of a sentence that make different statements."""
_INSTEAD = re.compile(r"\b(?:instead|rather)\b")
_CONCESSION = re.compile(r"^(\W*(?:although|though|even though|while|whilst|obwohl|bien que|aunque|sebbene|embora|хотя)\b[^,]*),")
_DENIAL = re.compile(r"\b(?:no|not|never|none|without)\b|n't")
_BARE = frozenset(
    roots(
        """
        answer question query topic subject summary bullet point document source text article report context material passage
        information information's data detail provided given available based above below following here note please sorry
        apologize afraid unfortunately regret consult check see look ask refer further additional other external another
        elsewhere more specific relevant related regarding concerning therefore thus hence so consequently result conclusion
        overall response insight finding claim citation citations none n na null nil unknown yes hello hi thank thanks let know
        help need want like would happy assist search say said state statement mention tell find
        """
    )
)
