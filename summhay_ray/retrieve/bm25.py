"""BM25 with an inverted index: `bm25`, and `{bm25: split|words|stems|wordnet}` for its tokenizations.

The scores equal those of rank_bm25's BM25Okapi (k1 1.5, b 0.75, weight of common terms 0.25 of the mean weight) on a corpus of
any size. rank_bm25 looks every query term up in every document; bm25s does not, and has no such weight of common terms.
tools/bm25_costs.py measures the cost of each.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from summhay_ray.plugins import UnknownName, unknown
from summhay_ray.retrieve.base import Ranked, best_first
from summhay_ray.retrieve.corpus import Corpus, Query
from summhay_ray.retrieve.per_corpus import PerCorpus
from summhay_ray.retrieve.plain import OfWords
from summhay_ray.retrieve.summhay_words import stop_words, word_tokens
from summhay_ray.text import whole_nltk, words_of

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
    stop = stop_words()
    return [term for term in _WORD.findall(text.lower()) if term not in stop]


def _stems(text: str) -> list[str]:
    """Snowball stems (Porter 2) of `_words`."""
    return [_stem(term) for term in _words(text)]


def _any_words(text: str) -> list[str]:
    """The words that ICU finds in a text of any script; ASCII words are the same as in `_words`."""
    return [term for word in words_of(text) for term in (_words(word) if word.isascii() else [word])]


def _any_stems(text: str) -> list[str]:
    """`_any_words`, with stems of ASCII words."""
    return [_stem(term) if term.isascii() else term for term in _any_words(text)]


def _wordnet(text: str) -> list[str]:
    """Porter stems of WordNet's noun lemmas: the second BM25 of ODSum's release, used for its Table 6 and story rankings."""
    terms = word_tokens(_NO_WORD.sub("", text.lower()))
    left_out = stop_words().union(_STORY_WORDS)
    return [_lemma_stem(term) for term in terms if term not in left_out]


@functools.lru_cache(maxsize=200_000)
def _lemma_stem(term: str) -> str:
    lemmatizer, stemmer = _wordnets()
    stem: str = stemmer.stem(lemmatizer.lemmatize(term))
    return stem


@functools.cache
def _wordnets() -> tuple[Any, Any]:
    """NLTK's WordNet lemmatizer and Porter stemmer. Raises UnknownName if WordNet's data is not installed."""
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
_ANY_TERMS: Mapping[Tokenization, Callable[[str], list[str]]] = {**_TERMS, "words": _any_words, "stems": _any_stems}
"""The terms of corpora that are not Latin. `split` and `wordnet` follow the release, whatever the script."""


class Index:
    """An inverted index of documents given as lists of terms. `floor`: minimum weight of a term; None for no minimum."""

    def __init__(self, documents: Iterable[Sequence[str]], floor: float | None = None) -> None:
        import numpy as np
        from scipy.sparse import csr_array

        columns: defaultdict[str, int] = defaultdict(itertools.count().__next__)
        terms, frequencies, ends, lengths = array("i"), array("i"), array("q", [0]), array("q")
        for document in documents:
            found = Counter(document)
            terms.extend(map(columns.__getitem__, found))
            frequencies.extend(found.values())
            ends.append(len(terms))
            lengths.append(len(document))
        self._columns = dict(columns)
        """Term -> its index in the order of first occurrence."""
        n_documents = len(lengths)
        by_document = csr_array((frequencies, terms, ends), shape=(n_documents, len(columns)))
        self._by_term = by_document.tocsc()
        """(documents, terms): how often a document contains a term."""
        spread = np.diff(self._by_term.indptr)
        weight_of = {n: math.log(n_documents - n + 0.5) - math.log(n + 0.5) for n in set(spread.tolist())}
        weights = np.array([weight_of[n] for n in spread.tolist()])
        # Summed one by one, as in rank_bm25; numpy's `sum` adds in pairs.
        mean = float(np.cumsum(weights)[-1]) / len(weights) if len(weights) else 0.0
        weights = np.where(weights >= 0, weights, EPSILON * mean)
        self._weights = weights if floor is None else np.maximum(weights, floor)
        """(terms,) inverse document frequencies."""
        of_words = np.array(lengths)
        self._norm = K1 * (1 - B + B * of_words / (int(of_words.sum()) / n_documents)) if columns else of_words

    def scores(self, terms: Sequence[str]) -> NDArray[np.float64]:
        """One score per document; a term that occurs twice in `terms` counts twice."""
        import numpy as np

        scores = np.zeros(len(self._norm))
        for column in (self._columns[term] for term in terms if term in self._columns):
            start, end = self._by_term.indptr[column : column + 2]
            documents, frequency = self._by_term.indices[start:end], self._by_term.data[start:end]
            scores[documents] += self._weights[column] * (frequency * (K1 + 1) / (frequency + self._norm[documents]))
        return scores


def _terms(tokenization: Tokenization, latin: bool) -> Callable[[str], list[str]]:
    return (_TERMS if latin else _ANY_TERMS)[tokenization]


def _index(tokenization: Tokenization, latin: bool) -> Callable[[Corpus], Index]:
    # With few documents, the mean weight, and so the weight of common terms, can be negative: a document would lose score by
    # containing a query term. `split` and `wordnet` keep that, as the release does.
    floor = None if tokenization in ("split", "wordnet") else 0.0
    return lambda corpus: Index(map(_terms(tokenization, latin), corpus.texts), floor)


_INDEXES = {(name, latin): PerCorpus(_index(name, latin)) for name in _TERMS for latin in (True, False)}


class Bm25(OfWords):
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

    def ranking(self, query: Query, corpus: Corpus) -> Sequence[Ranked]:
        """All documents, best first; a document without any term of the query scores 0."""
        latin = self.latin(corpus)
        index, terms = _INDEXES[self.tokenization, latin](corpus), _terms(self.tokenization, latin)(query.text)
        # The release sorts in ascending order and reverses: among equal scores the later document comes first.
        return best_first(len(corpus.texts), lambda: index.scores(terms), later_first=self.tokenization == "wordnet")
