"""Finds the noun phrases of English statements, and computes how much each of them names."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from summhay_ray.mine.verbs import BASES, NEVER_NOUNS, finite_verb, is_verb, word_set
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
_DATES = """
    monday tuesday wednesday thursday friday saturday sunday mondays fridays utc gmt cet cest est edt pst pdt jst today moreover
    jan feb mar apr jun jul aug sep sept oct nov dec
"""
VAGUE = frozenset((*_VAGUE_WORDS.split(), *_DATES.split(), *map(str.lower, MONTHS)))
"""Words that do not name a subject on their own."""
BREAKS = word_set("""
    above below around along across among including inside outside whenever twice once like again later soon already still ever
    itself themselves true false rather instead together even well more almost nearly quite too ago thus hence two three four five
    six seven eight nine ten eleven twelve hundred thousand million billion off out up down away due back online offline
    """)
"""Words that are not part of a noun phrase, in addition to function words."""
_DESCRIBES = re.compile(r"(?:ly|ous|ive|able|ible|ful|less|ish|ized|ised|ary|ical|ant|ent|iar|ing|ed|er than)$")
"""Matches word endings that usually do not end a noun phrase; "-ment" and similar endings do."""
_ENDS_ONE = re.compile(
    r"(?:ment|event|agent|client|content|component|deployment|meeting|building|monitoring|processing|routing|training|testing"
    r"|directive|library|summary|archive|binary|boundary|parent|incident|variant|string|setting|mapping|warning|binding|pricing)$"
)
SINGULAR = re.compile(r"[^s.]$|(?:ss|us|is)$")
OPEN = word_set("a an the all any both each every many more most no several some our their its his her two three four five")
"""Function words and numerals that may begin a subject or an object."""
ADVERBS = word_set("also now still only never always often currently already then just even again not soon")
PARTICIPLES = word_set("broken drawn driven forgotten given hidden known run seen set shown written cut hit put sent spent done")
_JOINS = re.compile(r"(?: | (?:of|for|in) (?:(?:the|an?) )?)")
_JOINED_TO = re.compile(
    r"\b(?:(?:user|customer|member|visitor|patient|attacker|site|package)s? with|(?:impact|effect|access(?:e(?=s))?|support"
    r"|approach|attack|response|change|update|request|solution|move|path|transition|migration|upgrade|relationship|integration)s?"
    r" (?:on|to|from|with|between)) (?:(?:the|an?) )?$"
)
_LINK = re.compile(r" (?:on|to|from|with|between) (?:(?:the|an?) )?")
"""Matches links between the parts of a noun phrase: "of" after any noun, other prepositions after certain nouns."""
_SPEAKER = re.compile(
    r"^(?:(?:\[[^\[\]]{1,40}\] ?)+:? ?|[A-Z][\w'’.-]*(?: [\w.'’-]+){0,2}(?: \([^()]*\))?: )(?=[A-Z])"
    r"|^[A-Z][a-z]+ [A-Z][a-z]+: "
)
_BEFORE_A_PHRASE = re.compile(
    r"\b(a|an|the|its|their|our|this|his|her|your|my|each|every) ((?:[\w-]+(?:ed|ly|ing) ){0,2})$", re.I
)
_DETERMINED = re.compile(
    r"\b(?:a|an|the|its|their|our|his|her|your|my|each|every|any|no|some|all|new|of|for|in|on|from|about|without) $",
    re.I,
)
_SUBORDINATE = re.compile(r"\b(?:as|when|while|if|because|since|once|until|unless|where|that) (?:(?:the|an?|its|their) )?$", re.I)
"""Words before the subject of a clause: in "as the dust settles", the last word is a verb."""
_VERSION = re.compile(r"[vV]\d+(?:\.|$)")
"""Matches a version, which names nothing without its product."""
MOST_WORDS, FEWEST = 14, 1.5
"""Maximum number of words in a subject, and minimum value of a subject; see `Naming.value`."""


@dataclass(frozen=True, slots=True)
class Naming:
    """What the words of a collection name, all in lower case. `proper`: its names; `common`: words of its topic, which do not
    distinguish anything."""

    proper: Collection[str]
    common: Collection[str] = ()

    def is_name(self, word: str) -> bool:
        """Whether a word is a name: it is usually capitalized, or has capitals or digits inside."""
        return word.lower() in self.proper or bool(re.search(r"\w[A-Z\d]|\w[._]\w", word) and not _VERSION.match(word))

    def value(self, phrase: str) -> float:
        """Return how much a phrase names: 2 for each name, 1 for each noun, 0.5 for a word that many subjects share."""
        value, last = 0.0, ""
        for word in dict.fromkeys(WORD.findall(phrase)):
            word = re.sub(r"['’]s$", "", word)
            lower = word.lower()
            numbered = lower[:1].isdigit() or _VERSION.match(lower)
            if lower in FUNCTION_WORDS or lower in BREAKS or numbered or not lower[:1].isalpha():
                value += 2 if numbered and value and (last not in VAGUE or "." in lower) else 0
            elif lower in self.common or lower in VAGUE or lower in BROAD:
                value += 0.5
            else:
                described = _DESCRIBES.search(lower) and not _ENDS_ONE.search(lower)
                value += 2 if self.is_name(word) else 0.5 if described else 1
            last = lower
        return value


def stated(text: str) -> str:
    """Return a statement without enclosing brackets, and without a speaker or a label before it ("POLL: ", "[Ann] ")."""
    bare = re.sub(r"^\(([^()]*)\)?\.?$", r"\1", text)
    return _SPEAKER.sub("", bare)


def runs(text: str, naming: Naming, verbs: Collection[int] = ()) -> Iterator[tuple[list[str], int, int]]:
    """Yield the base noun phrases of a statement: the words (names as written), and their begin and end in the text. A number
    belongs to the name before it.

    `verbs`: the offsets of the finite verbs, if known. If they are not, words that end in -s may be taken for verbs.
    """
    found = [*WORD.finditer(text)]
    tokens = [match.group() for match in found]
    run: list[str] = []
    begin = 0
    for place, (before, token, after) in enumerate(zip(["", *tokens], tokens, [*tokens[1:], ""], strict=False)):
        word = token.removesuffix("'s").removesuffix("’s")
        lower = word.lower()
        after_name = run and run[-1] != run[-1].lower() and run[-1].lower() not in VAGUE
        if after_name and word[0].isdigit() and found[place].start() == found[place - 1].end() + 1:
            yield [*run, word.rstrip(".")], begin, found[place].start() + len(word.rstrip("."))
            run = []
            continue
        titled = place > 0 and word[0].isupper() and after[:1].isupper() and before[:1].isalpha()
        name = titled or lower in naming.proper or any(letter.isupper() for letter in word[1:])
        name = name or bool(re.match(r"[A-Z]\w*\.\w", word))
        verb = not name and "-" not in lower and is_verb(lower, before.lower(), after.lower())
        verb = found[place].start() in verbs or (verb and not (verbs and lower.endswith("s") and lower not in NEVER_NOUNS))
        verb = verb or lower in ADVERBS or lower in PARTICIPLES
        breaks = (
            not word[0].isalpha()
            or (lower in FUNCTION_WORDS and not titled)
            or lower in BREAKS
            or verb
            or any(mark in word for mark in "’'/")
        )
        # A common noun and a following name are two phrases; a name and a following common noun are one ("Redis cluster").
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


def is_noun_phrase(run: Sequence[str], before: str) -> bool:
    """Whether a run of words is a noun phrase, and not a verb with its object or subject ("improve clarity", "apps consume").
    `before`: the text before it."""
    first, last = run[0].lower(), run[-1]
    if before.endswith("by ") or (len(run) == 1 and len(last) > 5 and last.endswith("ly")):
        return False
    if last == last.lower() and not last[0].isdigit():
        noun_in_ing = len(run) > 2 and last.endswith("ing") and not any(word[0].isupper() for word in run)
        if _DESCRIBES.search(last) and not _ENDS_ONE.search(last) and not noun_in_ing:
            return False
        if len(run) > 1 and last.endswith("s") and BASES.get(last, last) != last and _SUBORDINATE.search(before):
            return False
        if len(run) > 1 and run[-2][-1] == "s" and BASES.get(last) == last:
            return False
    acts = len(run) > 1 and run[0] == first and first in BASES and not first.endswith(("ed", "ing"))
    return not (acts and (first in NEVER_NOUNS or run[-1].endswith("s") or not _DETERMINED.search(before)))


def phrases(text: str, naming: Naming) -> list[str]:
    """Return the noun phrases of a statement that name something, most specific first, with their complements ("X of the Y")."""
    text = re.sub(r"\s*\([^)]*\)|(?<!\w)[@_`*]+", "", stated(text))
    parts = [(0, text), *((match.end(), text[match.end() :]) for match in re.finditer(r"[,;:] ", text))]
    verbs = {begin + found.start() for begin, part in parts if (found := finite_verb(part)) is not None}
    joined: list[tuple[int, int]] = []
    for words, begin, end in runs(text, naming, verbs):
        if not is_noun_phrase(words, text[:begin]) or (len(words[-1]) < 3 and not naming.is_name(words[-1]) and len(words) < 2):
            continue
        link = text[joined[-1][1] : begin] if joined else "."
        whole = link == " " or " of " in link or (joined and naming.value(text[slice(*joined[-1])]) >= 1)
        linked = _LINK.fullmatch(link) and _JOINED_TO.search(text[joined[-1][0] : begin])
        joins = ((whole and _JOINS.fullmatch(link)) or linked) and words[0][-3:] != "ing"
        if joins and len(text[joined[-1][0] : end].split()) <= MOST_WORDS:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((begin, end))
    listed = []
    for place, (begin, end) in enumerate(joined):
        phrase = text[begin:end]
        value = naming.value(phrase)
        if len(phrase) < 2 or (value < FEWEST and not naming.is_name(phrase)):
            continue
        before = _BEFORE_A_PHRASE.search(text[:begin])
        if before:
            article = before[1].lower() if before[1].lower() in ("a", "an", "the") else "the"
            phrase = f"{article} {before[2]}{phrase}"
        elif owner := re.search(r"[A-Z][\w.-]*['’]s $", text[:begin]):
            phrase = f"{owner[0]}{phrase}"
        elif phrase[0].islower() and re.search(r"\w $", text[:begin]) and text[:begin].split()[-1].lower() not in FUNCTION_WORDS:
            phrase = with_article(phrase)
        elif not naming.is_name(phrase.split()[0]) and not any(word[0].isupper() for word in phrase.split()[1:]):
            phrase = f"{phrase[0].lower()}{phrase[1:]}"
        listed.append((-min(value, 4), place, phrase))
    return [phrase for _, _, phrase in sorted(listed)]


def with_article(subject: str) -> str:
    """Return a noun phrase in the form used in a question: "the label printer", "badge readers", "Frankfurt"."""
    last = subject.split()[-1]
    plain = last == last.lower() and not re.search(r"[\d._”]", last)
    return f"the {subject}" if plain and SINGULAR.search(last) else subject
