"""Retrievers that compare words: `keywords`, and BM25 as `bm25` or `{bm25: split|words|stems|wordnet}`.

BM25 uses an inverted index. Its scores equal those of rank_bm25's BM25Okapi (k1 1.5, b 0.75, weight of common terms 0.25 of the
mean weight) on a corpus of any size. rank_bm25 looks up every query term in every document. bm25s does not, but it has no such
weight of common terms. tools/bm25_costs.py measures the cost of each.

Words are split as in SummHay's release, by the rules of `nltk.word_tokenize`; nothing is downloaded or unpickled. That function
applies the Punkt sentence splitter for English (here `text/punkt.py`), then a tokenizer after the Penn Treebank's script. The
rules are reimplemented here, since importing NLTK takes seconds. The stop words are in `data/`; data/README.txt names their
source.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from summhay_ray.plugins import UnknownName, unknown
from summhay_ray.retrieve.base import Ranked, best_first, by_score
from summhay_ray.retrieve.baselines import OverCorpus, Plain
from summhay_ray.retrieve.corpus import Corpus, PerCorpus, Query
from summhay_ray.text import Script, is_latin, punkt_sentences, whole_nltk, words_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_APART = r"?!;@#$%&*()\[\]{}<>’\u2012-\u2015"
_PLAIN = re.compile(
    rf"(?:[A-Za-z0-9 \n°{_APART}]++|[,:](?=[ 0-9])|-(?!-)|\.(?= ?[A-Za-z0-9])|(?<=[A-Za-z])'(?=[smdt]\b|[A-Za-z][A-Za-z]))*+\.?"
)
_CONTRACTED = ("cannot", "gimme", "gonna", "gotta", "lemme", "wanna", "d'ye", "more'n")
_MARK = re.compile(rf"[{_APART}]|[,:](?= )")
_RULES = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        # Opening quotation marks. `` stands for quotation marks whose form does not show whether they open a quotation.
        (r"[«“‘„]|`+", r" \g<0> "),
        (r'^"', "``"),
        (r"``", " `` "),
        (r"([ (\[{<])(?:\"|'')", r"\1 `` "),
        (r"(?i)(?<!\w)'(?!(?:re|ve|ll|m|t|s|d|n)\b)(?=\w)", "' "),
        # Punctuation. A full stop is a separate token only at the end of the sentence.
        (r"([^.])(\.)([\])}>\"'»”’ ]*+)\s*$", r"\1 \2 \3 "),
        (r"([:,])(\D)", r" \1 \2"),
        (r"[:,]$", r" \g<0> "),
        (r"\.{2,}|[;@#$%&\u2012-\u2015]", r" \g<0> "),
        (r"([^.])(\.)([\])}>\"']*)\s*$", r"\1 \2\3 "),
        (r"[?!]", r" \g<0> "),
        (r"([^'])' ", r"\1 ' "),
        (r"[*\][(){}<>]|--", r" \g<0> "),
        (r"^|$", " "),
        # Closing quotation marks, and endings such as 's and n't.
        (r"[»”’]", r" \g<0> "),
        (r"''|\"", " '' "),
        (r"\s+", " "),
        (r"([^' ])('[sSmMdD]|') ", r"\1 \2 "),
        (r"([^' ])('ll|'LL|'re|'RE|'ve|'VE|n't|N'T) ", r"\1 \2 "),
    )
)
"""Patterns and replacements, applied to a text in this order. The text is then split at blanks."""
_CONTRACTION = re.compile(
    r"(?i)\b(?:(can)(not)|(d)('ye)|(gim)(me)|(gon)(na)|(got)(ta)|(lem)(me)|(more)('n))\b|\b(wan)(na)(?=\s)",
)
_T_IS = re.compile(r"(?i) ('t)(is|was)\b")
_ENDING = re.compile(r"(?<=[^' ])(?:'[sSmMdD]|'ll|'LL|'re|'RE|'ve|'VE|n't|N'T)(?=\s|$)")


def word_tokens(text: str) -> list[str]:
    """Return the lower-case tokens of `text`, including punctuation, as in the release."""
    return [token.lower() for sentence in punkt_sentences(text) for token in tokens_of(sentence)]


def tokens_of(sentence: str) -> list[str]:
    """Return the tokens of a sentence as NLTK's word tokenizer does. A plain sentence skips most of its patterns."""
    lowered = sentence.lower()
    if _PLAIN.fullmatch(sentence) and not any(word in lowered for word in _CONTRACTED):
        body, end = (sentence[:-1], ".") if sentence.endswith(".") else (sentence, "")
        apart = _MARK.sub(r" \g<0> ", body)
        return [*(_ENDING.sub(r" \g<0>", apart) if "'" in apart else apart).split(), *end]
    for pattern, replacement in _RULES:
        sentence = pattern.sub(replacement, sentence)
    sentence = _CONTRACTION.sub(lambda match: f" {' '.join(filter(None, match.groups()))} ", sentence)
    return _T_IS.sub(r" \1 \2 ", sentence).split()


@functools.cache
def stop_words() -> frozenset[str]:
    """Return NLTK's English stop words, in lower case."""
    file = files("summhay_ray.retrieve") / "data" / "stopwords_english.txt"
    return frozenset(filter(None, file.read_text(encoding="utf-8").split("\n")))


Tokenization = Literal["split", "words", "stems", "wordnet"]
K1, B, EPSILON = 1.5, 0.75, 0.25
_WORD = re.compile(r"[^\W_]+")
_NO_WORD = re.compile(r"[^\w\s]")
_STORY_WORDS = ("plot", "story", "setting")
_is_latin = PerCorpus(lambda corpus: all(map(is_latin, corpus.texts)))
"""Whether every document of a corpus is in Latin script."""


class OfWords(OverCorpus):
    """Base of retrievers that compare words. They split words as in the papers or, if a document of the corpus is not Latin, by
    ICU."""

    script: Script = "auto"

    def latin(self, corpus: Corpus) -> bool:
        """Whether texts are split into words as in the papers."""
        return self.script == "latin" or _is_latin(corpus)


_VOCABULARIES = {
    True: PerCorpus(lambda corpus: [frozenset(word_tokens(text)) for text in corpus.texts]),
    False: PerCorpus(lambda corpus: [frozenset(words_of(text)) for text in corpus.texts]),
}
"""(`OfWords.latin`, corpus) -> the words of each document, cached."""


class Keywords(OfWords, Plain):
    """Scores by the share (0..1) of the search text's tokens, without stop words, that occur in the document, as in the release
    (section 5.1, "KWs").

    Repeated tokens count. Stop words alone score 0. In a Latin corpus, punctuation marks are tokens.
    """

    name: ClassVar[str] = "keywords"
    whole: ClassVar[bool] = False

    def ranking(self, query: Query, corpus: Corpus) -> list[Ranked]:
        latin = self.latin(corpus)
        tokens = word_tokens(query.text) if latin else words_of(query.text)
        wanted = [token for token in tokens if token not in stop_words()]
        counts = (sum(token in vocabulary for token in wanted) for vocabulary in _VOCABULARIES[latin](corpus))
        return by_score([count / len(wanted) if wanted else 0.0 for count in counts])


def terms_of(text: str, tokenization: Tokenization, latin: bool) -> list[str]:
    """Return the terms of a text in a corpus.

    - split: the strings between single spaces, as in ODSum's release.
    - wordnet: Porter stems of WordNet's noun lemmas, as in the second BM25 of ODSum's release (its Table 6 and story rankings).
    - words: runs of letters and digits, in lower case, without English stop words: `post-SVB` is two terms, `?` none. If the
      corpus is not `latin`, the words that ICU finds; ASCII words are also split into runs.
    - stems: the Snowball stems (Porter 2) of `words`. If the corpus is not `latin`, only ASCII words are stemmed.
    """
    stop = stop_words()
    if tokenization == "split":
        return text.split(" ")
    if tokenization == "wordnet":
        words = word_tokens(_NO_WORD.sub("", text.lower()))
        return [_lemma_stem(word) for word in words if word not in stop and word not in _STORY_WORDS]
    terms: list[str] = []
    for word in [text] if latin else words_of(text):
        if latin or word.isascii():
            terms += [term for term in _WORD.findall(word.lower()) if term not in stop]
        else:
            terms.append(word)
    return [_stem(term) if latin or term.isascii() else term for term in terms] if tokenization == "stems" else terms


@functools.lru_cache(maxsize=200_000)
def _stem(term: str) -> str:
    stem: str = whole_nltk().stem.snowball.EnglishStemmer().stem(term)
    return stem


@functools.lru_cache(maxsize=200_000)
def _lemma_stem(term: str) -> str:
    lemmatizer, stemmer = _wordnets()
    stem: str = stemmer.stem(lemmatizer.lemmatize(term))
    return stem


@functools.cache
def _wordnets() -> tuple[Any, Any]:
    """Return NLTK's WordNet lemmatizer and Porter stemmer. Raise UnknownName if WordNet's data is not installed."""
    stem = whole_nltk().stem
    lemmatizer = stem.WordNetLemmatizer()
    try:
        lemmatizer.lemmatize("geese")
    except LookupError:
        mend = "run python -m nltk.downloader wordnet, or take {bm25: stems}"
        raise UnknownName(f"{{bm25: wordnet}} needs WordNet's data, which is not installed; {mend}") from None
    return lemmatizer, stem.PorterStemmer()


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
        """Return one score per document. A term that occurs twice in `terms` counts twice."""
        import numpy as np

        scores = np.zeros(len(self._norm))
        for column in (self._columns[term] for term in terms if term in self._columns):
            start, end = self._by_term.indptr[column : column + 2]
            documents, frequency = self._by_term.indices[start:end], self._by_term.data[start:end]
            scores[documents] += self._weights[column] * (frequency * (K1 + 1) / (frequency + self._norm[documents]))
        return scores


def _index(tokenization: Tokenization, latin: bool, corpus: Corpus) -> Index:
    # With few documents, the mean weight can be negative, and so can the weight of common terms. Then a document would lose score
    # by containing a query term. `split` and `wordnet` keep this behaviour, as the release does.
    floor = None if tokenization in ("split", "wordnet") else 0.0
    return Index((terms_of(text, tokenization, latin) for text in corpus.texts), floor)


_INDEXES = {
    (name, latin): PerCorpus(functools.partial(_index, name, latin)) for name in get_args(Tokenization) for latin in (True, False)
}


class Bm25(OfWords):
    """Okapi BM25. The argument is the tokenization: `words` by default, whose scores are never negative."""

    name: ClassVar[str] = "bm25"
    whole: ClassVar[bool] = False

    def __init__(self, argument: str = "", seed: int = 0) -> None:
        tokenization = argument or "words"
        if tokenization not in get_args(Tokenization):
            raise unknown("tokenization of bm25", tokenization, get_args(Tokenization))
        if tokenization == "wordnet":
            _wordnets()
        self.tokenization: Any = tokenization

    def ranking(self, query: Query, corpus: Corpus) -> Sequence[Ranked]:
        """Return all documents, best first. A document without any term of the query scores 0."""
        latin = self.latin(corpus)
        index, terms = _INDEXES[self.tokenization, latin](corpus), terms_of(query.text, self.tokenization, latin)
        # The release sorts in ascending order and reverses. So among equal scores, the later document comes first.
        return best_first(len(corpus.texts), lambda: index.scores(terms), later_first=self.tokenization == "wordnet")
