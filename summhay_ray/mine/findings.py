"""Scores how clearly a sentence is a finding: a statement that a person can understand and check without its document.

The score depends on form: a sentence needs a subject, a finite verb, an end, and content of its own. English verbs are recognized
by a list and by the surrounding words. Other languages are judged without verbs.
"""

import itertools
import re
from collections.abc import Mapping, Sequence

from summhay_ray.text import FUNCTION_WORDS, is_latin


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
_PASTS = """
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
_IRREGULAR = dict(pair.split(":") for pair in _PASTS.split())
BASES: Mapping[str, str] = {**_forms("ing"), **_THIRDS, **_REGULAR, **_IRREGULAR, **{verb: verb for verb in _BASES}}
"""Known forms of verbs, each with its base form."""
_SUBJECTLESS = (_BASES | _REGULAR.keys()) - word_set(
    "associated based given increased limited own plan present access cost damage force"
)
"""First words of sentences without a subject: "Add a test", "Discussed the survey"."""
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
"""Matches words after which a comma may end an insertion after the subject: "The bank, founded in 1983, played a role"."""
_ASIDE_FIRST = re.compile(r", (?!had|have|has|is|are|was|were|will|and|or|but|\w+ed\b)\w")
"""Matches the subject after an introductory phrase: "Founded in 1983, the bank grew"."""
_NOBODY = re.compile(
    r"(?:Still|Mostly|Just|Probably|Hopefully|Already|Not|Is so|Is|Are|Was|Were) (?:\w+(?:ing|ed|en)|will)\b"
    r"|Not (?:at|in|on|sure|yet)\b"
    r"|(?:(?:But|And|So|Or|Also|Perhaps|Maybe|Then|[A-Z]\w+ly),? )?"
    r"(?i:can|could|may|might|must|should|would|will|has|have|had|do|does|did)(?:n[’']t| not)? [a-z]"
    r"|(?:Concerned|Unclear|Unsure|Able|Unable|Ready|Happy|Interested|Vote|Figure|Needs?|Lots of|Trying|Hoping|Going) "
)
"""Beginnings of notes without a subject: "Still waiting for a review", "Concerned about the schedule", "But could be slow"."""
_DONE = re.compile(r"[A-Z]\w+ly \w+(?:ed|en) (?:as|at|by|for|from|in|off|on|to|with)\b")
"""Similar beginnings with a participle: "Mainly used for tests"."""
NEVER_NOUNS = word_set("""
    refuse refuses adds allows applies becomes comes contains enables ensures exists fails gets gives goes happens improves
    includes introduces involves keeps makes means occurs prevents provides receives remains requires says sees takes allow
    become contain enable ensure exist fail happen include introduce involve occur prevent provide receive remain require
    arrive arrives lose loses disclose discloses appear appears begin begins bring brings choose chooses decide decides
    depend depends describe describes determine determines explain explains follow follows give go know knows make prove
    proves reduce reduces remove removes send sends speak speaks take tell tells think thinks want wants write writes agree
    agrees produce produces conform conforms implements seem seems
""")
_SUBORDINATORS = word_set("although because how if than though unless until what when where whereas whether while why")
_INTRODUCED = re.compile(
    r"(?:After|Although|As|Because|Before|If|Once|Since|Though|Unless|Until|When|Whenever|Where|Whereas|While)\b[^,]*, (?=[^,]* )"
)
"""Matches a clause before the main clause."""
_ARTICLES = ("the", "a", "an", "its", "their")
_NEVER_PARTICIPLES = word_set("arose became began came fell grew ran rose sank sat stood went")
_UNCHANGED = word_set("hit cut put set shut cost spread let split quit")
"""Verbs whose past equals their base form. Before an article, these words are verbs."""
_BEFORE_A_BASE = _SUBJECTS | word_set("to not me us let can could may might must shall should will would cannot")
_AFTER_A_PARTICIPLE = (FUNCTION_WORDS | _PREPOSITIONS | word_set("back down off out up")) - (_GOVERNED - {"to", "as"})
"""Words that are not an object."""
_AFTER_A_NOUN = word_set("of and or but")
"""Words after which "reports" and "updates" are nouns."""

_RELATIVE = ("who", "which", "that")
_BEFORE_A_PARTICIPLE = _AUXILIARIES | word_set("be been being not also now still only")
_WORD = re.compile(r"[^\W\d_]+(?:[’'][^\W\d_]+)*")
_TOKEN = re.compile(r"[^\W\d_]+(?:[’'\-][^\W\d_]+)*|\d[\w.,:%]*|[^\w\s]")
_CODE = re.compile(
    r"[\w.+-]+@[\w-]|(?<![\w/])@\w|\bhttps?:|\bwww\.|[{}|\\<>=~^]|::|\(\)|/\w+/|(?<!\w)--?\w|\w_\w|\w\(|\)\w|\]\(|#\d|\$[A-Za-z_]|\b[0-9a-f]{12,}\b"
)
"""Matches handles, addresses, links, markup, paths, flags and code; each match counts as one."""
_WRONG = re.compile(
    r"^[)\]},.;:%&…–—-]|^\d+[.)] |^\d+(?:\.\w+)+\.? (?=[A-Z])|^[a-z][\w,/-]*: |[?!]"
    r"|^(?i:do|does|did|is|are|was|were|should|can|could|would|will|has|have) (?:I|you|we|they|it|this|that|there|the|an?)\b"
    r"|^\([^()]*\)\.?$"
    r"|^(?!According|Due|Prior|Owing|Similar|Subject|Contrary|Close|Next)[\"“]?(?:(?:[A-Z][\w’'-]+|and|&|/),? ){1,8}to [a-z]"
    r"|(?:[:,;(\[{–—-]|…|\.\.\.|\b(?:the|a|an|of|to|and|or|for|with|in|by|from|as|that|which|is|are|was))[\s)]*$"
)
"""Matches fragments, questions and exclamations."""
_ENDS = re.compile(r"[.!。]['\"’”)\]]*$")
_DEPENDS = re.compile(
    r"(?:then|thus|hence|so|therefore|consequently|accordingly|instead|otherwise|meanwhile|similarly|likewise|specifically|here|"
    r"especially|another|others?|yes|no|ok|okay|well|as an? (?:result|consequence|aside)|as such|in other words|in particular|"
    r"for (?:example|instance)|in a similar way|in the meantime|on the other hand|once [a-z]+ed|most (?:notably|importantly)|"
    r"e\.g|i\.e)\b(?!-)"
    r"|the same\b|that (?:is|was|means|would|will|could|can|has|had)\b"
    r"|(?:because of|after|before|until|till|since|to|at|from|by|for|with|in|of|on) (?:that|this|these|those|the same|a later)"
    r"(?:,| (?:time|point|end|reason|way|extent|moment|date|stage|purpose|regard|respect|case)\b)"
    r"|(?:[A-Z]\w+(?: \w+)?, )?(?:this|these|those|such)\b(?! (?:year|month|week|quarter|time|who|with|of|in|that|as|an?)\b)",
    re.IGNORECASE,
)
"""Matches beginnings of sentences that need the previous sentence."""
_GOES_ON = re.compile(
    r"^(?:additionally|furthermore|moreover|however|also|but|and|or|nevertheless|nonetheless|finally|besides|in addition"
    r"|as (?:mentioned|noted|described|discussed|stated|reported|explained))\b",
    re.IGNORECASE,
)
"""Matches beginnings of sentences that add something to the previous sentence."""
_ELSEWHERE = re.compile(
    r"\b(?:described|shown|listed|mentioned|discussed|explained|specified|defined|outlined|given|see|noted|stated) "
    r"(?:above|below)\b"
    r"|\bthe (?:above|below|aforementioned|former|latter|following)\b|\bas follows\b"
    r"|(?:^|, )the (?:corresponding|respective)\b"
    r"|\b(?:further|previous|preceding|next|following) (?:steps?|sections?|paragraphs?|examples?)\b|\bstep \d",
    re.IGNORECASE,
)
"""Matches references to other places in the text."""
_BARE = re.compile(
    r"The (?:(?:first|second|third|two|three|last|final|original|resulting|proposed|necessary|same|other|new) )*[a-z]+ (?=[a-z])"
    r"|[A-Z][a-z]+(?:tion|ment|ance) (?=[a-z])"
)
"""Matches a subject that another sentence must have introduced, if the verb follows: "The change is ...", "Migration is ..."."""
_POINTING = re.compile(
    r"\b(?:this|these|such|(?:at|by|for|from|of|on|once|till|to|until|with) that)(?= ([\w’'-]+)(?: ([\w’'-]+))?|\W*$)",
    re.IGNORECASE,
)
_POINTS_AT_NOTHING = word_set("""
    year years month week quarter century decade season summer winter spring autumn fall a an as who whose which that of with
    from in
    """)
"""Words after which a demonstrative does not refer to an earlier sentence."""
_OWNERS = ("its", "their", "his", "her")
_PRONOUN = re.compile(r"\b(?:it|its|they|them|their|he|his|him|she|her|hers)\b", re.IGNORECASE)
_SYMBOL = re.compile(
    r"(?<![\w’'.&/+-])(?:[B-HJ-Zb-hj-z]|[A-Z][ijkx\d₀-₉]|(?<=\w )A(?= (?:is|has|with|and|exists)\b))(?![\w’'&/+#-]|\.\w)"
)
"""Matches a variable."""
_NO_NOUNS = word_set("also however then now still just even once whenever rather instead perhaps maybe thus hence note so yet")
_CLAUSE_ENDS = re.compile(r"[,;:–—)]|\b(?:and|but|so|or|because|which|while)\b")
_PERSONAL = re.compile(
    r"\b[Tt]his (?:section|document|template|page|checklist|post|article)\b|"
    r"\bI\b|\b(?i:me|my|mine|myself|you|your|yours|let['’]s|please|thanks?|hello|hi|welcome)\b|"
    r"\b(?i:see|read|join|visit|click|subscribe|refer to)\b[^.]{0,30}\b(?i:below|above|here|more|page|section|details)\b"
)
"""Matches words that refer to the author or the reader."""
_TODAY = re.compile(
    r"\b(?:yesterday|today|tonight|tomorrow|(?:this|next|last) (?:morning|afternoon|evening|week|month|meeting|time|monday"
    r"|tuesday|wednesday|thursday|friday))\b|\bnext (?:\d+|two|three|few) (?:days|weeks|months)\b"
    r"|\b(?:will|should|would|going to|expected to)\b.*\b(?:in|within) (?:about |the next )?(?:\d+|a few|an?|two|three) "
    r"(?:hour|day|week|month)s?\b",
    re.IGNORECASE,
)
"""Matches words that can only be understood on the day of writing."""
_CHORE = re.compile(
    r"^(?:(?:[A-Z][\w’'-]+|and|&),? ){1,6}(?:(?:will|is going to|was going to|needs to|is to|has to|agreed to|volunteered to"
    r"|offered to|is taking|taking|has)(?: an?)? )(?:post|open|send|ask|check|recheck|re-check|follow|reach|schedule|ping|talk"
    r"|look|report|submit|draft|bring|discuss|close|confirm|get back|set up|summarize|email|contact|put|action|take|do|forward"
    r"|make an?|prepare|be (?:making|preparing|sending|working|writing))\b"
    r"|^[A-Z][\w’'-]+ (?:is|are) (?:getting|looking|checking|following|reaching|working|talking|waiting)\b"
    r"|^@[\w-]+(?:, @[\w-]+)*:? ",
)
"""Matches tasks that a person must do before the next meeting."""
_NOTHING = re.compile(
    r"\bnothing (?:new|to report|to discuss|for)\b"
    r"|\bno (?:(?:significant|new|major|real|further|other|moderation) )*"
    r"(?:news|updates?|objections?|announcements?|activity|progress)\b|\bdiscussion (?:is )?(?:required|needed)\b"
    r"|n[’']t \w+ (?:an|any) (?:answers?|news|reply|response|updates?)\b"
    r"|\b[Ww]e(?:[’']re| are) (?:committed|delighted|excited|proud|thrilled)\b"
    r"|^The (?:[\w-]+ ){1,3}(?:is|are|was|were|remains?) (?:currently |still |yet )?(?:unclear|unknown)\b"
    r"|^(?:(?:further|more|other|some) )?(?:details|ideas|information)\b.* (?:found|available|described|discussed|listed) "
    r"(?:at|in|on)\b"
    r"|\b(?:notes|minutes|summary|summaries|highlights|transcripts?) (?:(?:was|were|is|are) )?"
    r"(?:taken|curated|provided|edited|written|prepared)\b"
    r"|\b(?:gave|gives|give|provided|provides|presented|shared|shares) (?:an?|the|some) (?:\w+ ){0,4}"
    r"(?:overview|update|summary|status|introduction|presentation)\b"
    r"|^(?:[\w’'-]+ ){0,6}(?:discuss(?:ed|es)?|talked about)\b"
    r"(?!.*\b(?:\w+ed to|and \w+ed|that|will|should|must|needs? to|because|concern(?:s|ed))\b)"
    r"|^(?:[\w’'-]+ ){0,2}discussions? (?:about|around|of|on|regarding)\b"
    r"|\b(?:meeting|call) (?:(?:was|is|has been) )?cancell?ed\b"
    r"|\b(?:next|follow-on|follow-up) (?:\w+ )?(?:meeting|call)\b|\bno (?:[\w-]+ ){0,3}(?:meetings?|calls?)\b"
    r"|\b(?:from|to|on|off) (?:the |our )?agenda\b|\baction items?\b"
    r"|^(?:(?:the|our|that) )?(?:dates?|sessions?|meetings?|calls?|choices?|questions?|deadlines?|links?|slides|recordings?"
    r"|attendees|agendas?) "
    r"(?:is|are|was|were|will be)\b|^(?:one|another|some|others|most|all|none|both|two) (?:is|are|was|were)\b",
    re.IGNORECASE,
)
"""Matches sentences that report nothing, or that need the lines before them: "The dates are 14-15 April"."""
_SPOKEN = re.compile(
    r"^(?:yes|yeah|no|ok|okay|well|right|sure|cool|great|all right|alright|hey|anyway|next up|this is|i'm|we're)\b(?! \w+ed\b)"
    r"|\b(?:everyone|everybody|folks|guys|oops|you know|kind of|sort of|sounds? (?:good|like))\b",
    re.IGNORECASE,
)
_WISH = re.compile(
    r"\b(?:[Ww]e|[Ss]ome(?:one|body)(?: from [\w ]{1,20})?) (?:could|have to|may|might|need to|ought to|should)\b"
    r"|\b[Ww]e (?:also )?(?:are going to|plan to|then|want to|will)\b|\bwould like to\b"
    r"|\b[Mm]aybe\b|^(?:Perhaps|Possibly|Potentially)\b"
    r"|\bwould be (?:better|good|great|helpful|interesting|nice|useful)\b|\bfeel free\b|\bbe aware\b|\bconsider \w+ing\b"
    r"|\bsuggests? (?:that )?we\b|^(?:But )?[A-Z][a-z]+ (?:asks|suggests|wonders)\b"
)
"""Matches proposals, plans and duties, which are not facts."""
_OURSELVES = re.compile(r"\b(?:[Ww]e|us|[Oo]urs?)\b")
_LESSER = (
    (_PERSONAL, 0.3),
    (_OURSELVES, 0.6),
    (_TODAY, 0.34),
    (_CHORE, 0.3),
    (_NOTHING, 0.3),
    (_SPOKEN, 0.4),
    (_WISH, 0.3),
    (_GOES_ON, 0.6),
)
"""Patterns that lower the score of a statement, with their factors."""
_LABEL = re.compile(
    r"^(?:\[[^\[\]]{1,40}\] ?)+|^(?:ACTION|DECISION|AI|TODO|Action|Decision)(?: [Ii]tem)?[ \d.]*:? "
    r"|^(?:\d{1,2} )?[A-Z][\w’'-]*(?: [\w.’'-]+| \([^)]{1,30}\)){0,4}(?:: | [-–—] )"
    r"|^(?!Today|Yesterday|First|Second|Third|Next|Last|Overall|Instead|Perhaps|Maybe|Indeed|Once|[A-Z]\w+(?:ly|s|ed|ing)\b)"
    r"[A-Z][a-z]+, (?=[a-z-])"
)
"""Matches a speaker, or the name of an item, before the statement."""
_NAMES, _MARKED = 0.6, 0.12
"""A sentence is a list of names from the first share of names on, and code from the second share of code on."""
FEWEST_WORDS, MOST_WORDS = 6, 60
LEAST = 0.35
"""Minimum score of an insight."""


def worth(text: str, english: bool = True) -> float:
    """Return how clearly a sentence is a finding, 0 to 1. Below `LEAST` it is not one."""
    label = _LABEL.match(text)
    if label and label[0].lower().strip(" ,") not in FUNCTION_WORDS and not (english and _DEPENDS.match(text)):
        said = text[label.end() :]
        return 0.6 * worth(said[:1].upper() + said[1:], english)
    words = _WORD.findall(text)
    if not is_latin(text):
        return 1.0 if len(text) >= FEWEST_WORDS and not _CODE.search(text) else 0.5
    named = sum(word[0].isupper() for word in words[1:])
    if not FEWEST_WORDS <= len(re.findall(r"\w+", text)) <= MOST_WORDS or named >= _NAMES * len(words) or _WRONG.search(text):
        return 0.0
    marks = len(_CODE.findall(text))
    if marks > _MARKED * len(words):
        return 0.0
    value = 1.0 if _ENDS.search(text) else 0.3 if text[-1].isdigit() and "#" in text else 0.7
    if text[0].islower() or text.count("(") != text.count(")") or text.count('"') % 2:
        value *= 0.4
    if marks:
        value *= 0.6
    if english:
        plain = re.sub(r" \([^)]*\)", "", text)
        note = not _ENDS.search(text)
        introduced = _INTRODUCED.match(plain) if note else None
        begin = introduced.end() if introduced else 0
        verb = finite_verb(plain[begin:], note)
        first = words[0].lower()
        done = _DONE.match(text) or first in _REGULAR
        asks = (done or first in _SUBJECTLESS) and not (done and _ASIDE_FIRST.search(text))
        if not verb or asks or _NOBODY.match(text) or first in NEVER_NOUNS & _THIRDS.keys():
            value *= 0.3
        if _depends(text):
            value *= 0.34
        elif (place := _points(text)) >= 0:
            value *= 0.34 if verb and place < (finite_verb(plain) or verb).start() else 0.45
        elif verb and (bare := _BARE.match(text)) and bare.end() == begin + verb.start():
            # Numbers and names show which one is meant.
            value *= 0.6 if re.search(r"\d| [A-Z]|[a-z]{2}\.[a-z]{2}", text) else 0.34
        for pattern, factor in _LESSER:
            if pattern.search(text):
                value *= factor
    return value


def _depends(text: str) -> bool:
    """Whether a sentence cannot be understood without another one: "It is slow.", "This flaw ...", "Otherwise, ...", "see
    below"."""
    if _DEPENDS.match(text) or _ELSEWHERE.search(text):
        return True
    pronoun = _PRONOUN.search(text)
    if pronoun and not _names_something(text[: pronoun.start()]):
        after = text[pronoun.end() :].partition(", ")[2]
        # "When it failed, the server ...", "Using its cache, curl ...": the noun follows.
        owner = after and pronoun[0].lower() in _OWNERS and after.split()[0].lower() not in _SUBJECTS
        if not pronoun.start() or not (owner or re.match(r"the |[A-Z]", after)):
            return True
    return len(_unnamed_symbols(text)) > 1


def _points(text: str) -> int:
    """Return the offset at which a sentence refers to something outside of it ("these rules"); -1 if there is none."""
    introduced = _INTRODUCED.match(text)
    for found in _POINTING.finditer(text):
        next_words = [word.lower() for word in found.groups() if word]
        before = text[: found.start()].lower()
        if introduced and introduced.end() == found.start():
            return found.start()
        named = any(len(word) > 3 and word.rstrip("s") in before for word in next_words)
        # "The disk was full, and this stopped the job": "this" refers to the clause before.
        ends = [match.start() for match in _CLAUSE_ENDS.finditer(before)]
        if not (named or set(next_words[:1]) & _POINTS_AT_NOTHING or (ends and finite_verb(text[: ends[-1]]))):
            return found.start()
    return next(iter(_unnamed_symbols(text)), -1)


def _unnamed_symbols(text: str) -> list[int]:
    """Return where a text has variables without a noun before them, unlike "type T"."""
    found = _SYMBOL.finditer(text)
    return [symbol.start() for symbol in found if not _names_something(" ".join(text[: symbol.start()].split()[-1:]))]


def _names_something(text: str) -> bool:
    """Whether words contain a noun. Any word that is neither a function word nor a verb counts as a noun."""
    words = [word.lower() for word in _WORD.findall(text)]
    return any(
        word not in FUNCTION_WORDS | _PREPOSITIONS | _NO_NOUNS
        and not word.endswith(("ly", "ed", "ing"))
        and (word not in BASES or before in _GOVERNED)
        for before, word in zip(["", *words], words, strict=False)
    )


def is_verb(word: str, before: str, after: str) -> bool:
    """Whether a word of an English statement is a verb. Words that may be nouns in this position do not count. All words are in
    lower case."""
    if word in _AUXILIARIES or word in _IRREGULAR or word in NEVER_NOUNS or _PAST.search(word):
        return True
    objects = before[:1].isalpha() and before not in FUNCTION_WORDS and after.endswith("s") and not after.endswith("ss")
    objects = objects and after not in FUNCTION_WORDS
    if word in _BASES and (before in _BEFORE_A_BASE or before in _AUXILIARIES or objects):
        return True
    if word in _BASES and after in _ARTICLES and before[:1].isalpha() and before not in FUNCTION_WORDS:
        return True
    return word in _THIRDS and after in FUNCTION_WORDS and after not in _AFTER_A_NOUN and before not in _NO_SUBJECT


def finite_verb(text: str, note: bool = False) -> re.Match[str] | None:
    """Return the first finite verb of an English sentence that has a subject before it.

    `note`: whether the text may be a note, which needs no finite verb. In a note, a past form without an object is a participle:
    "Typos on the cover fixed".
    """
    found = [*_TOKEN.finditer(text)]
    tokens = [match.group().replace("’", "'") for match in found]
    relative = False
    """Whether a relative clause still lacks its verb, which is not the verb of the sentence."""
    subordinate = False
    """Whether a subordinate clause with its own subject still lacks its verb: "where it gets slow"."""
    for place, (before, token) in enumerate(itertools.pairwise(["", *tokens])):
        word, last = token.lower(), before.lower()
        if last in _RELATIVE or (relative and last in _BEFORE_A_PARTICIPLE):
            relative = word in _BEFORE_A_PARTICIPLE
            if relative or last in _BEFORE_A_PARTICIPLE or word in BASES or _PAST.search(word):
                continue
        if word in _SUBORDINATORS or token == ",":
            subordinate = note and word in _SUBORDINATORS and bool(last)
            continue
        verb = _is_finite(text, found, place, note)
        if verb and subordinate:
            subordinate = False
        elif verb:
            return found[place]
    return None


def _is_finite(text: str, found: Sequence[re.Match[str]], place: int, note: bool) -> bool:
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
    aside = before in (",", ")") and place > _ASIDE and (governs or ((word in BASES or _PAST.search(word)) and not note))
    if not aside and (not before or not before[-1].isalnum() or last in _NO_SUBJECT):
        return False
    if word in _UNCHANGED and following in _ARTICLES:
        return True
    if following == "by" and re.match(r"the |[A-Z]", text[found[place].end() + len(" by ") :]):
        # In "Last modified by Ann", "modified" is a participle.
        return False
    if word in _IRREGULAR or (_PAST.search(word) and "-" not in word.removeprefix("re-")):
        linked = not following[:1].isalnum() or following in _AFTER_A_PARTICIPLE
        # In "Physically based renderers", "based" is an adjective.
        linked = linked or (last.endswith("ly") and following not in _GOVERNED)
        return not (note and linked and word not in _NEVER_PARTICIPLES)
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
    if note and third and following == "that" and word not in NEVER_NOUNS:
        # In "Little updates that must happen", "updates" is a noun.
        return False
    return (third and (governs or word in _THIRDS)) or (plural and ((governs and following != "to") or word in _BASES))
