"""Classifies the lines of a document as statements, titles, and the kinds of lines that are omitted."""

import re
from typing import Literal

from summhay_ray.text.words import FUNCTION_WORDS, is_latin

Reason = Literal[
    "front matter",
    "heading",
    "code",
    "links",
    "attendance",
    "signature",
    "agenda",
    "metadata",
    "quote in a quote",
    "no sentence",
    "boilerplate",
]

# Without IGNORECASE, the regex engine can search for the first letters, which is three times as fast.
URL = re.compile(r"(?:[hH][tT][tT][pP][sS]?://|[wW][wW][wW]\.|[mM][aA][iI][lL][tT][oO]:)[^\s<>\]]+")
END = re.compile(r"[.!?…。！？।؟։۔።;][\"'”’»)\]*_]*\s*(?:\[\d[\d, ]*\]|\(#\d+\))?\Z")
TURN = re.compile(
    r"(?:[\[(]?\d{1,2}:\d{2}(?::\d{2})?(?: ?[AP]M)?[\])]?[ \t,-]*)?"
    r"(?:<[^<>\s]{1,40}>[ \t]|[^\W\d_][^:\n|/{}=]{0,40}[:：](?=\s|[^\x00-\x7f])\s*)"
)
"""Matches a turn of a conversation: `Speaker: `, or `<speaker> `, possibly after the time."""
WORD = re.compile(r"[^\W\d_][\w'’-]*")
_PAGE = re.compile(r"(?:page|seite|página|-|–)?\s*\d{1,4}\s*(?:(?:of|/|von|de)\s*\d{1,4}|-|–)?", re.IGNORECASE)
LEADERS = re.compile(r"(?:\.\s?){4,}\s*\d{1,4}\s*\Z")
_ATTENDANCE = re.compile(
    r"(?:(?:present|attend(?:ees|ance|ing|ed)|participants?|invited(?: guests?| speakers?)?|absent|absentees|absences|apologies"
    r"|regrets|guests?|observers?|(?:(?:voting|regular|non-voting|committee|tsc|other|board) )?members?(?: present)?|scribes?"
    r"|chair(?:s|person|man|woman)?|moderators?|facilitators?|hosts?|note[ -]?takers?|minute[ -]?takers?|minutes(?: taken)? by"
    r"|secretary|roll[ -]?call|who(?:['’]s| is| was)? (?:here|present)|quorum|in attendance|on the call|attended by|recorded by"
    r"|anwesende?|teilnehmer(?:innen)?|abwesend|entschuldigt|présents?|excusés?|asistentes|presentes)"
    r"(?: \([^)]*\)| ?/ ?\w+| and \w+| \w+)?)\s*[:：]?(?=\s*\Z|(?<=[:：]))",
    re.IGNORECASE,
)
_AGENDA = re.compile(
    r"(?:(?:proposed |meeting |draft |today['’]s )?agenda(?: items?)?|(?:table of )?contents|toc|tagesordnung"
    r"|inhalt(?:sverzeichnis)?|ordre du jour|orden del día)\s*:?\Z",
    re.IGNORECASE,
)
_KEY_WORDS = """
    date time dates author authors status version location where when url urls link links tag tags category categories label
    labels uuid id issue pr rfc created updated published modified owner owners reviewer reviewers approver approvers editor
    editors sponsor layout permalink slug doi isbn issn from to cc bcc sent recording video livestream slides notes minutes
    website email e-mail phone tel fax contact file filename page pages license copyright datum zeit ort autor fecha fecha
    autor lugar lieu auteur
"""
_KEYS = frozenset(_KEY_WORDS.split())
_KEY_VALUE = re.compile(r"([^\W\d_][\w /#-]{0,40}?)\s*[:：]\s*(.*)\Z", re.DOTALL)
_TITLE = re.compile(r"(?:subject|title)\s*:\s", re.IGNORECASE)
DATE_KEYS = ("date", "published", "created", "start_time", "start", "time", "end_time", "updated", "datum", "fecha")
CLOSING = re.compile(
    r"(?:(?:(?:best|kind|kindest|warm|warmest|many)\s+)?(?:regards|wishes|thanks)|sincerely(?: yours)?|yours(?: \w+)?|cheers"
    r"|thanks(?: again| and regards)?|thank you|respectfully(?: submitted)?|mit freundlichen grüßen|viele grüße|cordialement"
    r"|saludos|atentamente|-- ?)[,.!]?\s*\Z",
    re.IGNORECASE,
)
_TRAILER = re.compile(
    r"(?:(?:signed-off|reviewed|co-authored|acked|tested|reported|approved|suggested)-by|reviewed-on|pr-url|cc|change-id)\s*:"
    r"|sent from my |_{5,}|(?:signature|signed|unterschrift)\s*[:_]",
    re.IGNORECASE,
)
_ISSUE = re.compile(r"#\d+\W*\Z")
_HANDLE = re.compile(r"(?<![\w.])@[\w-]+")
_CODE = re.compile(r"[{}<>=;|\\$`@#/_]|\(\)|::|->|\+\+")
_VERB_WORDS = """
    is are was were be been am has have had do does did will would can could shall should may might must cannot isn't aren't
    wasn't weren't hasn't haven't hadn't don't doesn't didn't won't wouldn't can't couldn't shouldn't i we you he she they it
    i'm we're they're it's that's there's let's said says
"""
_VERBS = frozenset(_VERB_WORDS.split())
_WITHIN_NAMES = ("and", "von", "van", "de", "der", "del", "la", "of", "from", "the", "for", "via")
_PAST = re.compile(r"[^\W\d_]{2,}ed\Z")
FEWEST, _MANY = 4, 12
"""Minimum number of words for a statement without a full stop, in a list item and in any other line."""
_MOSTLY = 0.8
"""Minimum share of links in a line that counts as a list of links."""


class LineKinds:
    """Classifies the lines of a document in order. Headings and signatures affect how later lines are classified.

    `latin`: whether the document is in Latin letters. In other scripts, fewer kinds are recognized.
    """

    def __init__(self, latin: bool) -> None:
        self.title = ""
        self.date = ""
        """The title and the date, as the document gives them."""
        self.section: dict[int, str] = {}
        """Heading level -> kind of the heading above the current line: `attendance`, `agenda` or empty."""
        self._latin = latin
        self._signing = 0
        """Number of following lines that may still belong to a signature."""

    def open_section(self, text: str, level: int) -> None:
        self.section = {one: name for one, name in self.section.items() if one < level}
        self._signing = 0
        bare = text.strip(" *_:#").strip()
        if _ATTENDANCE.fullmatch(bare):
            self.section[level] = "attendance"
        elif _AGENDA.fullmatch(bare):
            self.section[level] = "agenda"

    def reason(self, text: str, item: int, linked: float, plain: bool) -> Reason | None:
        """Return why a line is omitted, or None if it is kept."""
        bare = text.strip().strip("*_").strip()
        words = WORD.findall(bare)
        sentence = bool(END.search(bare)) and len(words) >= 3
        if heading := _ATTENDANCE.match(bare):
            if heading.end() == len(bare) and not sentence:
                self.open_section(bare, 7)
                return "attendance"
            if not sentence and bare[heading.end() - 1] in ":：" and _is_names(bare[heading.end() :]):
                return "attendance"
        if _AGENDA.fullmatch(bare):
            self.open_section(bare, 7)
            return "agenda"
        if _TRAILER.match(bare):
            return "signature"
        if CLOSING.fullmatch(bare):
            self._signing = 4
            return "signature"
        if self._signing:
            self._signing -= 1
            if not sentence and len(words) <= 8:
                return "signature"
            self._signing = 0
        if _PAGE.fullmatch(bare) and not is_wide(bare[:1]):
            return "no sentence"
        if LEADERS.search(bare):
            return "agenda"
        if URL.search(bare) or linked:
            rest = WORD.findall(URL.sub(" ", bare))
            named = re.fullmatch(r"[^:]{1,60}:\s*" + URL.pattern, bare, re.IGNORECASE) is not None
            listed = linked >= _MOSTLY and len(words) <= _MANY
            if not sentence and _is_title(bare) and (len(rest) <= 3 or named or listed):
                return "links" if "agenda" not in self.section.values() else "agenda"
        if sentence or not self._latin:
            return None
        if not words:
            return None if plain else "no sentence"
        if "attendance" in self.section.values() and _is_names(bare):
            return "attendance"
        if all(word.isupper() and len(word) <= 3 for word in words) and len(words) > 2 and not re.search(r"\d", bare):
            return "attendance"
        if _HANDLE.search(bare) and _is_names(bare):
            return "attendance"
        # In an agenda, the first level of a list has titles, and deeper levels have statements about them.
        titled = (linked or _ISSUE.search(bare) or (len(words) <= 6 and item == 1)) and _is_title(bare)
        if "agenda" in self.section.values() and item and titled and not (TURN.match(bare) and bare[0].isupper()):
            return "agenda"
        pair = _KEY_VALUE.match(bare)
        if pair and re.fullmatch(r"[\w./-]*#\d+", pair[2]):
            return "links"
        if pair and pair[1].lower().strip() in _KEYS and len(pair[2]) <= 200 and not self.states(pair[2], item=0):
            if pair[1].lower() in DATE_KEYS and not self.date:
                self.date = pair[2].strip()
            return "metadata"
        return None

    def states(self, text: str, item: int) -> bool:
        """Whether a line makes a statement rather than names something."""
        bare = text.strip()
        if not self._latin:
            return bool(re.search(r"\w", bare))
        words = WORD.findall(URL.sub(" ", bare))
        if END.search(bare):
            return len(words) >= 2
        if _TITLE.match(bare):
            self.title = self.title or bare.partition(":")[2].strip()
            return False
        if TURN.match(bare):
            return True
        lower = [word for word in words if word[0].islower()]
        if not lower:
            return False
        if item:
            return len(words) >= FEWEST
        telling = not _is_title(bare)
        return len(words) >= _MANY or (telling and len(words) >= FEWEST)


def _is_names(text: str) -> bool:
    """Whether a line only lists people, without a statement about them."""
    text = _HANDLE.sub(" ", re.sub(r"\([^)]*\)|<[^>]*>|\[[^\]]*\]", " ", text))
    words = WORD.findall(text)
    lower = [word for word in words if word[0].islower() and word not in _WITHIN_NAMES]
    return not any(word in _VERBS for word in lower) and len(lower) <= max(1, 0.34 * len(words))


def _is_title(text: str) -> bool:
    """Whether a line has no verb, except for verbs that a title may have."""
    return not any(_PAST.match(word) or word.lower().replace("’", "'") in _VERBS for word in WORD.findall(text))


def is_code(text: str) -> bool:
    """Whether an indented block is code rather than indented prose."""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if not is_latin(text):
        return False
    words = [word.lower() for word in WORD.findall(text)]
    marks = sum(len(found) for found in _CODE.findall(text))
    prose = sum(bool(END.search(line)) and not line.endswith(";") for line in lines) + any(TURN.match(line) for line in lines)
    function = sum(word in FUNCTION_WORDS for word in words)
    return marks > 0.04 * len(text) or not (prose or function >= 0.25 * max(1, len(words)))


def is_wide(char: str) -> bool:
    return "\u2e80" <= char <= "\uffef"
