"""The free support judge: it decides whether a document supports a bullet, by comparing words.

1. A document is read in windows of two sentences. A window is a bag of word roots and numbers, weighted by their rarity among the
   sentences of the haystack (TF-IDF). Its similarity to a bullet is the cosine.
2. Documents state the same fact in different words. So a window's similarity is averaged with that of similar windows in other
   documents. The words of the best windows then expand the bullet, and the similarity is computed again.
3. A document's similarity is that of its best window. The same similarity counts more if even the best document of the haystack
   is not very similar to the bullet.
4. A document that contradicts the bullet (another number, date or name, or a denial) never supports it.

If there are too few documents for this, `lexical_model.py` judges each document alone.

The constants below were chosen on the two released news haystacks, with the original documents and with some of their words
replaced.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from scipy import sparse

from summhay_ray.citations.lexical_model import lexical_features, lexical_value
from summhay_ray.text import FUNCTION_WORDS, find_contradictions, is_latin, plain_words, read_prose, root, values_of, words_of

Floats = npt.NDArray[np.float64]

SUPPORT_JUDGE = "offline/support-judge"
SUPPORT_REVISION = "12"
"""The judge's revision, part of the key of its judgments. Increase it when the judge's values or its repairs change."""
SUPPORTED, PARTLY = 0.5, 0.25
"""Minimum value of a document that supports the bullet, and minimum value of one that supports it partly."""
_ALIKE, _SHARPNESS, _FEW = 0.1, 6, 0.2
"""Two windows are alike if their cosine is above `_ALIKE`. The cosine to the power `_SHARPNESS` is their weight. Alike windows
count less if the nearest cosine is below `_FEW`."""
_SHARED = 0.7
"""Maximum weight of alike windows in a window's averaged similarity."""
_MOST_ALIKE = 30
_SEEDS, _NEAR, _FOCUS = 8, 0.4, 3
"""A bullet is expanded by the best windows of at most `_SEEDS` documents. A document's similarity, divided by that of the best
document, must be at least `_NEAR`; this ratio to the power `_FOCUS` is the weight of its window."""
_ALONE = 0.5
"""A document's similarity is at least this share of its similarity to the bullet's own words."""
_RELATIVE, _LEAST_BEST = 0.25, 0.05
"""Similarities are divided by the best document's similarity to the power `_RELATIVE`. The best similarity counts as at least
`_LEAST_BEST`."""
_EVEN, _STEEP = 0.32, 12.0
"""The similarity that gives the value 0.5, and the slope of the logistic curve there."""
_OF_BEST, _LEAST, _MOST = 0.5, 0.24, 0.4
"""A document is worth citing if its similarity reaches a threshold: `_OF_BEST` times the best document's similarity, clipped to
`_LEAST` and `_MOST`."""
_BELIEVED, _AT_LEAST = 2.0, 0.1
"""An averaged similarity is capped at `_BELIEVED` times the window's own similarity, plus `_AT_LEAST`."""
_NUMBERS = 0.2
"""A document's similarity is reduced by this share if it has none of the bullet's numbers, and by less if it has some."""
_CONTRADICTED = 0.45
"""Factor on the value of a document that contradicts the bullet. The product is always below `SUPPORTED`."""
_AROUND = 5
"""Number of sentences before and after a window that are searched for contradictions, too."""
_MOST_POSTED = 2000
"""Facts that occur in more windows than this are ignored when windows are compared. So the time stays linear."""
_ADDED = 0.5
"""A repair adds a document only if its similarity to the bullet's own words is at least this share of the best document's."""
_HAYSTACK = 10
"""Minimum number of documents for a judgment from TF-IDF weights and alike windows (see `_ALIKE`). With fewer, `lexical_model`
judges each document alone."""
_AT_ONCE = 256
_FEWEST_WORDS, _FOREIGN, _ENGLISH = 6, 0.08, 0.2
"""Minimum number of words of an English bullet, its minimum share of English function words, and the minimum share in an English
document."""
_UNKNOWN_LETTERS, _FEWEST_FOREIGN = 0.08, 2
"""A bullet is in a foreign language if this share of its letters occurs in no document, or if it has this many words of
`_FOREIGN_WORDS`."""
_FOREIGN_WORDS = frozenset(
    re.findall(
        r"\w+",
        """
        der das und nicht ist ein eine mit von zu den dem im auf für wurde wurden sich
        le les des et est une dans que pour pas sur du ne qui aux
        el los las en una por con del se su fue
        il che di non gli della sono più
        os não uma em da dos com foi
        het een van niet te dat zijn ook op
        """,
    )
)
"""Frequent function words of German, French, Spanish, Italian, Portuguese and Dutch that are not English words."""
_FACT = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+(?:['’][^\W\d_]+)?")
_MARKS = re.compile(r"^(?:[#>*\-+•|\s]|\d{1,3}[.)]\s)+|\*\*|__|`")
_CITES = re.compile(r"\[[^\[\]]{1,300}\]")


@dataclass(frozen=True, slots=True)
class Supports:
    """How well the documents support some bullets. Arrays have the shape (bullets, documents)."""

    values: Floats
    """How well a document supports a bullet, 0 to 1."""
    worth: npt.NDArray[np.bool_]
    """Whether a document is worth citing, judged by its similarity relative to the bullet's best document."""
    added: npt.NDArray[np.bool_]
    """Whether a repair may add the document. It must be worth citing, and similar to the bullet's own words. Nothing is added to
    a bullet that most documents of the haystack support."""
    copied: Floats
    """The highest similarity between the bullet and any sentence of the document; 1 for a copied sentence."""
    evidence: Sequence[Sequence[str]]
    """The most similar sentence of each document, for each bullet."""
    foreign: Sequence[bool]
    """Whether a bullet is in another language than the documents. The judge cannot compare it with them."""
    blank: Sequence[bool]
    """Whether a bullet has no words."""


def verdict_of(value: float) -> str:
    """Return `supported`, `partly` or `not` for a value."""
    return "supported" if value >= SUPPORTED else "partly" if value >= PARTLY else "not"


class SupportIndex:
    """An index of one haystack's documents, with which bullets are compared."""

    def __init__(self, documents: Sequence[str]) -> None:
        self.n_documents = len(documents)
        self._sentences: list[str] = []
        owners: list[int] = []
        facts: list[list[str]] = []
        for number, document in enumerate(documents):
            latin = is_latin(document)
            for sentence in [statement.text for statement in read_prose(document).statements] or [document]:
                self._sentences.append(" ".join(_MARKS.sub("", sentence).split()))
                owners.append(number)
                facts.append(_facts(sentence, latin))
        sample = " ".join(document[:2000] for document in documents[:50])
        self._language = is_latin(sample), _share_english(sample) >= _ENGLISH
        self._letters = frozenset("".join(documents).lower())
        self._places: dict[str, int] = {}
        for found in facts:
            for fact in found:
                self._places.setdefault(fact, len(self._places))
        self._owners = np.array(owners, dtype=np.int64)
        self._bounds = np.searchsorted(self._owners, np.arange(self.n_documents + 1)).tolist()
        """The index of each document's first sentence; the last entry is the number of sentences."""
        self._few = self.n_documents < _HAYSTACK
        self._facts = facts if self._few else []
        holders: dict[str, set[int]] = {}
        for owner, found in zip(owners, facts, strict=True):
            for fact in found:
                if fact.startswith("#"):
                    holders.setdefault(fact, set()).add(owner)
        self._holders = {number: sorted(of) for number, of in holders.items()}
        """Number in a text -> the documents that contain it."""
        bags = self._bags(facts)
        held = np.bincount(bags.indices, minlength=len(self._places))
        self._weights = sparse.diags_array(np.log((1 + len(owners)) / (1 + held)) + 1)
        self._single = _unit(bags @ self._weights)
        # A window is a sentence and the next one of its document.
        n = len(owners)
        before = np.flatnonzero(self._owners[:-1] == self._owners[1:]) if n else np.zeros(0, dtype=np.int64)
        follows = sparse.csr_array((np.ones(before.size), (before, before + 1)), (n, n))
        self._windows = _unit(sparse.csr_array(bags + follows @ bags) @ self._weights)
        self._by_word = self._single.T.tocsr(), self._windows.T.tocsr()
        self._like, self._trust = self._likenesses()

    def support(self, bullets: Sequence[str]) -> Supports:
        """Return how well each document supports each bullet. Citations in the bullets are ignored."""
        read = [_CITES.sub(" ", bullet) for bullet in bullets]
        latin = [is_latin(bullet) for bullet in read]
        facts = [_facts(bullet, one) for bullet, one in zip(read, latin, strict=True)]
        asked = _unit(self._bags(facts) @ self._weights)
        asked = sparse.csr_array(sparse.diags_array(self._known(facts, asked)) @ asked)
        values = np.zeros((len(read), self.n_documents))
        own = np.zeros(values.shape)
        copied = np.zeros(values.shape)
        evidence: list[list[str]] = []
        windows = np.zeros(values.shape, dtype=np.int64)
        for begin in range(0, len(read), _AT_ONCE):
            part = slice(begin, begin + _AT_ONCE)
            values[part], windows[part], own[part] = self._likeness(asked[part])
            single = (asked[part] @ self._by_word[0]).toarray()
            copied[part], _ = self._of_documents(single)
            evidence += self._evidence(single, windows[part])
        lacking = np.zeros((len(facts), self.n_documents))
        for row, found in enumerate(facts):
            numbers = [fact for fact in dict.fromkeys(found) if fact.startswith("#")]
            for number in numbers:
                lacking[row] += 1 / len(numbers)
                lacking[row, self._holders.get(number, [])] -= 1 / len(numbers)
        values *= 1 - _NUMBERS * lacking
        top = np.maximum(values.max(axis=1, keepdims=True, initial=0.0), _LEAST_BEST)
        likeness = values * top**-_RELATIVE
        sure = 1 / (1 + np.exp(-_STEEP * (likeness - _EVEN)))
        # Without a shared word, a document does not support a bullet.
        sure[likeness <= 0] = 0.0
        nearest = likeness.max(axis=1, keepdims=True, initial=0.0)
        worth = likeness >= np.clip(_OF_BEST * nearest, _LEAST, _MOST)
        if self._few:
            sure = np.array([[lexical_value(one) for one in self.features_of_few(bullet)] for bullet in read]).reshape(sure.shape)
            worth = sure >= SUPPORTED
        foreign = [self._is_foreign(bullet, one) for bullet, one in zip(read, latin, strict=True)]
        # Cap the value of a document that contradicts the bullet, and never cite it.
        for place, document in np.argwhere((sure >= SUPPORTED) | worth).tolist():
            begin, end = self._bounds[document : document + 2]
            window = windows[place, document]
            near = self._sentences[max(begin, window - _AROUND) : min(end, window + 2 + _AROUND)]
            if find_contradictions(read[place], near):
                sure[place, document] *= _CONTRADICTED
                worth[place, document] = False
        added = worth.copy()
        if not self._few:
            added &= own >= _ADDED * own.max(axis=1, keepdims=True, initial=0.0)
            added[2 * worth.sum(axis=1) > self.n_documents] = False
        return Supports(sure, worth, added, copied, evidence, foreign, [not re.search(r"\w", bullet) for bullet in read])

    def passages(self, bullet: str, document: int, most: int) -> list[str]:
        """Return the windows of a document that are most similar to a bullet, best first. If they share no word, for example
        because the languages differ, return all windows."""
        latin = is_latin(bullet)
        begin, end = self._bounds[document : document + 2]
        asked = _unit(self._bags([_facts(_CITES.sub(" ", bullet), latin)]) @ self._weights)
        near = (asked @ self._windows[begin:end].T).toarray()[0]
        order = np.argsort(-near, kind="stable")[: most if near.any() else None]
        return [" ".join(self._sentences[begin + place : min(begin + place + 2, end)]) for place in order.tolist()]

    def features_of_few(self, bullet: str) -> list[tuple[float, ...]]:
        """Return the features (`lexical_model.FEATURES`) of a bullet and each document, for a haystack of fewer than ten
        documents."""
        plain = _CITES.sub(" ", bullet)
        latin, values = is_latin(bullet), values_of(plain)
        sentences = []
        for said, facts in zip(self._sentences, self._facts, strict=True):
            # If the document gives a value in another form, such as 120 minutes for 2 hours, treat it as the bullet's form.
            known = values_of(said) if values else {}
            shared = [one for one in values if one in known]
            sentences.append([*facts, *(fact for one in shared for fact in _facts(values[one], latin) if fact not in facts)])
        return [lexical_features(_facts(plain, latin), sentences[begin:end]) for begin, end in pairwise(self._bounds)]

    def _likeness(self, asked: sparse.csr_array) -> tuple[Floats, npt.NDArray[np.int64], Floats]:
        """Return each document's similarity, its best window, and its similarity to the bullet's own words."""
        alone = (asked @ self._by_word[1]).toarray()
        first = self._averaged(alone, alone)
        likeness, best = self._of_documents(first)
        # Expand the bullet by the words of its best windows, normalized to length 1.
        share = likeness / np.maximum(likeness.max(axis=1, keepdims=True, initial=0.0), 1e-9)
        order = np.argsort(-share, axis=1, kind="stable")[:, :_SEEDS]
        shares = np.take_along_axis(share, order, axis=1)
        weights = np.where(shares >= _NEAR, shares**_FOCUS, 0.0)
        rows = np.repeat(np.arange(likeness.shape[0]), order.shape[1])
        windows = np.take_along_axis(best, order, axis=1)
        taken = sparse.csr_array((weights.ravel(), (rows, windows.ravel())), (likeness.shape[0], self._windows.shape[0]))
        widened = _unit(asked + _unit(taken @ self._windows))
        second = self._averaged((widened @ self._by_word[1]).toarray(), alone)
        both, _ = self._of_documents(second)
        own, _ = self._of_documents(alone)
        return np.maximum((likeness + both) / 2, _ALONE * own), best, own

    def _averaged(self, likeness: Floats, alone: Floats) -> Floats:
        """Return each window's similarity, averaged with that of alike windows in other documents.

        `alone`: the windows' similarity to the bullet's own words, which caps the result.
        """
        averaged: Floats = (1 - self._trust) * likeness + self._trust * (self._like @ likeness.T).T
        believed: Floats = np.minimum(averaged, _BELIEVED * alone + _AT_LEAST)
        return believed

    def _known(self, facts: Sequence[Sequence[str]], asked: sparse.csr_array) -> Floats:
        """Return the norm of each bullet's known words divided by the norm of all its words. An unknown word weighs as much as
        the rarest known word."""
        rarest = math.log(1 + self._owners.size) + 1
        known = np.sqrt(np.asarray(asked.multiply(asked).sum(axis=1)).ravel())
        found = self._bags(facts) @ self._weights
        length = np.asarray(found.multiply(found).sum(axis=1)).ravel()
        unknown = np.array([sum(fact not in self._places for fact in one) for one in facts])
        share: Floats = known * np.sqrt(length / np.maximum(length + unknown * rarest**2, 1e-9))
        return share

    def _of_documents(self, likeness: Floats) -> tuple[Floats, npt.NDArray[np.int64]]:
        found = np.zeros((likeness.shape[0], self.n_documents))
        best = np.zeros((likeness.shape[0], self.n_documents), dtype=np.int64)
        rows = np.arange(likeness.shape[0])
        for document, (begin, end) in enumerate(pairwise(self._bounds)):
            if end > begin:
                best[:, document] = begin + likeness[:, begin:end].argmax(axis=1)
                found[:, document] = likeness[rows, best[:, document]]
        return found, best

    def _evidence(self, single: Floats, best: npt.NDArray[np.int64]) -> list[list[str]]:
        """Return, for each best window, the one of its two sentences that is more similar to the bullet. `single`: the similarity
        of each sentence."""
        if not self._sentences:
            return [[""] * self.n_documents for _ in range(single.shape[0])]
        after = np.minimum(best + 1, len(self._sentences) - 1)
        after = np.where(self._owners[after] == self._owners[best], after, best)
        better = np.take_along_axis(single, after, axis=1) > np.take_along_axis(single, best, axis=1)
        chosen = np.where(better, after, best)
        return [[self._sentences[place] for place in row] for row in chosen.tolist()]

    def _is_foreign(self, bullet: str, latin: bool) -> bool:
        if not bullet.strip() or not self._sentences:
            return False
        own_latin, english = self._language
        if latin != own_latin:
            return bool(re.search(r"[^\W\d_]", bullet))
        if not latin or len(plain_words(bullet)) < _FEWEST_WORDS:
            return False
        share = _share_english(bullet)
        found = _facts(bullet, latin)
        known = sum(fact in self._places for fact in found) / max(1, len(found))
        if known >= 0.5:
            return False
        if not english:
            return share >= _ENGLISH
        # Short English text may have as few function words as another language has. So text without signs of another language
        # counts as English.
        letters = [letter for letter in bullet.lower() if letter.isalpha()]
        unknown = sum(letter not in self._letters for letter in letters)
        signs = _FOREIGN_WORDS.intersection(plain_words(bullet))
        return share < _FOREIGN and (unknown >= _UNKNOWN_LETTERS * len(letters) or len(signs) >= _FEWEST_FOREIGN)

    def _bags(self, facts: Sequence[Sequence[str]]) -> sparse.csr_array:
        rows = [row for row, found in enumerate(facts) for fact in found if fact in self._places]
        columns = [self._places[fact] for found in facts for fact in found if fact in self._places]
        bags = sparse.csr_array((np.ones(len(rows)), (rows, columns)), (len(facts), len(self._places)))
        bags.sum_duplicates()
        return bags

    def _likenesses(self) -> tuple[sparse.csr_array, Floats]:
        """Return a matrix with the normalized weights of each window's alike windows, and the total weight of these in its
        average."""
        n = self._windows.shape[0]
        posted = np.bincount(self._windows.indices, minlength=self._windows.shape[1])
        telling = sparse.csr_array(self._windows @ sparse.diags_array((posted <= _MOST_POSTED).astype(np.float64)))
        across = telling.T.tocsr()
        rows, columns, shares = [], [], []
        nearest = np.zeros(n)
        for begin in range(0, n, _AT_ONCE):
            alike = (telling[begin : begin + _AT_ONCE] @ across).tocoo()
            one, two, cosine = alike.row + begin, alike.col, alike.data
            kept = (cosine > _ALIKE) & (self._owners[one] != self._owners[two])
            one, two, cosine = one[kept], two[kept], np.round(cosine[kept], 9)
            order = np.lexsort((two, -cosine, one))
            one, two, cosine = one[order], two[order], cosine[order]
            first = np.arange(one.size) - np.searchsorted(one, one) < _MOST_ALIKE
            one, two, cosine = one[first], two[first], cosine[first]
            np.maximum.at(nearest, one, cosine)
            rows.append(one)
            columns.append(two)
            shares.append(cosine**_SHARPNESS)
        entries = (np.concatenate(shares), (np.concatenate(rows), np.concatenate(columns))) if rows else ([], ([], []))
        like = sparse.csr_array(entries, (n, n))
        total = np.asarray(like.sum(axis=1)).ravel()
        share = sparse.diags_array(1 / np.where(total > 0, total, 1.0))
        return sparse.csr_array(share @ like), _SHARED * np.minimum(1.0, nearest / _FEW)


def _facts(text: str, latin: bool) -> list[str]:
    """Return the roots of a text's words, and its numbers; function words are left out."""
    if not latin:
        return [f"#{word}" if word.isdecimal() else word for word in words_of(text)]
    found = []
    for word in _FACT.findall(text.lower().replace("’", "'")):
        plain = word.removesuffix("'s")
        if plain[0].isdigit():
            found.append("#" + plain.replace(",", ""))
        elif len(plain) > 1 and word not in FUNCTION_WORDS:
            found.append(root(plain))
    return found


def _share_english(text: str) -> float:
    words = plain_words(text)
    return sum(word in FUNCTION_WORDS for word in words) / max(1, len(words))


def _unit(bags: sparse.csr_array) -> sparse.csr_array:
    lengths = np.sqrt(np.asarray(bags.multiply(bags).sum(axis=1)).ravel())
    return sparse.csr_array(sparse.diags_array(1 / np.where(lengths > 0, lengths, 1.0)) @ bags)
