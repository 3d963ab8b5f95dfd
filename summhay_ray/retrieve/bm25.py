"""BM25 with an inverted index: `bm25`, and `{bm25: split|words|stems|wordnet}` for its tokenizations. Part of `retrieve`.

The scores equal, to the last bit, those of rank_bm25's BM25Okapi (k1 1.5, b 0.75, weight of common terms 0.25 of the mean
weight), which reads every document for every query term.
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from summhay_ray.plugins import UnknownName, unknown
from summhay_ray.retrieve.base import Ranked, by_score
from summhay_ray.retrieve.corpus import Corpus, Query
from summhay_ray.retrieve.per_corpus import PerCorpus
from summhay_ray.retrieve.plain import OverCorpus
from summhay_ray.retrieve.summhay_words import stop_words, word_tokens
from summhay_ray.text import whole_nltk

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Tokenization = Literal["split", "words", "stems", "wordnet"]
K1, B, EPSILON = 1.5, 0.75, 0.25
_WORD = re.compile(r"[^\W_]+")
_NO_WORD = re.compile(r"[^\w\s]")
_STORY_WORDS = ("plot", "story", "setting")


def _split(text: str) -> list[str]:
    """The strings between single spaces, unchanged: `str.split(" ")`, the tokenization of ODSum's release."""
    return text.split(" ")


def _words(text: str) -> list[str]:
    """Runs of letters and digits, in lower case, without English stop words: `post-SVB` is two terms, `?` none."""
    return [term for term in _WORD.findall(text.lower()) if term not in stop_words()]


def _stems(text: str) -> list[str]:
    """Snowball stems (Porter 2) of `_words`."""
    return [_stem(term) for term in _words(text)]


def _wordnet(text: str) -> list[str]:
    """Porter stems of WordNet's noun lemmas: the second BM25 of ODSum's release, used for its Table 6 and story rankings."""
    terms = word_tokens(_NO_WORD.sub("", text.lower()))
    return [_lemma_stem(term) for term in terms if term not in stop_words() and term not in _STORY_WORDS]


@functools.lru_cache(maxsize=200_000)
def _lemma_stem(term: str) -> str:
    lemmatizer, stemmer = _wordnets()
    stem: str = stemmer.stem(lemmatizer.lemmatize(term))
    return stem


@functools.cache
def _wordnets() -> tuple[Any, Any]:
    """NLTK's WordNet lemmatizer and Porter stemmer. Raises UnknownName where WordNet's data is not installed."""
    stem = whole_nltk().stem
    lemmatizer = stem.WordNetLemmatizer()
    try:
        lemmatizer.lemmatize("geese")
    except LookupError:
        mend = "run python -m nltk.downloader wordnet, or take {bm25: stems}"
        raise UnknownName(f"{{bm25: wordnet}} needs WordNet's data, which is not installed; {mend}") from None
    return lemmatizer, stem.PorterStemmer()


@functools.lru_cache(maxsize=200_000)
def _stem(term: str) -> str:
    stem: str = _stemmer().stem(term)
    return stem


@functools.cache
def _stemmer() -> Any:
    return whole_nltk().stem.snowball.EnglishStemmer()


_TERMS: Mapping[Tokenization, Callable[[str], list[str]]] = {
    "split": _split,
    "words": _words,
    "stems": _stems,
    "wordnet": _wordnet,
}


class Index:
    """An inverted index of documents given as lists of terms. `floor`: minimum weight of a term; None for no minimum."""

    def __init__(self, documents: Sequence[Sequence[str]], floor: float | None = None) -> None:
        import numpy as np

        self._frequencies: dict[str, dict[int, int]] = {}
        """Term -> index of a document with the term -> how often it occurs there."""
        for index, terms in enumerate(documents):
            for term, frequency in Counter(terms).items():
                self._frequencies.setdefault(term, {})[index] = frequency
        n_documents = len(documents)
        self._weights = [math.log(n_documents - n + 0.5) - math.log(n + 0.5) for n in range(n_documents + 1)]
        """Inverse document frequency of a term that occurs in so many documents."""
        total = 0.0
        # A loop, since `sum` is more exact from Python 3.12 on and would differ from rank_bm25.
        for found in self._frequencies.values():
            total += self._weights[len(found)]
        self._common = EPSILON * (total / max(1, len(self._frequencies)))
        """The weight that replaces a negative one."""
        self._floor = floor
        lengths = np.array([len(terms) for terms in documents])
        self._norm = K1 * (1 - B + B * lengths / (int(lengths.sum()) / n_documents)) if self._frequencies else lengths
        self._postings: dict[str, tuple[NDArray[np.int64], NDArray[np.float64]]] = {}

    def scores(self, terms: Sequence[str]) -> NDArray[np.float64]:
        """One score per document; a term that occurs twice in `terms` counts twice."""
        import numpy as np

        scores = np.zeros(len(self._norm))
        for term in terms:
            if term in self._frequencies:
                indices, added = self._posting(term)
                scores[indices] += added
        return scores

    def _posting(self, term: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Indices of the documents with the term, and the score that it adds to each. Made when a query first has the term."""
        import numpy as np

        if term not in self._postings:
            found = self._frequencies[term]
            indices, frequency = (np.fromiter(values, dtype=np.int64, count=len(found)) for values in (found, found.values()))
            weight = self._weights[len(found)]
            weight = weight if weight >= 0 else self._common
            weight = weight if self._floor is None else max(weight, self._floor)
            self._postings[term] = indices, weight * (frequency * (K1 + 1) / (frequency + self._norm[indices]))
        return self._postings[term]


def _index(tokenization: Tokenization) -> Callable[[Corpus], Index]:
    # With few documents the mean weight, and so the weight of common terms, can be negative: a document would lose score by
    # containing a query term. `split` and `wordnet` keep that, as the release does.
    floor = None if tokenization in ("split", "wordnet") else 0.0
    return lambda corpus: Index([_TERMS[tokenization](text) for text in corpus.texts], floor)


_INDEXES = {name: PerCorpus(_index(name)) for name in _TERMS}


class Bm25(OverCorpus):
    """Okapi BM25. The name `bm25` means tokenization `words`, whose scores are never negative."""

    name: ClassVar[str] = "bm25"
    whole: ClassVar[bool] = False

    def __init__(self, argument: str = "", seed: int = 0, tokenization: str = "words") -> None:
        if argument:
            raise UnknownName(
                f"retriever 'bm25' takes nothing behind a slash; leave {f'/{argument}'!r} out, or write {{bm25: split}}, "
                "{bm25: words}, {bm25: stems} or {bm25: wordnet}"
            )
        if tokenization not in get_args(Tokenization):
            raise unknown("tokenization of bm25", tokenization, get_args(Tokenization))
        if tokenization == "wordnet":
            _wordnets()
        self.tokenization: Any = tokenization

    def ranking(self, query: Query, corpus: Corpus) -> list[Ranked]:
        """All documents, best first; a document without any term of the query scores 0."""
        scores = _INDEXES[self.tokenization](corpus).scores(_TERMS[self.tokenization](query.text)).tolist()
        if self.tokenization == "wordnet":
            # The release sorts in ascending order and reverses: of equal scores the later document comes first.
            order = sorted(range(len(scores)), key=lambda index: (-scores[index], -index))
            return [Ranked(index + 1, float(scores[index])) for index in order]
        return by_score(scores)
