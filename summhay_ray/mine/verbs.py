"""Recognizes English verbs by a list and by the surrounding words."""

import itertools
import re
from collections.abc import Mapping, Sequence

from summhay_ray.text import FUNCTION_WORDS


def word_set(text: str) -> frozenset[str]:
    """Return the words of a list that is written as text."""
    return frozenset(text.split())


_VERBS = """
    abandon accept access accompany accumulate accuse achieve acknowledge acquire act activate adapt add address adjust
    admire admit adopt advance advise affect agree align allocate allow alter amend announce apologize appear apply
    appreciate approve argue arise arrest arrive ask assert assess assign assist assume attach attempt attend attract
    authorize average avoid await ban become begin behave believe belong benefit bind block boost break bring build bump
    bypass calculate call cancel capture carry catch cause cease change charge choose cite claim clarify clean clear close
    coincide collapse collect combine come commit communicate compare compete compile complain complete comprise compute
    conclude configure confirm conflict conform confuse connect consider consist construct consume contain continue
    contribute convert convince coordinate copy correct correlate cost count cover crash create criticize cut damage deceive
    decide declare decline decrease defer define degrade delay delete deliver demand demonstrate deny depart depend deploy
    deprecate derive describe deserve destroy detect deteriorate determine develop deviate differ disable disagree disappear
    discard discontinue discover discuss dislike dismiss display disrupt distribute disturb double downgrade draw drive drop
    educate elect eliminate embarrass emerge emit emphasize employ enable encounter encourage enforce engage enhance enjoy
    ensure enter entertain escalate establish estimate evaluate evolve examine exceed exclude execute exhaust exhibit exist
    expand expect experience expire explain explode explore export expose express extend extract face facilitate fail fall
    favor favour feature feel fetch fill finalize find finish fit fix flag flow focus follow forbid force forget forgive
    form gain gather generate get give go govern grant grow guarantee halt handle hang happen hear help hide highlight hire
    hit hold host identify ignore illustrate imagine impact impair implement imply import impose improve include incorporate
    increase incur indicate inform inherit initialize initiate inject injure insist inspect inspire install instruct insure
    integrate intend interact interfere interpret interrupt introduce invalidate invent invest investigate invite invoke
    involve isolate join justify keep kill know lack land last launch lead leak learn leave let lie lift limit list listen
    live load locate lock lose lower maintain make manage marry match matter mean measure meet mention merge migrate
    minimize miss mitigate modify monitor move multiply need negotiate note notice notify obey observe obtain occupy occur
    offer omit open operate oppose optimize organize originate outline overcome overflow overload override overwhelm own
    participate pass patch pause pay peak perform permit persist persuade plan point pose postpone precede predict prefer
    prepare prescribe present preserve pretend prevent proceed produce prohibit promise promote prompt propagate propose
    protect prove provide publish pull punish purchase pursue push put raise range reach react read realize rebuild receive
    recognize recommend recover rectify redirect reduce refer reflect refuse register reinforce reject relate rely remain
    remember remind remove rename render replace replicate reply report represent reproduce request require resemble reset
    resign resist resolve respond restart restore restrict result resume retain retire retrieve return reveal revert review
    revise rise roll rotate run satisfy save say schedule see seek seem select sell send separate serve set settle shift
    ship show shrink shut simplify sit skip slow solve spawn speak specialize specify spend split sponsor spread stabilize stall
    stand start state stay steal stop store strengthen strike struggle submit succeed suffer suggest supply support suppose
    suppress surge surpass surround survive suspend switch take talk target tell tend terminate terrify think threaten
    throttle throw tie track transfer transform translate transmit treat trigger trust try turn undergo understand undertake
    unify unite unlock update upgrade upload urge use utilize validate vanish vary verify violate visit vote wait want warn
    weaken welcome widen win withdraw work worsen write yield
"""
_PAST_FORMS = """
    arose:arise began:begin became:become bought:buy broke:break brought:bring built:build came:come caught:catch
    chose:choose dealt:deal drew:draw drove:drive fell:fall felt:feel found:find forgot:forget gave:give got:get grew:grow
    held:hold hid:hide hung:hang kept:keep knew:know laid:lay led:lead left:leave lent:lend lost:lose made:make meant:mean
    met:meet paid:pay ran:run rose:rise said:say sank:sink sat:sit saw:see sent:send shrank:shrink sold:sell sought:seek
    spent:spend stood:stand struck:strike swept:sweep taught:teach threw:throw thought:think told:tell took:take
    underwent:undergo understood:understand went:go withdrew:withdraw won:win wrote:write
"""
"""Irregular past forms, each with its base form."""
_AUXILIARIES = word_set("""
    is are was were am has have had do does did can could may might must shall should will would cannot isn't aren't wasn't
    weren't it's that's there's hasn't haven't hadn't don't doesn't didn't can't couldn't mustn't shouldn't won't wouldn't
    """)


def _forms(ending: str) -> dict[str, str]:
    """Return the forms of the listed verbs with `s`, `ed` or `ing`, including doubled consonants ("dropped"), each with its base
    form."""
    made = {}
    for verb in _VERBS.split():
        stem = verb[:-1] + "i" if re.search(r"[^aeiou]y$", verb) else verb
        if ending == "s":
            made[stem + "es" if re.search(r"(?:s|x|z|ch|sh|i|o)$", stem) else stem + "s"] = verb
        else:
            stem = verb if ending == "ing" else stem
            made |= dict.fromkeys((stem.removesuffix("e") + ending, stem + stem[-1] + ending), verb)
    return made


_BASES, _THIRDS, _REGULAR = frozenset(_VERBS.split()), _forms("s"), _forms("ed")
PASTS = dict(pair.split(":") for pair in _PAST_FORMS.split())
BASES: Mapping[str, str] = {**_forms("ing"), **_THIRDS, **_REGULAR, **PASTS, **{verb: verb for verb in _BASES}}
"""Known forms of verbs, each with its base form."""
_SUBJECTS = word_set("i we they you he she it who")
_PREPOSITIONS = word_set("""
    across along alongside amid among amongst around behind beneath beside besides beyond despite except inside like near onto
    outside per regarding throughout toward towards underneath unlike upon versus via within
    """)
"""Prepositions that are not function words."""
_NO_SUBJECT = _PREPOSITIONS | FUNCTION_WORDS - _SUBJECTS - word_set("also only this that there not now") | {"last"}
"""Words after which a past form is a participle or an adjective ("the affected zone", "as expected")."""
_GOVERNED = word_set("""
    a an the this that these those its his her their our my your it them us him to as all both each every no any some many several
    more most one two three
    """)
"""Words before which an ambiguous word is a verb ("plays a role", "aim to")."""
_TO = word_set(
    "aims appears begins continues expects fails intends leads needs plans refers seeks seems starts tends tries wants"
)
"""Verbs that may precede `to`. Other words before `to` are nouns: "changes to the structure"."""
_PAST = re.compile(r"..ed$")
_CAUSES = word_set("help helps helped helping let lets letting make makes made making")
"""Verbs that may have an object and a base form after them: "that helps users meet the rules"."""
_ASIDE = 4
"""Number of words after which a comma may end an insertion after the subject: "The bank, founded in 1983, played a role"."""
NEVER_NOUNS = word_set("""
    refuse refuses adds allows applies becomes comes contains enables ensures exists fails gets gives goes happens improves
    includes introduces involves keeps makes means occurs prevents provides receives remains requires says sees takes allow
    become contain enable ensure exist fail happen include introduce involve occur prevent provide receive remain require
    arrive arrives lose loses disclose discloses appear appears begin begins bring brings choose chooses decide decides
    depend depends describe describes determine determines explain explains follow follows give go know knows make prove
    proves reduce reduces remove removes send sends speak speaks take tell tells think thinks want wants write writes agree
    agrees produce produces conform conforms implements seem seems
""")
_ARTICLES = ("the", "a", "an", "its", "their")
_UNCHANGED = word_set("hit cut put set shut cost spread let split quit")
"""Verbs whose past equals their base form. Before an article, these words are verbs."""
_BEFORE_A_BASE = _SUBJECTS | word_set("to not me us let can could may might must shall should will would cannot")
_AFTER_A_NOUN = word_set("of and or but")
"""Words after which "reports" and "updates" are nouns."""

_RELATIVE = ("who", "which", "that")
_BEFORE_A_PARTICIPLE = _AUXILIARIES | word_set("be been being not also now still only")
_TOKEN = re.compile(r"[^\W\d_]+(?:[’'\-][^\W\d_]+)*|\d[\w.,:%]*|[^\w\s]")


def is_verb(word: str, before: str, after: str) -> bool:
    """Whether a word of an English statement is a verb. Words that may be nouns in this position do not count. All words are in
    lower case."""
    if word in _AUXILIARIES or word in PASTS or word in NEVER_NOUNS or _PAST.search(word):
        return True
    objects = before[:1].isalpha() and before not in FUNCTION_WORDS and after.endswith("s") and not after.endswith("ss")
    objects = objects and after not in FUNCTION_WORDS
    if word in _BASES and (before in _BEFORE_A_BASE or before in _AUXILIARIES or objects):
        return True
    if word in _BASES and after in _ARTICLES and before[:1].isalpha() and before not in FUNCTION_WORDS:
        return True
    return word in _THIRDS and after in FUNCTION_WORDS and after not in _AFTER_A_NOUN and before not in _NO_SUBJECT


def finite_verb(text: str) -> re.Match[str] | None:
    """Return the first finite verb of an English sentence that has a subject before it."""
    found = [*_TOKEN.finditer(text)]
    tokens = [match.group().replace("’", "'") for match in found]
    relative = False
    """Whether a relative clause still lacks its verb, which is not the verb of the sentence."""
    for place, (before, token) in enumerate(itertools.pairwise(["", *tokens])):
        word, last = token.lower(), before.lower()
        if last in _RELATIVE or (relative and last in _BEFORE_A_PARTICIPLE):
            relative = word in _BEFORE_A_PARTICIPLE
            if relative or last in _BEFORE_A_PARTICIPLE or word in BASES or _PAST.search(word):
                continue
        if _is_finite(text, found, place):
            return found[place]
    return None


def _is_finite(text: str, found: Sequence[re.Match[str]], place: int) -> bool:
    """Whether a token is a finite verb; see `finite_verb`."""
    before, token, after = (
        found[one].group().replace("’", "'") if 0 <= one < len(found) else "" for one in range(place - 1, place + 2)
    )
    word, last, following = token.lower(), before.lower(), after.lower()
    if before == "," and not re.search("[,(]", text[: found[place - 1].start()]):
        # In "Low priority, should be easy", one comma does not enclose an insertion.
        return False
    if word == "that's" and last[:1].isalpha() and last not in FUNCTION_WORDS:
        # In "The grammar that's implemented", "that's" begins a relative clause.
        return False
    if word in _AUXILIARIES and last not in ("to", "") and token == word:
        return True
    if word in FUNCTION_WORDS or word in _PREPOSITIONS or token != word or not word[0].isalpha():
        return False
    governs = following in _GOVERNED or following.endswith("ly")
    aside = before in (",", ")") and place > _ASIDE and (governs or (word in BASES or _PAST.search(word)))
    if not aside and (not before or not before[-1].isalnum() or last in _NO_SUBJECT):
        return False
    if word in _UNCHANGED and following in _ARTICLES:
        return True
    if following == "by" and re.match(r"the |[A-Z]", text[found[place].end() + len(" by ") :]):
        # In "Last modified by Ann", "modified" is a participle.
        return False
    if word in PASTS or (_PAST.search(word) and "-" not in word.removeprefix("re-")):
        return True
    if not (following[:1].isalnum() or following in ("$", "€", "£", "¥")) or following in _AFTER_A_NOUN:
        return False
    third = word.endswith("s") and not word.endswith(("ss", "us", "is"))
    plural = aside or last in _SUBJECTS or (last.endswith("s") and not last.endswith("ss"))
    if third and following == "to" and word not in _TO:
        return False
    caused = _CAUSES.intersection(match.group().lower() for match in found[max(0, place - 3) : place])
    plural = plural and not (third or word.endswith("ing") or caused)
    if third and word not in _THIRDS and last.endswith("ing"):
        # In "Contributing examples as tutorials", "examples" is an object.
        return False
    if word in NEVER_NOUNS & _BASES and last not in FUNCTION_WORDS | _BEFORE_A_BASE | BASES.keys():
        return True
    return (third and (governs or word in _THIRDS)) or (plural and ((governs and following != "to") or word in _BASES))
