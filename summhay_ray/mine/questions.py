"""Writes the question that an English statement answers: its subject and verb, with an interrogative in place of the answer.

A statement is read as one clause: what precedes its subject, the subject, the auxiliaries, the verb and the rest. A subject that
names nothing ("the bug", "we") is replaced by the noun phrase of the rest that names most.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from summhay_ray.mine.findings import BASES, NEVER_NOUNS, finite_verb, is_verb, word_set
from summhay_ray.text import FUNCTION_WORDS, MONTHS

WORD = re.compile(r"[^\W\d_](?:[^\W_]|[.\-’'/_](?=\w)|[+#]{1,2}(?!\w))*|\d[\w.]*|[^\w\s]")
_VAGUE_WORDS = """
    addition amount area aspect case change changes combination detail details document documents effort end example fact
    focus form future group impact instance issue issues item items kind level list lot need new number numbers one others
    part parts period place plan plans point problem problems process proposal question reason result results role section
    several side step steps team thing things time times top total type types use user users value values version way ways
    week work year years day days month months hour hours minute minutes percent people person person's today current
    previous next first second third last various itself themselves himself herself myself ourselves yourself everything
    something anything nothing everyone someone anyone different similar certain possible important significant major full
    further additional other same least following particular great good better best large small enough available various many
    general specific existing higher lower given note initial portion term terms remainder sake cause root bug bugs e.g i.e etc vs
"""
_BROAD_WORDS = """
    access approach area areas argument arguments behavior behaviour code component components content contents data
    directory feature features field fields file files function functions goal goals idea information input item line loss
    method methods name names object objects option options output parameter parameters query reason risk section size
    support system systems text tool tools update updates variable variables release releases meeting meetings project projects
    vulnerability vulnerabilities package packages implementation implementations application applications
"""
BROAD = frozenset(_BROAD_WORDS.split())
"""Words that many unrelated statements share."""
_MEASURES = word_set(
    "second seconds minute minutes hour hours day days week weeks month months year years number amount kind type lot part"
)
_DATES = (
    "monday tuesday wednesday thursday friday saturday sunday mondays fridays utc gmt cet cest est edt pst pdt jst today moreover"
)
VAGUE = frozenset((*_VAGUE_WORDS.split(), *_DATES.split(), *map(str.lower, MONTHS)))
"""Words that do not name a subject on their own."""
_BREAKS = word_set("""
    above below around along across inside outside twice once again later soon already still ever itself themselves time times
    true false rather instead together even well more two three four five six seven eight nine ten eleven twelve
    """)
"""Words that are not part of a noun phrase, in addition to function words."""
_DESCRIBES = re.compile(r"(?:ly|ous|ive|able|ible|ful|less|ish|ized|ised|ary|ical|ant|ent|ing|ed|er than)$")
"""Word endings that usually do not end a noun phrase; "-ment" and such do."""
_ENDS_ONE = re.compile(
    r"(?:ment|event|agent|client|content|component|deployment|meeting|building|monitoring|processing|routing|training|testing"
    r"|directive|library|summary|archive|binary|boundary|parent|incident|variant|string|setting|mapping|warning|binding|pricing)$"
)
_SINGULAR = re.compile(r"[^s.]$|(?:ss|us|is)$")
_BODY = re.compile(
    r" (?:Agency|Bank|Board|Campaign|Commission|Committee|Conference|Council|Department|Foundation|Fund|Group|Initiative|Ministry"
    r"|Office|Program|Programme|Project|Summit|Team|Union|University)$"
)
"""Names of two words or more that take an article."""
_FRONTED = word_set("""
    in on at during for after before when whenever while if because although though since with without by to due given as under
    from rather instead unlike like once whereas despite until through via per according between among within upon over however
    also additionally furthermore moreover therefore finally note hence thus so then but and or yet nevertheless nonetheless
    meanwhile similarly likewise consequently otherwise technically generally hopefully currently previously
    """)
"""Words that begin what precedes a subject."""
_OPEN = word_set("a an the all any both each every many most no several some our their its his her two three four five")
"""Function words and numerals that may begin a subject or an object."""
_BE = word_set("is are was were be been being am")
_HAVE = word_set("has have had")
_MODALS = word_set("can could may might must shall should will would")
_DO = word_set("do does did")
_ADVERBS = word_set("also now still only never always often currently already then just even again not soon")
_PARTICIPLES = word_set("""
    begun broken chosen drawn driven fallen forgotten given gone grown hidden known run seen set shown shut split spoken taken
    thrown torn withdrawn worn written built cut hit put read sent spent done
    """)
_NO_PARTICIPLES = word_set("following something anything nothing everything during interesting willing missing")
_NO_OBJECT = word_set("""
    appear arrive be become begin come continue exist fail fall feel get give go happen keep lead leave let make mean occur prove
    put remain result rise run seem set sit start stay stop take tend turn work want try wait need
    """)
"""Verbs whose object, asked for by "What ...?", makes no good question."""
_PLACED = word_set(
    "confirmed deployed described discussed documented held held hosted kept listed located published shared stored"
)
_REASON = re.compile(
    r",? ?\b(?:because|due to|owing to|as a result of|caused by|thanks to|for (?:the )?(?:lack|sake|want) of"
    r"|so that|in order to|(?<!s )after (?!\d|an? \w+ (?:hour|day|week|month)))",
    re.IGNORECASE,
)
_DIRECTS = word_set("""
    advise allow ask cause enable encourage expect force help intend invite lead let need permit plan require tell urge want
    """)
"""Verbs after whose object an infinitive is no purpose."""
_PHRASAL = re.compile(
    r"(?:depend|rely|focus|insist|agree|operate|work) (on) |consist (of) |(?:suffer|benefit|differ|derive|recover) (from) "
    r"|(?:deal|comply|interfere) (with) |(?:result|participate|land) (in) |(?:lead|apply|refer|belong|contribute|conform) (to) "
)
_CHANGES = word_set("climb decline decrease drop fall grow increase rise shrink")
_NO_SUBJECT = re.compile(r"[,;:“”]| [-–—] |\b(?:which|whom|whose|what)\b")
_HAPPENS = word_set("""
    break cease collapse crash decline decrease degrade disappear drop fail fall increase leak overflow restart resume rise stop
    """)
"""Verbs about which one asks why."""
_SAID = word_set("agree ask argue believe decide discuss note report say think work")
"""Verbs of what people do: nothing happens to them."""
_AIMS = re.compile(r"(?:goal|focus|plan|step|idea|purpose|aim|task)s?\b", re.IGNORECASE)
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
WORKS, _PEOPLE = (
    "How does {} work",
    word_set("user member team group author owner developer attacker contributor people community"),
)
_FAILS = (
    r"fail\w*|outages?|incidents?|disrupt\w*|crash\w*|unavailable|degrad\w*|breach\w*|broke|broken|lost|overload\w*|corrupt\w*"
)
KINDS: tuple[tuple[str, str], ...] = (
    (
        r"vulnerabilit\w+|attackers?|exploit\w*|denial.of.service|xss|disclos\w+|privileges|permissions?",
        "Which vulnerabilities affect {}",
    ),
    (_FAILS + r"|errors?|bugs?|loss(?:es)?|delay\w*|leak\w*|reject\w*|stop(?:s|ped)", "What went wrong with {}"),
    (
        r"decid\w+|approv\w+|agree[ds]?|vot(?:e|ed|es|ing)|elect(?:ed|ion|ions)|consensus|resolved|ratif\w+|adopt(?:ed|s)",
        "What was decided about {}",
    ),
    (
        r"deprecat\w+|remov(?:ed|es)|replac(?:ed|es)|added|adds|introduc(?:ed|es)|renamed"
        r"|chang(?:ed|es)|(?:is|are) now|no longer|moved|dropped|upgrad\w+",
        "What has changed with {}",
    ),
    (r"must|shall|should|requir(?:ed|es)|needs? to|ha(?:s|ve) to", "What is required of {}"),
    (
        r"will|plan(?:s|ned|ning)?|expect(?:ed|s)|upcoming|schedul\w+|intend(?:s|ed)?|takes? place|opens?"
        r"|confirmed|volunteer\w*|hosted",
        "What is planned for {}",
    ),
    (r"propos\w+|should|would|options?|approach\w*|alternatives?|designs?", "What is proposed for {}"),
    (
        r"disadvantage\w*|problem\w*|risk\w*|pitfalls?|concern\w*|difficult\w*|drawbacks?|confus\w+",
        "What are the problems with {}",
    ),
    (r"goals?|aims?|purpose|mission|in order to|so that", "What is the aim of {}"),
    (r"was|were|had|did|(?:has|have) been", "What happened with {}"),
    (r"can|could|may|allows?|enables?|uses?|used|provides?|supports?|returns?|conform\w*|produces?|makes?|gives?|users?", WORKS),
)
"""Kinds of statements: the words that show the kind, and the question about a subject."""
REPORTED = "What is known about {}"
_JOINS = re.compile(r"(?: | (?:of|for|in) (?:(?:the|an?) )?)")
_JOINED_TO = re.compile(
    r"\b(?:(?:user|customer|member|visitor|patient|attacker|site|package)s? with|(?:impact|effect|access(?:e(?=s))?|support"
    r"|approach|attack|response|change|update|request|solution|move|path|transition|migration|upgrade|relationship|integration)s?"
    r" (?:on|to|from|with|between)) (?:(?:the|an?) )?$"
)
"""Links between the parts of a noun phrase: any before "of", some nouns before other prepositions."""
_BEFORE_A_PHRASE = re.compile(
    r"\b(a|an|the|its|their|our|this|his|her|your|my|each|every) ((?:[\w-]+(?:ed|ly|ing) ){0,2})$", re.I
)
_SUBORDINATE = re.compile(
    r"^(?:when(?:ever)?|if|because|although|though|while|since|after|before|once|whereas|given that) ", re.I
)
_COUNTED = re.compile(
    r"\b[Tt]here (are|were) (?:now |currently |about )?(\d[\d,]*|two|three|four|five|six|seven|eight|nine|ten)"
    r" ((?:[\w-]+ ){0,3}[\w-]+s)\b"
)
"""How many there are of something."""
_AUXILIARIES = _BE | _HAVE | _MODALS | _DO
_PARTICLE = 4
"""Maximum words of a complement without an object that a question repeats ("run out of amoxicillin")."""
_MOST_WORDS, _FEWEST = 14, 1.5
"""Maximum words of a subject, and minimum of what it must name; see `Naming.value`."""
_TELLING = 2
"""Minimum that a phrase of several words must name to come before a vague subject."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question without its mark, what it is about, and the words of it that are no part of an answer."""

    subject: str
    text: str
    known: str


@dataclass(frozen=True, slots=True)
class Clause:
    """A statement's main clause. `verb` is the last word of its verb group, `base` that verb's base ("be" if it is a copula)."""

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
        """The clause in the order of a question, with `tail` for its rest: "did payments in Frankfurt fail"."""
        if not self.auxiliaries:
            past = self.verb != self.base and not self.verb.endswith("s")
            do = "did" if past else "do" if self.verb == self.base else "does"
            return " ".join(filter(None, (do, self.subject, self.base, tail)))
        first, *others = self.auxiliaries
        denied = ("not",) if self.negated else ()
        verb = () if self.base == "be" else (self.verb,)
        return " ".join(filter(None, (first, self.subject, *denied, *others, *verb, tail)))


@dataclass(frozen=True, slots=True)
class Naming:
    """What the words of a collection name. `proper`: its names; `common`: words of its topic, which distinguish nothing; both in
    lower case."""

    proper: Collection[str]
    common: Collection[str] = ()

    def is_name(self, word: str) -> bool:
        """Whether a word is a name: usually capitalized, or with capitals or digits inside."""
        return word.lower() in self.proper or bool(re.search(r"\w[A-Z\d]|\w[._]\w", word))

    def value(self, phrase: str) -> float:
        """How much a phrase names: 2 for each name, 1 for each noun, half for a word that many subjects share."""
        value = 0.0
        for word in dict.fromkeys(WORD.findall(phrase)):
            word = re.sub(r"['’]s$", "", word)
            lower = word.lower()
            if lower in FUNCTION_WORDS or lower in _BREAKS or not lower[:1].isalpha():
                value += 1 if lower[:1].isdigit() and value >= 1 else 0
            elif lower in self.common or lower in VAGUE or lower in BROAD:
                value += 0.5
            else:
                described = _DESCRIBES.search(lower) and not _ENDS_ONE.search(lower)
                value += 2 if self.is_name(word) else 0.5 if described else 1
        return value


def read_clause(text: str, naming: Naming) -> Clause | None:
    """The main clause of a statement; None if its subject or verb is not recognized."""
    text = re.sub(r"\s*\([^)]*\)", "", _whole(text)).strip().rstrip(".")
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
    group, rest = _verb_group(text[found.start() :])
    if len(group) == 1 and group[0].lower() not in _AUXILIARIES and rest.split(" ", 1)[0] in _AUXILIARIES:
        words, (group, rest) = [*words, group[0]], _verb_group(rest)
    # "Items recorded in the log were lost": a participle after the subject's noun is not the verb.
    if len(group) == 1 and group[0].endswith("ed") and re.match(r"(?:in|by|on|for|from|to|with|at|as|about) ", rest):
        later = re.search(r"^[^,;:]*?\b(?:is|are|was|were|has|have|had|will|can|should|must|would|could|may|might)\b", rest)
        if later and not re.search(r"\b(?:that|which|who|when|if|because|while|where|and|or|but|as|what|how)\b", later[0]):
            cut = len(text) - len(rest) + later.end() - len(later[0].split()[-1])
            words, (group, rest) = text[:cut].split(), _verb_group(text[cut:])
    while len(words) > 1 and (words[-1].lower() in _ADVERBS or re.search(r"[a-z]ly$", words[-1])):
        words.pop()
    spoken = [word.lower() for word in group if word.lower() not in _ADVERBS and not (word.endswith("ly") and word not in BASES)]
    if not words or not spoken or len(words) > _MOST_WORDS or _NO_SUBJECT.search(" ".join(words)):
        return None
    start = words[0].lower()
    if (start in FUNCTION_WORDS and start not in _OPEN) or start in _FRONTED:
        return None
    *auxiliaries, verb = spoken
    if any(word not in _AUXILIARIES for word in auxiliaries):
        return None
    if verb in _BE:
        auxiliaries, base = [*auxiliaries, verb], "be"
    else:
        base = "have" if verb in _HAVE else BASES.get(verb, "" if not auxiliaries else verb)
    gerund = len(words) == 1 and words[0].endswith("ing") and not auxiliaries and verb.endswith("ed")
    if not base or base in FUNCTION_WORDS - {"be", "have"} or gerund:
        return None
    following = words[1:2] + words[2:3] if words[1:2] == ["and"] else words[1:2]
    named = naming.is_name(re.sub(r"['’]s$", "", words[0])) or any(word[0].isupper() for word in following)
    if start in _OPEN or not named or start.split("-")[0] in FUNCTION_WORDS:
        words[0] = words[0].lower()
    return Clause(lead, " ".join(words), tuple(auxiliaries), verb, base, rest, "not" in (word.lower() for word in group))


def _verb_group(text: str) -> tuple[list[str], str]:
    """The auxiliaries, adverbs and verb at the beginning of a text, and what follows."""
    words = text.split(" ")
    group: list[str] = []
    held = ""
    """The last auxiliary."""
    for word in words:
        lower = word.lower()
        if lower in _AUXILIARIES or lower in _ADVERBS or (group and re.search(r"[a-z]ly$", lower)):
            group.append(word)
            held = lower if lower in _AUXILIARIES else held
            continue
        plain = lower.strip(",;:")
        participle = re.search(r"(?:ed|ing)$", plain) or plain in _PARTICIPLES or BASES.get(plain, plain) != plain
        if not held or held in _MODALS or held in _DO or (participle and plain not in _NO_PARTICIPLES):
            group.append(word)
        break
    ended = bool(group) and group[-1][-1] in ",;:"
    return [word.strip(",;:") for word in group], "" if ended else " ".join(words[len(group) :])


def runs(text: str, naming: Naming, verbs: Collection[int] = ()) -> Iterator[tuple[list[str], int, int]]:
    """The base noun phrases of a statement: the words (names as written), and where they begin and end in the text.

    `verbs`: where the finite verbs begin, if known; then no other word in -s counts as one.
    """
    found = [*WORD.finditer(text)]
    tokens = [match.group() for match in found]
    run: list[str] = []
    begin = 0
    for place, (before, token, after) in enumerate(zip(["", *tokens], tokens, [*tokens[1:], ""], strict=False)):
        word = token.removesuffix("'s").removesuffix("’s")
        lower = word.lower()
        titled = place > 0 and word[0].isupper() and after[:1].isupper() and before[:1].isalpha()
        name = titled or lower in naming.proper or any(letter.isupper() for letter in word[1:])
        verb = not name and "-" not in lower and is_verb(lower, before.lower(), after.lower())
        verb = found[place].start() in verbs or (verb and not (verbs and lower.endswith("s") and lower not in NEVER_NOUNS))
        verb = verb or lower in _ADVERBS or (lower in _PARTICIPLES and lower[-1] in "ne")
        breaks = (
            not word[0].isalpha()
            or (lower in FUNCTION_WORDS and not titled)
            or lower in _BREAKS
            or verb
            or any(mark in word for mark in "’'/")
        )
        # A name and the common noun before it are two phrases; after it they are one ("Redis cluster").
        if run and (breaks or (name and run[-1] == run[-1].lower())):
            yield run, begin, found[place - 1].end()
            run = []
        if not breaks:
            begin = begin if run else found[place].start()
            run.append(word if name else lower)
        if run and (token != word or lower.endswith("ly")):
            yield run, begin, found[place].start() + len(word)
            run = []
    if run:
        yield run, begin, found[-1].end()


def _whole(text: str) -> str:
    """A statement without the brackets around it."""
    return re.sub(r"^\(([^()]*)\)?\.?$", r"\1", text)


def ends_a_phrase(word: str) -> bool:
    """Whether a noun phrase may end with a word: a name, or a word without the ending of an adjective or a participle."""
    return word != word.lower() or not _DESCRIBES.search(word) or bool(_ENDS_ONE.search(word))


def phrases(text: str, naming: Naming) -> list[str]:
    """The noun phrases of a statement that name something, most telling first, with what belongs to them ("X of the Y")."""
    text = re.sub(r"\s*\([^)]*\)|(?<!\w)[@_`*]+", "", _whole(text))
    parts = [(0, text), *((match.end(), text[match.end() :]) for match in re.finditer(r"[,;:] ", text))]
    verbs = {begin + found.start() for begin, part in parts if (found := finite_verb(part)) is not None}
    joined: list[tuple[int, int]] = []
    for words, begin, end in runs(text, naming, verbs):
        ends = ends_a_phrase(words[-1]) or (len(words) > 2 and words[-1].endswith("ing"))
        measure = len(words) == 1 and words[0].lower() in _MEASURES
        if not ends or measure or (len(words[-1]) < 3 and not naming.is_name(words[-1])):
            continue
        numbered = naming.is_name(words[-1]) or _SINGULAR.search(words[-1])
        version = re.match(r" (?:\d+\.[\w.]*\w|\d+\b(?! \w+s\b)|[A-Z]\b)", text[end:]) if numbered else None
        end += version.end() if version else 0
        link = text[joined[-1][1] : begin] if joined else "."
        joins = (_JOINS.fullmatch(link) or (joined and _JOINED_TO.search(text[joined[-1][0] : begin]))) and words[0][-3:] != "ing"
        if joins and len(text[joined[-1][0] : end].split()) <= _MOST_WORDS:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((begin, end))
    listed = []
    for place, (begin, end) in enumerate(joined):
        phrase = text[begin:end]
        value = naming.value(phrase)
        if len(phrase) < 2 or (value < _FEWEST and not naming.is_name(phrase)):
            continue
        before = _BEFORE_A_PHRASE.search(text[:begin])
        if before:
            article = before[1].lower() if before[1].lower() in ("a", "an", "the") else "the"
            phrase = f"{article} {before[2]}{phrase}"
        elif owner := re.search(r"[A-Z][\w.-]*['’]s $", text[:begin]):
            phrase = f"{owner[0]}{phrase}"
        elif phrase[0].islower() and re.search(r"\w $", text[:begin]) and text[:begin].split()[-1].lower() not in FUNCTION_WORDS:
            phrase = with_article(phrase)
        elif (
            phrase.split()[0].lower() in _OPEN
            or not naming.is_name(phrase.split()[0])
            and not any(word[0].isupper() for word in phrase.split()[1:])
        ):
            phrase = f"{phrase[0].lower()}{phrase[1:]}"
        listed.append((-min(value, 4), place, phrase))
    return [phrase for _, _, phrase in sorted(listed)]


def with_article(subject: str) -> str:
    """A noun phrase in the form used in a question: "the label printer", "badge readers", "Frankfurt"."""
    last = subject.split()[-1]
    if last.startswith("“"):
        return subject
    if _BODY.search(subject):
        return f"the {subject}"
    plain = last == last.lower() and not re.search(r"[\d._]", last)
    return f"the {subject}" if plain and _SINGULAR.search(last) else subject


def formed(kind: str, subject: str) -> str:
    """A question of a kind about a subject, with the verb in the subject's number: people do what things are used for."""
    last = subject.split()[-1].lower()
    if kind == WORKS and last.removesuffix("s") in _PEOPLE:
        return f"What can {subject} do"
    return (kind if _SINGULAR.search(last) else kind.replace("How does", "How do")).format(subject)


def ask(text: str, naming: Naming) -> Iterator[Question]:
    """Questions that a statement answers, best first."""
    clauses = [clause for clause in (read_clause(text, naming),) if clause is not None]
    lead = clauses[0].lead if clauses else text.split(",", 1)[0]
    clauses += [clause for clause in (read_clause(_SUBORDINATE.sub("", lead), naming),) if clause is not None]
    counted = _COUNTED.search(text)
    if counted:
        yield Question(counted[3], f"How many {counted[3]} {counted[1]} there", counted[3])
    vague: list[Question] = []
    for clause in clauses:
        month = MONTH.search(f"{clause.lead} {clause.rest}")
        when = f" in {month[1]} {month[2]}" if month else ""
        subject = f"{clause.subject}{when}"
        if _refers(subject):
            continue
        kind = kind_of(f"{' '.join(clause.auxiliaries)} {clause.verb}")
        asked = [
            Question(subject, question + when * (question[:4] != "When"), f"{subject} {known}")
            for known, question in (*_of_clause(clause), *([("", kind.format(clause.subject))] if kind != REPORTED else ()))
        ]
        if naming.value(clause.subject) >= _FEWEST:
            yield from asked
        elif any(naming.is_name(word) for word in clause.subject.split()):
            # What the collection is about does many things: "What did Rust use?" says nothing.
            yield from (one for one in asked if one.text.startswith(("What is ", "What are ", "Why ")))
        else:
            vague += asked
    named = phrases(text, naming)
    several = [phrase for phrase in named if " " in re.sub("^(?:the|an?) ", "", phrase) and naming.value(phrase) >= _TELLING]
    yield from (Question(one, REPORTED.format(one), one) for one in several)
    yield from vague
    yield from (Question(one, REPORTED.format(one), one) for one in named)


def _refers(subject: str) -> bool:
    """Whether a subject is understood only from the text before."""
    words = r"(?:this|these|those|that|such|it|its|their|his|her|our|we|they|there|the (?:following|above|same|other))\b"
    return bool(re.match(words, subject, re.IGNORECASE))


def kind_of(*texts: str, kinds: Sequence[tuple[str, str]] = KINDS) -> str:
    """The question about the first kind that most of the texts share; `REPORTED` if they share none, or deny something."""
    if 2 * sum(bool(re.search(r"\bnot\b|n[’']t\b", text)) for text in texts) > len(texts):
        return REPORTED
    for words, asked in kinds:
        if 2 * sum(bool(re.search(rf"\b(?:{words})\b", text, re.IGNORECASE)) for text in texts) > len(texts):
            return asked
    return REPORTED


def _of_clause(clause: Clause) -> Iterator[tuple[str, str]]:
    """The questions about a clause whose subject names something, best first, each with the words besides the subject that are no
    part of the answer."""
    rest, base, verb = clause.rest, clause.base, f"{clause.verb} {clause.base}"
    object_ = base not in _NO_OBJECT and _object(rest)
    if clause.negated:
        if object_:
            yield verb, f"What {clause.asked('')}"
        return
    reason, period, dated = _REASON.search(rest[:80]), _PERIOD.search(rest), _DATED.search(rest)
    if reason and not re.match(r"that |as |to ", rest):
        before = _DATED.sub("", _PERIOD.sub("", rest[: reason.start()])).strip()
        short = _short(rest[: reason.start()], base) or ("" if "," in before or len(before.split()) > _PARTICLE else before)
        if not re.search(r"\d", short) and (short or clause.passive or base in _HAPPENS or reason.start() == 0):
            yield f"{verb} {short}", f"Why {clause.asked(short)}"
    infinitive = re.match(r"to (\w+) (?:the|a|an|its|their|all|any|no|our|more|\w+s)\b", rest)
    follows = f"to {infinitive[1]}" if infinitive and infinitive[1] in BASES else ""
    onward = re.match(r"to (\w+)\b", rest)
    past = clause.verb in ("was", "were") or (clause.verb != base and not clause.verb.endswith("s"))
    if (period or _PERIOD.match(clause.lead)) and past and not clause.verb.endswith("ing"):
        short = _short(rest[: period.start()] if period else rest, base)
        yield f"{verb} {short}", f"How long {clause.asked(short)}"
    if dated and (clause.passive or (clause.verb.endswith("ing") and base != "be") or clause.auxiliaries[:1] == ("will",)):
        short = _short(rest[: dated.start()], base) or follows or (onward[0] if onward and onward[1] in BASES else "")
        yield f"{verb} {short}", f"When {clause.asked(short)}"
    several = re.match(r"(?:several|many|some|various|few|multiple) ((?:[\w-]+ )?[\w-]+s)\b", rest) if base == "have" else None
    phrasal = _PHRASAL.match(f"{base} {rest}")
    if clause.passive:
        if clause.verb in _PLACED and re.match(r"(?:in|on|at) ", rest):
            yield verb, f"Where {clause.asked('')}"
        elif re.match(r"by (?:(?:Dr|Mr|Mrs|Ms)\. )?[A-Z]", rest):
            yield verb, f"By whom {clause.asked('')}"
        elif rest.startswith("as "):
            yield verb, f"What {clause.asked('as')}"
        elif follows:
            yield f"{verb} {follows}", f"What {clause.asked(follows)}"
        elif (
            rest
            and not (onward and onward[1] in BASES)
            and clause.auxiliaries[0] not in ("must", "should", "shall", "may", "might")
        ):
            yield verb, f"How {clause.asked('')}"
        elif past and not rest:
            yield "", f"What happened to {clause.subject}"
    elif base in _CHANGES and re.match(r"(?:from|by|to) [^,;]*\d", rest):
        yield verb, f"By how much {clause.asked('')}"
    elif base == "be" and (placed := re.match(r"(?:available|visible|documented) (?=(?:in|on|at|from) )", rest)):
        yield f"{verb} {placed[0]}", f"Where {clause.asked(placed[0].strip())}"
    elif base == "be" or (clause.verb.endswith("ing") and _AIMS.search(clause.subject)):
        article = re.match(r"(?:an?|the) |[A-Z]", rest) or base != "be"
        if article and clause.auxiliaries[-1] in ("is", "are", "be"):
            yield "", f"What {' '.join((clause.auxiliaries[0], clause.subject, *clause.auxiliaries[1:]))}"
    elif several:
        yield several[1], f"What {several[1]} {clause.asked('')}"
    elif follows:
        yield f"{verb} {follows}", f"What {clause.asked(follows)}"
    elif object_:
        purpose = re.search(r" (?:in order )?to (\w+) ", rest)
        aimed = purpose and BASES.get(purpose[1]) == purpose[1] and base not in _DIRECTS
        thing = _short(rest[: purpose.start()], base) if purpose else ""
        if aimed and thing and not re.match(r"(?:how|what|whether|which|why|that) ", thing):
            yield f"{verb} {thing}", f"Why {clause.asked(thing)}"
        yield verb, f"What {clause.asked('')}"
    elif phrasal is not None:
        yield verb, f"What {clause.asked(phrasal[phrasal.lastindex or 0])}"
    elif past and not clause.auxiliaries and base not in _SAID:
        yield "", f"What happened to {clause.subject}"


def of_clauses(clauses: Sequence[Clause], shortest: Clause) -> Iterator[tuple[str, str]]:
    """The questions that several clauses with one subject and verb answer. `shortest`: the clause with the shortest subject."""
    verb = f"{shortest.verb} {shortest.base}"
    kind = kind_of(shortest.base, shortest.verb)
    rests = [clause.rest for clause in clauses]
    if shortest.base == "be":
        if shortest.auxiliaries in (("is",), ("are",)) and all(re.match(r"(?:an?|the) ", rest) for rest in rests):
            yield "", f"What {shortest.auxiliaries[0]} {shortest.subject}"
    elif shortest.base in _HAPPENS or (shortest.passive and any(_REASON.search(rest[:80]) for rest in rests)):
        yield verb, f"Why {shortest.asked('')}"
    elif shortest.passive:
        yield verb, f"What happened to {shortest.subject}"
    elif all(_object(clause.rest) and not clause.negated for clause in clauses) and shortest.base not in _NO_OBJECT:
        yield verb, f"What {shortest.asked('')}"
    if kind != REPORTED:
        yield verb, kind.format(shortest.subject)


def _object(rest: str) -> bool:
    """Whether the words after a verb begin with its object, or with the clause that is its object."""
    first = rest.split(" ", 1)[0].lower()
    if not first or not first[0].isalnum() or first in _ADVERBS or first.endswith("ly"):
        return False
    return first in _OPEN or first not in FUNCTION_WORDS or first in ("how", "what", "whether", "which", "why", "that")


def _short(rest: str, base: str) -> str:
    """The beginning of a complement that keeps a question complete: an object or an adjective, without what is added to it."""
    if base != "be" and not _object(rest):
        return ""
    found = re.match(
        r"[^,;:]*?(?=,|;|:| (?:in|on|at|for|from|by|with|to|after|before|during|until|that|which|and|but)\b|$)", rest
    )
    words = found[0].split() if found else []
    if len(words) > 1 and words[-1].endswith("ed") and found and re.match(r" \w", rest[found.end() :]):
        words.pop()
    return " ".join(words) if len(words) <= _MOST_WORDS // 2 else ""
