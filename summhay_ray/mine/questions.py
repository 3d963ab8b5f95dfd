"""Writes the question that an English statement answers: the statement's subject and verb, with a question word in place of the
answer.

A statement is parsed into one clause: the words before the subject, the subject, the auxiliaries, the verb and the rest. If the
subject names nothing ("the bug", "we"), the most specific noun phrase of the rest replaces it.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from summhay_ray.mine.phrases import ADVERBS, BREAKS, FEWEST, MOST_WORDS, OPEN, PARTICIPLES, SINGULAR, Naming, phrases, stated
from summhay_ray.mine.verbs import BASES, NEVER_NOUNS, finite_verb, word_set
from summhay_ray.text import FUNCTION_WORDS, MONTHS

_FRONTED = word_set("""
    in on at during for after before when whenever while if because although though since with without by to due given as under
    from rather instead unlike like once whereas despite until through via per according between among within upon over however
    also additionally furthermore moreover therefore finally note hence thus so then but and or yet nevertheless nonetheless
    meanwhile similarly likewise consequently otherwise technically generally hopefully currently previously
    """)
"""Words that begin the part before a subject."""
_BE = word_set("is are was were be been being am")
_HAVE = word_set("has have had")
_MODALS = word_set("can could may might must shall should will would")
_DO = word_set("do does did")
_NO_OBJECT = word_set("""
    appear arrive be become begin come continue exist fail fall feel get give go happen keep lead leave let make mean occur prove
    put remain result rise run seem set sit start stay stop take tend turn work want try wait look
    """)
"""Verbs whose object is not asked for, since the question would be vague or ungrammatical: "What does the team take?"."""
_REASON = re.compile(
    r",? ?\b(?:because|due to|owing to|as a result of|caused by|thanks to|for (?:the )?(?:lack|sake|want) of"
    r"|so that|in order to|(?<!s )after (?!\d|an? \w+ (?:hour|day|week|month)))",
    re.IGNORECASE,
)
_PHRASAL = re.compile(
    r"(?:depend|rely|focus|insist|agree|operate|work) (on) |consist (of) |(?:suffer|benefit|differ|derive|recover) (from) "
    r"|(?:deal|comply|interfere) (with) |(?:result|participate|land) (in) |(?:lead|apply|refer|belong|contribute|conform) (to) "
)
_STATE = re.compile(
    r"(?:[a-z]+ly )?(?!(?:one|some|part|out|up|most|all|none|due|according)\b)[a-z]+ (?:to|on|with|for|about|of)(?= (?!be\b)\w)"
)
"""Matches an adjective and the preposition of its complement: "vulnerable to"."""
_CHANGES = word_set("climb decline decrease drop fall grow increase rise shrink")
_NO_SUBJECT = re.compile(r"[,;:“”]| [-–—] |\b(?:which|whom|whose|what|if|when|because|while)\b")
_HAPPENS = word_set("""
    break cease collapse crash decline decrease degrade disappear drop fall fail increase leak overflow restart resume rise stop
    """)
"""Verbs that suggest the question "Why ...?"."""
_PERIOD = re.compile(
    r" ?\b(?:for|over) (?:(?:about|around|over|more than|almost|nearly|up to|at least|approximately|another|a total of) )*"
    r"(?:[\d.,]+|an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|several|a few)[ -](?:\w+ )?(?:seconds?"
    r"|minutes?|hours?|days?|weeks?|months?|years?)\b",
    re.IGNORECASE,
)
_DATE_WORD = rf"(?:{'|'.join(MONTHS)})\b|(?:19|20)\d\d\b|\d{{1,2}}:\d\d\b"
_DATED = re.compile(
    rf" ?\b(?:on|by|until|in|since|at) (?:\w+ ){{0,2}}(?:\d{{1,2}} )?(?:{_DATE_WORD})"
    rf"| ?\bfor (?:early |late |mid-)?(?:\d{{1,2}} )?(?:{_DATE_WORD})"
    r"| ?\b(?:in|with) (?:a|the|an) (?:future|next|upcoming|coming|later) (?:release|version|year|month|update)\b"
)
MONTH = re.compile(rf"\b({'|'.join(MONTHS)})\s+(?:\d{{1,2}}(?:st|nd|rd|th)?,?\s+)?((?:19|20)\d\d)\b")
KINDS = {
    "What went wrong with {}": r"fail(?:s|ed)|crash(?:es|ed)|lost|broke|leaked|stopped|degraded|disrupted|overloaded|corrupted",
    "What was decided about {}": r"decided|accepted|rejected|approved|agreed|voted|elected|adopted",
    "What has changed with {}": r"deprecated|removed|replaced|added|introduced|renamed|stabilized|changed|upgraded",
}
"""(Question about a subject, verbs that indicate it) for each kind of statement. If two kinds fit, the first one counts."""
_TREATED = "What was decided about {}"
""""X was rejected" answers this question about X, but "X rejected Y" does not."""
KNOWN = "What is known about {}"
"""The question about a subject if the statements have no such kind."""
_CONDITION = re.compile(
    r"^((?:If|When|Whenever|Unless) [^,;:]+), (?=\w)|^(?!(?:If|When|Unless) )[^;:]* ((?:if|whenever|unless) [^,;:]+)$"
)
"""Matches a condition before or after the main clause."""
OF_THE_TOPIC = ("What is ", "What are ", "Why ")
"""Questions about the collection's topic. The topic does many things, so "What did Rust use?" would be too vague."""
_REFERRING = re.compile(
    r"(?:this|these|those|that|such|it|its|their|his|her|our|we|they|there|the (?:following|above|same|other))\b", re.I
)
"""Subjects that can be understood only from the preceding text."""
_SUBORDINATE = re.compile(
    r"^(?:when(?:ever)?|if|because|although|though|while|since|after|before|once|whereas|given that) ", re.I
)
_AUXILIARIES = _BE | _HAVE | _MODALS | _DO
_PARTICLE = 4
"""Maximum number of words of a complement without an object that a question repeats ("run out of amoxicillin")."""
_TELLING = 2
"""Minimum value at which a phrase of several words is used instead of a vague subject."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question without its question mark, its subject, and the words of the question that do not count as an answer."""

    subject: str
    text: str
    known: str


@dataclass(frozen=True, slots=True)
class Clause:
    """The main clause of a statement. `verb` is the last word of its verb group, `base` the base form of that verb ("be" for a
    copula)."""

    lead: str
    subject: str
    auxiliaries: tuple[str, ...]
    verb: str
    base: str
    rest: str
    negated: bool

    @property
    def passive(self) -> bool:
        """Whether something is done to the subject."""
        return bool(self.auxiliaries) and self.auxiliaries[-1] in _BE and self.base != "be" and not self.verb.endswith("ing")

    def asked(self, tail: str) -> str:
        """Return the clause in the word order of a question, with `tail` in place of its rest: "did payments in Frankfurt
        fail"."""
        if not self.auxiliaries:
            past = self.verb != self.base and not self.verb.endswith("s")
            head = re.split(" (?:of|for|in|on|to|with|from|at) ", self.subject)[0].split()[-1]
            one = bool(SINGULAR.search(head)) or head != head.lower()
            # After a singular subject, a verb such as "hit" in its base form is a past form.
            do = "did" if past or (self.verb == self.base and one and head == head.lower()) else "does" if one else "do"
            return " ".join(filter(None, (do, self.subject, self.base, tail)))
        first, *others = self.auxiliaries
        denied = ("not",) if self.negated else ()
        verb = () if self.base == "be" else (self.verb,)
        return " ".join(filter(None, (first, self.subject, *denied, *others, *verb, tail)))


def read_clause(text: str, naming: Naming) -> Clause | None:
    """Parse the main clause of a statement. Return None if its subject or verb is not recognized."""
    text = re.sub(r"\s*\([^)]*\)", "", stated(text)).strip().rstrip(".")
    text = re.sub(r"^(?:Note|Reminder|So|And|But|However|Also)\b[:,]? ?", "", text)
    text = re.sub(r"^([^,]{3,60}), [^,]{2,60}, (?=(?:was|were|is|are|has|have|had|will|can|could|may)\b)", r"\1 ", text)
    text = re.sub(r"\b(wo|ca|is|are|was|were|has|have|had|do|does|did|could|would|should|must)n[’']t\b|\bcannot\b", _denied, text)
    dated = re.match(rf"(?:In|From|On|Since|By|Until|During) (?:\w+ ){{0,2}}(?:{_DATE_WORD})(?: (?:19|20)\d\d\b)? ", text)
    begins = [dated.end()] if dated else []
    begins += [match.end() for match in re.finditer(r"(?<![A-Z][a-z]{2} \d), (?!\d)|: ", text)]
    first = text.split(" ", 1)[0].strip(",").lower()
    fronted = first in _FRONTED or re.search(r"(?:ly|ing|ed)$", first)
    for begin in [*begins, 0] if fronted else [0, *begins]:
        clause = _clause(text[:begin].strip(" ,:"), text[begin:], naming)
        if clause is not None:
            return clause
    return None


def _denied(contracted: re.Match[str]) -> str:
    """ "has not" for "hasn't"."""
    verb = contracted[1] or "ca"
    return f"{ {'wo': 'will', 'ca': 'can'}.get(verb, verb) } not"


def _clause(lead: str, text: str, naming: Naming) -> Clause | None:
    found = finite_verb(text)
    if found is None or not text[0].isalnum():
        return None
    words = text[: found.start()].split()
    group, rest = verb_group(text[found.start() :])
    if len(group) == 1 and group[0].lower() not in _AUXILIARIES and rest.split(" ", 1)[0] in _AUXILIARIES:
        words, (group, rest) = [*words, group[0]], verb_group(rest)
    # "Items recorded in the log were lost": the participle after the subject's noun is not the verb.
    gerund = len(words) == 1 and words[0].endswith("ing")
    linked = re.match(r"(?:in|by|on|for|from|to|with|at|as|about) ", rest)
    if len(group) == 1 and group[0].endswith("ed") and (linked or gerund):
        later = re.search(r"^[^,;:]*?\b(?:is|are|was|were|has|have|had|will|can|should|must|would|could|may|might)\b", rest)
        if later and not re.search(r"\b(?:that|which|who|when|if|because|while|where|and|or|but|as|what|how)\b", later[0]):
            cut = len(text) - len(rest) + later.end() - len(later[0].split()[-1])
            words, (group, rest) = text[:cut].split(), verb_group(text[cut:])
    while len(words) > 1 and (words[-1].lower() in ADVERBS or re.search(r"[a-z]ly$", words[-1])):
        words.pop()
    spoken = [word.lower() for word in group if word.lower() not in ADVERBS and not (word.endswith("ly") and word not in BASES)]
    if not words or not spoken or len(words) > MOST_WORDS or _NO_SUBJECT.search(" ".join(words)):
        return None
    start = words[0].lower()
    if BASES.get(start) == start and words[1:2] and words[1].lower() in FUNCTION_WORDS - {"of", "and"}:
        # "Consider how ..." asks the reader to do something.
        return None
    if (start in FUNCTION_WORDS and start not in OPEN) or start in _FRONTED | NEVER_NOUNS | ADVERBS:
        return None
    *auxiliaries, verb = spoken
    if any(word not in _AUXILIARIES for word in auxiliaries):
        return None
    if verb in _BE:
        auxiliaries, base = [*auxiliaries, verb], "be"
    else:
        base = "have" if verb in _HAVE else BASES.get(verb, "" if not auxiliaries else verb)
    gerund = gerund and len(words) == 1 and not auxiliaries and verb.endswith("ed")
    if not base or base in FUNCTION_WORDS - {"be", "have"} or gerund:
        return None
    following = words[1:2] + words[2:3] if words[1:2] == ["and"] else words[1:2]
    named = naming.is_name(re.sub(r"['’]s$", "", words[0])) or any(word[0].isupper() for word in following)
    if start in OPEN or not named or start.split("-")[0] in FUNCTION_WORDS:
        words[0] = words[0].lower()
    return Clause(lead, " ".join(words), tuple(auxiliaries), verb, base, rest, "not" in (word.lower() for word in group))


def verb_group(text: str) -> tuple[list[str], str]:
    """Return the auxiliaries, adverbs and verb at the beginning of a text, and the text after them."""
    words = text.split(" ")
    group: list[str] = []
    held = ""
    """The last auxiliary."""
    for word in words:
        lower = word.lower()
        if lower in _AUXILIARIES or lower in ADVERBS or (group and re.search(r"[a-z]ly$", lower)):
            group.append(word)
            held = lower if lower in _AUXILIARIES else held
            continue
        plain = lower.strip(",;:")
        participle = re.search(r"(?:ed|ing)$", plain) or plain in PARTICIPLES or BASES.get(plain, plain) != plain
        if not held or held in _MODALS or held in _DO or (participle and not plain.endswith("thing")):
            group.append(word)
        break
    ended = bool(group) and group[-1][-1] in ",;:"
    return [word.strip(",;:") for word in group], "" if ended else " ".join(words[len(group) :])


def ask(text: str, naming: Naming, about: Callable[[str], bool]) -> Iterator[Question]:
    """Yield questions that a statement answers, best first. They are about its subject, or else about a specific noun phrase.
    `about`: whether the statement's documents are about a phrase."""
    main = read_clause(text, naming)
    lead = main.lead if main is not None else text.split(",", 1)[0]
    plain: list[Question] = []
    vague: list[Question] = []
    for clause in (main, read_clause(_SUBORDINATE.sub("", lead), naming)):
        if clause is None or _REFERRING.match(clause.subject):
            continue
        month = MONTH.search(f"{clause.lead} {clause.rest}")
        when = f" in {month[1]} {month[2]}" if month else ""
        asked = [
            Question(f"{clause.subject}{when}", f"{question}{when * (question[:4] != 'When')}", f"{clause.subject} {known}{when}")
            for known, question in _of_clause(clause)
        ]
        if naming.value(clause.subject) >= FEWEST:
            yield from asked
        elif any(naming.is_name(word) for word in clause.subject.split()):
            yield from (one for one in asked if one.text.startswith(OF_THE_TOPIC))
        else:
            for one in asked:
                nouns = " ".join(word for word in one.text.split() if word.lower() not in BASES)
                (plain if naming.value(nouns) >= FEWEST else vague).append(one)
    if condition := _condition(text):
        yield Question(condition, f"What happens {condition}", condition)
    kind, named = kind_of([text]), phrases(text, naming)
    if main is not None and kind == KNOWN:
        # A general question is about the subject rather than about another phrase.
        named.sort(key=lambda phrase: phrase.lower() not in main.subject.lower())
    asked = [Question(phrase, kind.format(phrase), kind.format(phrase)) for phrase in named]
    yield from (one for one in asked if about(one.subject))
    bare = [re.sub("^(?:the|an?) ", "", phrase) for phrase in named]
    telling = [one for one, words in zip(asked, bare, strict=True) if " " in words and naming.value(words) >= _TELLING]
    for listed in (plain, telling) if kind == KNOWN else (telling, plain):
        yield from listed
    yield from vague
    yield from asked


def _condition(text: str) -> str:
    """Return the condition of a statement, if it can be understood alone: "if the disk is full"."""
    found = _CONDITION.match(re.sub(r"\s*\([^)]*\)", "", stated(text)).strip().rstrip("."))
    if found is None:
        return ""
    word, clause = (found[1] or found[2]).split(" ", 1)
    refers = _REFERRING.match(clause) or re.search(r"\b(?:it|they|them|this|that|these|those|he|she|we|you|I)\b", clause)
    alone = not refers and finite_verb(clause) is not None and 3 <= len(clause.split()) <= MOST_WORDS
    return f"{word.lower()} {clause}" if alone else ""


def kind_of(texts: Sequence[str]) -> str:
    """Return the question for the kind that at least half of the texts have, judged by their finite verbs."""
    acted = [verb_group(text[found.start() :])[0] if (found := finite_verb(text)) else [] for text in map(stated, texts)]
    counted = {asked: sum(bool(verb and re.fullmatch(words, verb[-1], re.I)) for verb in acted) for asked, words in KINDS.items()}
    asked = max(counted, key=counted.__getitem__)
    return asked if 2 * counted[asked] >= len(texts) else KNOWN


def is_past(verb: str) -> bool:
    """Whether a finite verb is a past form."""
    return verb in ("was", "were", "had", "did") or (BASES.get(verb, verb) != verb and not verb.endswith(("s", "ing")))


def _of_clause(clause: Clause) -> Iterator[tuple[str, str]]:
    """Yield the questions about a clause with a specific subject, best first. Each comes with the words that do not count as an
    answer, in addition to the subject."""
    rest, base, verb = clause.rest, clause.base, f"{clause.verb} {clause.base}"
    object_ = base not in _NO_OBJECT and _object(rest)
    if clause.negated:
        if object_:
            yield verb, f"What {clause.asked('')}"
        return
    past = clause.auxiliaries[-1] in ("was", "were", "been") if clause.auxiliaries else is_past(clause.verb)
    reason, period, dated = _REASON.search(rest[:80]), _PERIOD.search(rest), _DATED.search(re.split(", | but ", rest)[0])
    infinitive = re.match(r"to (\w+)(?= (the|an?|its|their|all|any|no|our|more|\w+s)\b)?", rest)
    verb_follows = infinitive and (infinitive[1] == "be" or BASES.get(infinitive[1]) == infinitive[1])
    follows = infinitive[0] if infinitive and infinitive[1] in BASES and (clause.passive or infinitive[2]) else ""
    phrasal = _PHRASAL.match(f"{base} {rest}")
    if reason and not re.match(r"that |as |to ", rest):
        before = _DATED.sub("", _PERIOD.sub("", rest[: reason.start()])).strip()
        short = _short(rest[: reason.start()], base) or ("" if "," in before or len(before.split()) > _PARTICLE else before)
        if not re.search(r"\d", short) and (short or clause.passive or base in _HAPPENS or reason.start() == 0):
            yield f"{verb} {short}", f"Why {clause.asked(short)}"
    if past and (period or _PERIOD.match(clause.lead)):
        short = _short(rest[: period.start()] if period else rest, base)
        yield f"{verb} {short}", f"How long {clause.asked(short)}"
    version = re.search(r"\b[Ii]n (?:version |release |[\w-]+ )?v?\d+\.\d", f"{clause.lead} {rest}")
    if version and clause.passive:
        yield f"{verb} version", f"In which version {clause.asked('')}"
    condition = re.search(r"(?:^| )(?:only )?when (?=\w)", rest)
    able = clause.auxiliaries[:1] and clause.auxiliaries[0] in _MODALS
    if condition and (base in _HAPPENS - _CHANGES or (clause.passive and able)):
        short = _short(rest[: condition.start()], base)
        yield f"{verb} {short}", f"When {clause.asked(short)}"
    if dated and (clause.passive or (clause.verb.endswith("ing") and base != "be") or clause.auxiliaries[:1] == ("will",)):
        short = _short(rest[: dated.start()], base) or follows
        yield f"{verb} {short}", f"When {clause.asked(short)}"
    if base not in _CHANGES and re.search(r"\bfrom [^,;]*\d[^,;]* to [^,;]*\d", rest):
        yield verb, f"How did {clause.subject} change"
    elif phrasal is not None:
        yield verb, f"What {clause.asked(phrasal[phrasal.lastindex or 0])}"
    elif follows and base != "be":
        yield f"{verb} {follows}", f"What {clause.asked(follows)}"
    elif clause.passive:
        means = re.search(r"(?:^| )(?:by|with|using|through|via)(?: an?| the)? (?!\d|default)\w", rest)
        place = re.match(r"(?:in|on|at|under) (?!\d|addition|general|order|particular)\w", rest)
        if means and (means.start() == 0 or _short(rest[: means.start()], "be")):
            short = _short(rest[: means.start()], "be") if means.start() else ""
            yield f"{verb} {short}", f"How {clause.asked(short)}"
        elif place and not past and not dated:
            yield verb, f"Where {clause.asked('')}"
        elif past:
            yield "", f"What happened to {clause.subject}"
    elif base in _CHANGES and re.match(r"(?:from|by|to) [^,;]*\d", rest):
        yield verb, f"By how much {clause.asked('')}"
    elif base == "be":
        if re.match(rf"(?:on |in )?(?:the )?(?:\d{{1,2}} )?(?:{_DATE_WORD})", rest):
            yield verb, f"When {clause.asked('')}"
        elif state := _STATE.match(rest):
            yield f"{verb} {state[0]}", f"What {clause.asked(state[0])}"
        elif re.match(r"(?:an?|the) |[A-Z]|[a-z]+s\b(?<!ss)", rest) and clause.auxiliaries in (("is",), ("are",)):
            yield "", f"What {clause.auxiliaries[0]} {clause.subject}"
    elif not object_ and not past and re.match(r"to (?!\d)", rest) and base not in _CHANGES and not dated and not verb_follows:
        yield f"{verb} to", f"What {clause.asked('to')}"
    elif object_:
        yield verb, f"What {clause.asked('')}"
    elif past and not clause.auxiliaries:
        people = re.fullmatch(r"(?:[A-Z][a-z]+ ){1,2}[A-Z][a-z]+", clause.subject)
        yield "", f"What did {clause.subject} do" if people else f"What happened to {clause.subject}"
    for kind, words in KINDS.items():
        if re.fullmatch(words, clause.verb) and (clause.passive or kind != _TREATED):
            yield "", kind.format(clause.subject)


def of_clauses(clauses: Sequence[Clause], shortest: Clause) -> Iterator[tuple[str, str]]:
    """Yield the questions that several clauses with the same subject and verb answer. `shortest`: the clause with the shortest
    subject."""
    verb = f"{shortest.verb} {shortest.base}"
    rests = [clause.rest for clause in clauses]
    if shortest.base == "be":
        states = {state[0] if (state := _STATE.match(rest)) else "" for rest in rests}
        if len(states) == 1 and "" not in states:
            yield f"{verb} {min(states)}", f"What {shortest.asked(min(states))}"
        elif shortest.auxiliaries in (("is",), ("are",)) and all(re.match(r"(?:an?|the) ", rest) for rest in rests):
            yield "", f"What {shortest.auxiliaries[0]} {shortest.subject}"
    elif shortest.base in _HAPPENS or (shortest.passive and any(_REASON.search(rest[:80]) for rest in rests)):
        yield verb, f"Why {shortest.asked('')}"
    elif shortest.passive:
        yield verb, f"What happened to {shortest.subject}"
    elif all(_object(clause.rest) and not clause.negated for clause in clauses) and shortest.base not in _NO_OBJECT:
        yield verb, f"What {shortest.asked('')}"


def _object(rest: str) -> bool:
    """Whether the words after a verb begin with its object, or with a clause that is its object."""
    first = rest.split(" ", 1)[0].lower()
    if not first or not first[0].isalnum() or first in ADVERBS or first.endswith("ly"):
        return False
    return first in OPEN or first not in FUNCTION_WORDS | BREAKS or first in ("how", "what", "whether", "which", "why", "that")


def _short(rest: str, base: str) -> str:
    """Return the first words of `rest` that complete a question: an object or an adjective, without what follows."""
    if base != "be" and not _object(rest):
        return ""
    found = re.match(
        r"[^,;:]*?(?=,|;|:| (?:in|on|at|for|from|by|with|to|after|before|during|until|that|which|and|but)\b|$)", rest
    )
    words = found[0].split() if found else []
    if len(words) > 1 and words[-1].endswith("ed") and found and re.match(r" \w", rest[found.end() :]):
        words.pop()
    return " ".join(words) if len(words) <= MOST_WORDS // 2 else ""
