"""Groups insights into subtopics, each about one subject, and writes a natural question for each.

The insights of a subtopic are in the same few documents, or share a noun phrase. The question names the phrase that most of them
have. It asks about what most of them state, such as how it failed, changed or was decided; otherwise it asks what is known about
it. No question reveals an insight of its subtopic.
"""

import functools
import heapq
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from summhay_ray.mine import questions
from summhay_ray.mine.phrases import BROAD, FEWEST, VAGUE, WORD, Naming, is_noun_phrase, phrases, runs, with_article
from summhay_ray.mine.statements import language_of
from summhay_ray.mine.verbs import finite_verb, is_verb
from summhay_ray.synth import leak, read_words
from summhay_ray.text import MONTHS, words_of

LARGEST = 8
"""Maximum number of insights in a subtopic, since a summary has a bullet for each."""
_COMMON, _BROAD = 0.5, 3
"""A phrase in more than half of the insights belongs to the topic. A phrase with more insights than three full subtopics is too
broad."""
_LONGEST = 3
"""Maximum number of words in a phrase, unless the whole phrase is a name."""
_TOPICAL, _TOPICAL_LEAST = 0.12, 4
"""A word in more than this share of the insights, and in more than this number, belongs to the topic."""
_STRONG = 2
"""Minimum value of a phrase that is the only link between the insights of a group; see `Naming.value`."""
_TIES = 2
"""Minimum number of further words that two insights must share to be about one thing, if they share only one noun or name."""
_SAME_DOCUMENTS, _FEW_DOCUMENTS = 0.5, 0.2
"""Insights are about one thing if they share at least `_SAME_DOCUMENTS` of their documents, and each is in at most
`_FEW_DOCUMENTS` of all documents."""
_SCRIPTS = ("[ァ-ヶー]", "[一-龥々]", "[ぁ-ん]", "[가-힣]")
"""Letters of scripts without spaces between words. A word ends where the script changes."""
_REPEATED = 4
"""Minimum number of times, on average, that a document must have a phrase to be about it."""
_LIFT = 3
"""Documents are about a name if each of them has it at least `_LIFT` times as often as the average document. 1 is added to the
average, so each of them has the name at least `_LIFT` times."""
_SAMPLE, _FEW_READ, _LONGEST_READ = 20, 4, 100_000
"""The phrases of a subtopic are searched in a sample: this many of all documents, this many of the subtopic's, and this many
characters of each."""
_NAME = re.compile(r"(?<=[a-z,] )[A-Z][\w-]*\w(?: [A-Z][\w-]*\w)*(?= [a-z]|[,.;:)])")
"""Matches a name within a sentence."""
_PLACE = re.compile(r"\bin ([A-Z][a-z]+(?: [A-Z][a-z]+)?)\b")


Key = tuple[str, ...]
"""The roots of a phrase's words, which are the same for all its forms."""


@dataclass(frozen=True, slots=True)
class Grouped:
    """A subtopic: its text, its query, and the indices of its insights."""

    text: str
    query: str
    places: tuple[int, ...]


def group_insights(
    insights: Sequence[str], topic: str, documents: Sequence[Collection[int]] = (), texts: Sequence[str] = ()
) -> list[Grouped]:
    """Group insights into subtopics of at most `LARGEST` that share documents or a noun phrase, largest first. An insight that
    shares none becomes its own subtopic. `documents`: the documents of each insight, if known. `texts`: the texts of all
    documents, if known."""
    read = _Read(insights, documents, texts)
    made: list[Grouped] = []
    known: list[tuple[str, ...]] = []
    """The words of each query."""
    for keys, places in _groups(read):
        first: questions.Question | None = None
        for question in chain(_of_group(read, keys, places), _plain(insights[places[0]], topic)):
            first = first or question
            reading = read_words(question.text)
            words = (*reading.roots, *sorted(reading.numbers))
            same = next((at for at, other in enumerate(known) if words[-1:] == other[-1:] and set(words) <= set(other)), None)
            joins = same is not None and set(words) == set(known[same]) and len(made[same].places) + len(places) <= LARGEST
            said = f"{topic} {question.known}"
            if (same is None or joins) and not any(leak(question.text, insights[place], said).found for place in places):
                break
        else:
            question, same = first or questions.Question(topic, questions.KNOWN.format(topic), topic), None
        if same is not None:
            # Insights with the same question belong to one subtopic.
            made[same] = replace(made[same], places=(*made[same].places, *places))
            continue
        known.append(words)
        made.append(Grouped(question.subject, f"{question.text}?", tuple(places)))
    return made


class _Read:
    """The phrases, actions and words of the insights, and how common these are."""

    def __init__(self, insights: Sequence[str], documents: Sequence[Collection[int]], texts: Sequence[str]) -> None:
        self._documents = [frozenset(found) for found in documents] or [frozenset[int]()] * len(insights)
        self.insights, self._texts = insights, texts
        self._sample = range(0, len(texts), max(1, len(texts) // _SAMPLE))
        self._lower = functools.cache(lambda document: texts[document][:_LONGEST_READ].lower())
        self.english = language_of([*insights, *texts]) == "english"
        self.roots = [frozenset(read_words(text).roots) for text in insights]
        """The roots of each insight's words."""
        held = Counter(root for found in self.roots for root in found)
        self.common = {root for root, n in held.items() if n > max(_TOPICAL_LEAST, _TOPICAL * len(insights))}
        """Roots of words that belong to the topic, since many insights have them."""
        self._loose = self.common | {root for word in VAGUE | BROAD for root in read_words(word).roots}
        words = {word for text in insights for word in WORD.findall(text)}
        topical = {word for word in words if self.common.intersection(read_words(word).roots)}
        self.naming = Naming(_proper(insights), frozenset(map(str.lower, topical)))
        self.phrases = [dict([*(_phrases(text, self.naming) if self.english else _words(text))][::-1]) for text in insights]
        """For each insight: key of a phrase -> the phrase as written."""
        self.acted = [_act(text, self.naming) if self.english else ("", "") for text in insights]
        """For each insight: the subject's root and the base form of the verb."""
        surfaces: dict[Key, Counter[str]] = {}
        self.holders: dict[Key, list[int]] = {}
        """Key of a phrase -> the insights that have it."""
        for place, found in enumerate(self.phrases):
            for key, surface in found.items():
                surfaces.setdefault(key, Counter())[surface] += 1
                self.holders.setdefault(key, []).append(place)
        self.shown = {key: max(counted.items(), key=lambda item: (item[1], item[0]))[0] for key, counted in surfaces.items()}
        """Key of a phrase -> its most common written form."""

    def of_one_thing(self, key: Key, places: Sequence[int]) -> list[int]:
        """Return the insights with this phrase that are about one thing: all of them, or the largest set of insights tied to one
        of them."""
        if len(key) > 1 and self.naming.value(self.shown[key]) >= _STRONG:
            return list(places)
        tied = [[one for one in places if one == other or self._tied(one, other, key)] for other in places]
        return max(tied, key=len, default=[])

    def _tied(self, one: int, other: int, key: Key) -> bool:
        """Whether two insights that share one noun or name are about one thing: the same happens to it, or they share more
        words."""
        noun, act = self.acted[one]
        if noun == key[-1] and noun not in self.common and act not in ("be", "have") and self.acted[other] == (noun, act):
            return True
        return len(self.roots[one] & self.roots[other] - self._loose - set(key)) >= _TIES

    def is_about(self, phrase: str, places: Sequence[int]) -> bool:
        """Whether the phrase names a thing, and whether it is repeated in the documents of these insights but missing from most
        others."""
        written = re.sub("^(?:the|an?) ", "", phrase)
        compound = re.search("[ -]", written) or self.naming.is_name(written)
        if not self._texts or not compound or self.naming.value(written) < 1 or " of " in written:
            return False
        written = written.lower().rstrip("s")
        own = self._shared_documents(places)
        others = sum(written in self._lower(document) for document in self._sample)
        counted = sum(min(self._lower(document).count(written), 2 * _REPEATED) for document in own)
        return 2 * others <= len(self._sample) and counted >= _REPEATED * len(own)

    def _shared_documents(self, places: Sequence[int]) -> list[int]:
        """Return the documents that most of these insights have in common."""
        held = Counter(document for place in places for document in sorted(self._documents[place]))
        return [document for document, _ in held.most_common(_FEW_READ)]

    def names_of(self, keys: Sequence[Key], places: Sequence[int]) -> list[str]:
        """Return what to ask about these insights, best first.

        The order is: phrases (of `keys`) that are the subject of their documents; names that these documents repeat; other
        phrases. In the first group, phrases that most of the insights have come first.
        """
        listed = [(self.shown[key], 2 * sum(key in self.phrases[place] for place in places) > len(places)) for key in keys]
        about = [name for name, _ in listed if self.is_about(name, places)]
        shared = [name for name, most in listed if most and name in about]
        own = self._shared_documents(places) if self._texts and self.english else []
        named = [Counter(_NAME.findall(self._texts[document][:_LONGEST_READ])) for document in own]
        counted = {name: min(found[name] for found in named) for name in named[0]} if named else {}
        lift = {name: n / (1 + self._mean_count(name)) for name, n in counted.items() if n >= _LIFT}
        repeated = [name for name in sorted(lift, key=lift.__getitem__, reverse=True) if lift[name] >= _LIFT]
        others = sorted((name for name, _ in listed), key=lambda name: self.naming.value(name) < _STRONG)
        return list(dict.fromkeys([*shared, *about, *repeated, *others]))

    def _mean_count(self, name: str) -> float:
        """Return how often a document has a name, on average."""
        name = name.lower()
        return sum(self._lower(document).count(name) for document in self._sample) / max(1, len(self._sample))

    def by_documents(self, left: Collection[int]) -> Iterator[list[int]]:
        """Yield groups of insights that are in the same few documents, such as reports of one incident or versions of one
        proposal. The caller must remove the insights of each group from `left`."""
        few = _FEW_DOCUMENTS * len(frozenset().union(*self._documents))
        listed: dict[int, list[int]] = {}
        for place, found in enumerate(self._documents):
            for document in found if len(found) <= few else ():
                listed.setdefault(document, []).append(place)
        for place, found in enumerate(self._documents):
            if place not in left or len(found) > few:
                continue
            near = Counter(other for document in found for other in listed[document] if other in left)
            same = [one for one, n in near.items() if n >= _SAME_DOCUMENTS * len(found | self._documents[one])]
            if len(same) > LARGEST:
                own = self.roots[place] - self._loose
                alike = [one for one in same if own & self.roots[one]]
                same = alike if len(alike) > 1 else same
                same.sort(key=lambda one: (one != place, -len(own & self.roots[one]), one))
            if len(same) > 1:
                yield sorted(same[:LARGEST])


def _of_group(read: _Read, keys: Sequence[Key], places: Sequence[int]) -> Iterator[questions.Question]:
    """Yield the questions that these insights answer, best first. `keys`: their phrases, most specific first."""
    said = [read.insights[place] for place in places]
    about = functools.partial(read.is_about, places=places)
    if len(places) > 1 or not read.english:
        yield from _asked(read.names_of(keys, places), said, read.naming, read.english, about)
        return
    yield from questions.ask(said[0], read.naming, about)
    for name in (read.shown[key] for key in keys if read.naming.value(read.shown[key]) >= 1):
        yield questions.Question(name, questions.KNOWN.format(with_article(name)), name)


def _groups(read: _Read) -> list[tuple[list[Key], list[int]]]:
    """Return (phrases, insights) of each group, the largest group first. The most specific phrases come first."""
    left = dict.fromkeys(range(len(read.phrases)))
    made: list[list[int]] = []
    for places in chain(read.by_documents(left), _by_phrases(read, left)):
        made.append(places)
        for place in places:
            left.pop(place, None)
    groups = []
    for places in [*sorted(made, key=lambda places: -len(places)), *([place] for place in left)]:
        counted = Counter(key for place in places for key in read.phrases[place])
        heads = Counter(head for place in places for head in {key[-1] for key in read.phrases[place]})
        acting = {read.acted[place][0] for place in places}

        def telling(key: Key, counted: Counter[Key] = counted, heads: Counter[str] = heads, acting: set[str] = acting) -> float:
            n = max(float(counted[key]), 0.7 * heads[key[-1]])
            return n * _weight(key, read.shown[key]) * (1 + (key[-1] in acting) * min(n - 0.7, 1))

        groups.append((sorted(counted, key=lambda key: (-telling(key), -len(key), key)), places))
    return groups


def _by_phrases(read: _Read, left: Collection[int]) -> Iterator[list[int]]:
    """Yield groups of insights that share a phrase. `left`: the insights that are in no group yet; the caller must remove those
    of each group."""
    shown, holders, found = read.shown, read.holders, read.phrases
    most = max(2, min(_COMMON * len(found), _BROAD * LARGEST))
    usable = {key for key, places in holders.items() if shown[key] not in BROAD and 2 <= len(places) <= most}
    remaining = Counter({key: sum(place in left for place in holders[key]) for key in usable})
    order = {key: number for number, key in enumerate(sorted(usable))}

    def rank(key: Key) -> tuple[float, int, int]:
        return -min(remaining[key], LARGEST) * _weight(key, shown[key]), len(holders[key]), order[key]

    # A phrase's remaining insights only decrease. So if the first phrase still has its rank when it is recomputed, it is the
    # best.
    waiting = [(rank(key), key) for key in usable]
    heapq.heapify(waiting)
    while waiting:
        known, key = heapq.heappop(waiting)
        if remaining[key] < 2:
            continue
        if rank(key) != known:
            heapq.heappush(waiting, (rank(key), key))
            continue
        places = read.of_one_thing(key, [place for place in holders[key] if place in left])[:LARGEST]
        if len(places) < 2:
            remaining[key] = 0
            continue
        yield places
        for place in places:
            remaining.subtract(found[place].keys() & usable)
        heapq.heappush(waiting, (rank(key), key))


def _plain(text: str, topic: str) -> Iterator[questions.Question]:
    """Yield plain questions, about the first words of a statement and about the topic."""
    words = text.split()
    for subject in (*(f"“{' '.join(words[:size])} ...”" for size in range(4, len(words))), topic):
        yield questions.Question(subject, questions.KNOWN.format(subject), subject)


def _act(text: str, naming: Naming) -> tuple[str, str]:
    """Return the root of the noun that is a statement's subject, and the base form of its verb."""
    clause = questions.read_clause(text, naming)
    head = re.split(r" (?:in|of|at|on|for|from|with|to|by) ", clause.subject)[0] if clause is not None else ""
    found = read_words(head).roots
    return (found[-1], clause.base) if clause is not None and found else ("", "")


def _asked(
    names: Sequence[str], texts: Sequence[str], naming: Naming, english: bool, about: Callable[[str], bool]
) -> Iterator[questions.Question]:
    """Yield questions that several insights answer, best first. `names`: phrases that they share, best first. `about`: whether
    their documents are about a phrase."""
    when, where = (_when(texts), _where(texts)) if english else ("", "")

    def there(subject: str) -> str:
        return "" if where.removeprefix(" in ") in subject else where

    if len({_act(text, naming) for text in texts}) == 1:
        clauses = [clause for text in texts if (clause := questions.read_clause(text, naming)) is not None]
        shortest = min(clauses, key=lambda clause: len(clause.subject), default=None)
        for known, question in questions.of_clauses(clauses, shortest) if shortest is not None else ():
            subject = shortest.subject if shortest else ""
            there_and_then = f"{there(subject)}{when}"
            asked = questions.Question(
                subject + there_and_then, f"{question}{there_and_then}", f"{subject} {known}{there_and_then}"
            )
            if naming.value(subject) >= FEWEST or question.startswith(questions.OF_THE_TOPIC):
                yield asked
    written = sorted((phrase for text in texts for phrase in phrases(text, naming)), key=len) if english else []
    own = [one for text in texts for one in questions.ask(text, naming, about)] if english else []
    for subject in names:
        whole = re.compile(rf"\b(?:the|an?|[A-Z]\S*) (?:\S+ )?(?i:{re.escape(subject)})$")
        named = next((re.sub("^an? ", "the ", found[0]) for one in written if (found := whole.search(one))), "")
        uncountable = re.search("(?:tion|ity|ness|ment|ance|ence|ware)$", subject)
        counted = not uncountable and re.search(
            rf"\b(?:the|an?|this) {re.escape(subject)}(?: (?:is|are|was|of|in|to|and|or|that|can|will|has)\b|[^\w\s]|$)",
            " ".join(texts),
            re.I,
        )
        named = named or (with_article(subject) if (" " in subject and not uncountable) or counted else subject)
        yield from (one for one in own if one.text in (f"What {be} {name}" for be in ("is", "are") for name in (named, subject)))
        holding = [text for text in texts if subject.lower() in text.lower()] or texts
        kind = questions.kind_of(holding) if english else questions.KNOWN
        for more in dict.fromkeys((f"{there(subject)}{when}", when, "")):
            question = f"{kind.format(named)}{more}"
            yield questions.Question(f"{subject}{more}", question, question)


def _when(texts: Sequence[str]) -> str:
    """Return ` in July 2021` if most insights name a month, and all of these the same one; else an empty string."""
    dates = [{" ".join(found) for found in questions.MONTH.findall(text)} for text in texts]
    named = [found for found in dates if found]
    common = set.intersection(*named) if named else set()
    return f" in {min(common)}" if common and 2 * len(named) > len(texts) else ""


def _where(texts: Sequence[str]) -> str:
    """Return ` in Frankfurt` if all insights share the place; else an empty string."""
    named = [{place for place in _PLACE.findall(text) if place.split()[0] not in MONTHS} for text in texts]
    common = set.intersection(*named)
    return f" in {min(common)}" if common else ""


def _weight(key: tuple[str, ...], surface: str) -> float:
    """Return how well a phrase names a subject. Names and phrases of several words name it better than a single word."""
    return (1 + 0.6 * (min(len(key), _LONGEST) - 1)) * (1.3 if surface != surface.lower() else 1.0)


def _proper(insights: Sequence[str]) -> set[str]:
    """Return the names: words that are usually capitalized. If a word occurs only at the beginning of sentences, it counts as a
    name if a verb follows it."""
    capital, small, first = Counter[str](), Counter[str](), set[str]()
    for text in insights:
        found = [*re.finditer(r"[^\W\d_][\w-]*", text)]
        words = [match.group() for match in found]
        for match in found[1:]:
            word = match.group()
            if word == word.lower():
                small[word] += 1
            elif text[: match.start()].rstrip(' "“(')[-1:] not in ".:;!?":
                capital[word.lower()] += 1
        if (
            len(words) > 2
            and not words[0].endswith(("s", "ing", "ed"))
            and not (len(words[0]) > 5 and words[0].endswith("ly"))
            and is_verb(words[1].lower(), words[0].lower(), words[2].lower())
        ):
            first.add(words[0].lower())
    return {word for word, n in capital.items() if n > small[word]} | {word for word in first if not small[word]}


def _phrases(text: str, naming: Naming) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the noun phrases of a statement and their ends as (roots, words), longest first."""
    text = re.sub(r"\s*\([^)]*\)", "", text)
    found = finite_verb(text)
    for run, begin, _ in runs(text, naming, {found.start()} if found else ()):
        yield from _ends(run, text[:begin])


def _words(text: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the longer words of a statement in a language other than English, in quotation marks."""
    found = words_of(text)
    longest = sorted({word for word in found if word.isalpha() and len(word) > 1}, key=lambda word: (-len(word), word))
    for word in longest[: max(3, len(longest) // 2)]:
        script = next((letters for letters in _SCRIPTS if re.match(letters, word)), r"\w")
        whole = re.search(f"{script}*{re.escape(word)}{script}*", text, re.IGNORECASE)
        yield (word,), f"“{whole[0] if whole else word}”"


def _ends(run: Sequence[str], before: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the last three, two and one words of a run, if they name a subject."""
    if not run:
        return
    last = run[-1]
    plain = last == last.lower()
    if (len(last) < 3 and len(run) < 2) or not is_noun_phrase(run, before):
        return
    small = next((place for place, word in enumerate(reversed(run)) if word == word.lower()), len(run))
    for size in range(min(max(_LONGEST, small), len(run)), 0, -1):
        words = run[-size:]
        if (
            words[0].lower() in VAGUE
            or words[0][0].isdigit()
            or (size == 1 and (last.lower() in VAGUE or (plain and len(last) < 4)))
        ):
            continue
        if words[0] == words[0].lower() and size > 1 and re.search(r"(?:ly|ing)$", words[0]):
            continue
        # A name with a number is one thing: "EIP-1352".
        numbered = [(word.lower(),) if re.search(r"\d", word) else read_words(word.lower()).roots for word in words]
        roots = tuple(chain.from_iterable(numbered))
        if roots:
            yield roots, " ".join(words)
