"""The probability that a statement is a finding: a statement that a person can understand and check without its document.

A logistic model of the statement's form. It was fitted to statements of many folders that a reader labelled
(`tools/fit_findings.py`, which also measures it on folders that the fit has not seen).
"""

import functools
import itertools
import json
import math
import re
from collections.abc import Sequence
from importlib import resources

from summhay_ray.mine.verbs import BASES, PASTS, finite_verb, word_set
from summhay_ray.text import FUNCTION_WORDS, is_latin

_FORM = frozenset(("words", "no_full_stop", "odd_beginning", "number", "colon", "slash"))
"""Features that need no English; for another language, the others count as the mean of the labelled statements."""
SHIPPED = "finding_model.json"
LEAST, ENOUGH, SHARE = 0.3, 0.5, 0.65
"""A statement with at least the probability `ENOUGH` may be an insight. In a folder of prose, where most candidates are findings,
the limit is lower, down to `LEAST`, as long as at least `SHARE` of the candidates above it are expected to be findings."""
_SHORTEST = 6
"""Minimum characters of a statement in another script than Latin."""

_WORD = re.compile(r"[^\W\d_]+(?:[’'][^\W\d_]+)*")
_ENDS = re.compile(r"[.!。]['\"’”)\]]*$")
_LABEL = re.compile(
    r"^(?:\[[^\[\]]{1,40}\] ?)+|^(?:ACTION|DECISION|AI|TODO|Action|Decision)(?: [Ii]tem)?[ \d.]*:? "
    r"|^(?:\d{1,2} )?[A-Z][\w’'-]*(?: [\w.’'-]+| \([^)]{1,30}\)){0,4}(?:: | [-–—] )"
    r"|^(?!Today|Yesterday|First|Second|Third|Next|Last|Overall|Instead|Perhaps|Maybe|Indeed|Once|[A-Z]\w+(?:ly|s|ed|ing)\b)"
    r"[A-Z][a-z]+, (?=[a-z-])"
)
"""Matches a speaker, or the name of an item, before the statement."""
_LEAST_LABELLED = 15
"""Minimum characters of a statement after a label."""
_INTRODUCED = re.compile(
    r"(?:After|Although|As|Because|Before|If|Once|Since|Though|Unless|Until|When|Whenever|Where|Whereas|While)\b[^,]*, (?=[^,]* )"
)
"""Matches a clause before the main clause."""
_CUT_OFF = re.compile(
    r"(?:[:,;(\[{–—-]|…|\.\.\.|\b(?:the|a|an|of|to|and|or|for|with|in|by|from|as|that|which|is|are|was|were))[\s)]*$"
)
_TASK = re.compile(r"(?:(?:[A-Z][\w’'-]+|and|&|/),? ){1,8}to [a-z]")
_SPECIFIC = re.compile(r"\d| [A-Z]|[a-z]{2}\.[a-z]{2}")
"""Matches a number or a name, which shows what is meant."""
_NAMED = re.compile(r"\d|\w[._/]\w|[A-Z]{2}")
_ELSEWHERE = re.compile(
    r"\b(?:above|below|aforementioned|former|latter|following|previous(?:ly)?|preceding|as follows|corresponding|respective)\b",
    re.IGNORECASE,
)
_WISH = re.compile(
    r"\b(?:should|maybe|perhaps|possibly|probably|hopefully|ought|let['’]s|consider"
    r"|(?:needs?|wants?|plans?|like|hope|hoping|going|have|has|trying|try) to)\b",
    re.IGNORECASE,
)
_POINTS_BACK = re.compile(r"(?:\w+ ){1,3}(?:that|this|these|those|it),")
"""Matches a beginning like "Because of that,"."""
_GOES_ON = word_set("""
    then thus hence so therefore consequently accordingly instead otherwise meanwhile similarly likewise specifically here
    especially another others yes no ok well also additionally furthermore moreover however but and or nevertheless finally
    besides still just maybe perhaps not mostly only again now next
    """)
_MEETING = word_set("""
    meeting meetings call calls agenda notes note action item items discussion discussions discuss discussed update
    updates feedback volunteer volunteers follow link links doc docs todo topic topics question questions idea ideas comment
    comments slides summary see below ask talk session review reviewed presented presentation attendees members everyone anyone
    somebody someone people folks thing things stuff way progress plan plans details page section template checklist post article
    document example examples
    """)
_CHAT = word_set("""
    just still get gets got getting really see lot lots kind sort bit maybe actually basically probably good nice great better
    big little very pretty quite sure anyway etc todo thing things stuff go going
    """)
_MAY = word_set("may might could would")
_YOU = word_set("you your yours please thanks let let's hello welcome")
_WE = word_set("we our us ours we're we'll we've")
_THEY = word_set("they them it its")
_THIS = word_set("this these those")
_DEFINED = word_set("the these those this all both some many most our their")
_ARTICLES = word_set("a an the")
_PREPOSITIONS = word_set("of for in with by from on at")


def worth(text: str, english: bool = True) -> float:
    """Return the probability that a statement is a finding, 0 to 1. `least_worth` is the minimum of an insight."""
    if not is_latin(text):
        return 1.0 if len(text) >= _SHORTEST else 0.0
    weights, intercept = _shipped()
    values = finding_features(text)
    score = math.fsum(weight * (values[name] if english or name in _FORM else mean) for name, (weight, mean) in weights.items())
    return 1 / (1 + math.exp(-intercept - score))


def least_worth(values: Sequence[float]) -> float:
    """Return the minimum probability of an insight, given the probabilities of a folder's candidates; see `SHARE`."""
    found = sorted(values, reverse=True)
    shares = (total / number for number, total in enumerate(itertools.accumulate(found), start=1))
    may = [one for one, share in zip(found, shares, strict=True) if one >= LEAST and share >= SHARE]
    return min([ENOUGH, *may])


@functools.cache
def _shipped() -> tuple[dict[str, tuple[float, float]], float]:
    """Return the weight of each feature with its mean among the labelled statements, and the intercept."""
    fitted = json.loads(resources.files("summhay_ray.mine").joinpath(SHIPPED).read_text(encoding="utf-8"))
    return {name: (weight, fitted["means"][name]) for name, weight in fitted["weights"].items()}, fitted["intercept"]


def finding_features(text: str) -> dict[str, float]:
    """Return the features of a statement, by name. Counts are capped. Other features are 0 or 1, except where noted:

    - words: ln(words and numbers).
    - no_full_stop, odd_beginning, number, colon, slash: it does not end with a full stop, begins with no letter, has a digit, ...
    - cut_off: it ends with a colon, an open bracket or a word that needs another one.
    - no_verb, is: there is no finite verb, or it is a form of "to be".
    - function_words: their share, 0 to 1; articles, prepositions: their number.
    - bare_subject: the subject is one common noun that another sentence has defined ("The change is ..."), and nothing is named.
    - named_subject: the subject has a name, a number or an acronym.
    - subject_i, subject_points: the subject is "I", or has a demonstrative.
    - begins_with_verb, begins_with_past, goes_on: the first word is a base ("Add a test"), a past form, or
      adds to the text before.
    - task: somebody "to" do something.
    - i, you, we, this, they: it has such a word.
    - elsewhere: words that refer to other places of the text.
    - may, wish: words of what is possible, and of what is proposed or must be done.
    - meeting, chat: words about a meeting and its text, and of spoken language.
    """
    label = _LABEL.match(text)
    if label and label[0].lower().strip(" ,") not in FUNCTION_WORDS | _GOES_ON and len(text) - label.end() > _LEAST_LABELLED:
        text = text[label.end()].upper() + text[label.end() + 1 :]
    words = [word.lower().replace("’", "'") for word in _WORD.findall(text)] or [""]
    first, known = words[0], frozenset(words)
    ends = bool(_ENDS.search(text))
    plain = re.sub(r" \([^)]*\)", "", text)
    introduced = _INTRODUCED.match(plain)
    main = plain[introduced.end() :] if introduced else plain
    verb = finite_verb(main)
    before = main[: verb.start()] if verb else ""
    subject = _WORD.findall(before)
    subjects = [word.lower() for word in subject]
    named = any(word[0].isupper() for word in subject[1:]) or bool(_NAMED.search(before))
    values = {
        "words": math.log(max(1, len(re.findall(r"\w+", text)))),
        "no_full_stop": not ends,
        "odd_beginning": not text[0].isalpha(),
        "number": bool(re.search(r"\d", text)),
        "colon": bool(re.search(r":(?!\d|//)", text)),
        "slash": "/" in text,
        "cut_off": bool(_CUT_OFF.search(text)),
        "no_verb": verb is None,
        "is": verb is not None and verb[0].lower() in ("is", "are", "was", "were"),
        "function_words": sum(word in FUNCTION_WORDS for word in words) / len(words),
        "articles": min(4, sum(word in _ARTICLES for word in words)),
        "prepositions": min(4, sum(word in _PREPOSITIONS for word in words)),
        "bare_subject": len(subjects) in (1, 2) and subjects[0] in _DEFINED and not _SPECIFIC.search(text),
        "named_subject": named,
        "subject_i": "i" in subjects,
        "subject_points": not {"this", "these", "those", "such", "that"}.isdisjoint(subjects),
        "begins_with_verb": BASES.get(first) == first,
        "begins_with_past": first.endswith("ed") or first in PASTS,
        "goes_on": first in _GOES_ON or bool(_POINTS_BACK.match(text)),
        "task": bool(_TASK.match(text)),
        "i": bool(re.search(r"\b(?:I|me|my|mine)\b", text)),
        "you": not known.isdisjoint(_YOU),
        "we": not known.isdisjoint(_WE),
        "this": not known.isdisjoint(_THIS),
        "they": not known.isdisjoint(_THEY),
        "elsewhere": min(2, len(_ELSEWHERE.findall(text))),
        "may": not known.isdisjoint(_MAY),
        "wish": min(2, len(_WISH.findall(text))),
        "meeting": min(3, sum(word in _MEETING for word in words)),
        "chat": min(2, sum(word in _CHAT for word in words)),
    }
    return {name: float(value) for name, value in values.items()}
