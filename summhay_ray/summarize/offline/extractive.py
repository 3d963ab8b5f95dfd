"""The extractive baselines `offline/support` and `offline/lead`. Found by name; they read only the prompt.

Insights recur in the documents of a haystack (paper, section 3.2). So `offline/support` looks for sentences that several
documents share in nearly the same words. It prefers sentences close to the query, from documents about the query, and cites every
document that contains them. Neither instructions inside documents nor the order of the documents have any effect.

`offline/lead` takes one sentence from each of the documents most similar to the query. It does not compare a statement with other
documents, so citations may have high precision but have low recall.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from summhay_ray.llm import Request
from summhay_ray.summarize.offline import index as indexing
from summhay_ray.summarize.offline.framed import SECTION, numbered, read_frame
from summhay_ray.summarize.offline.index import NOTHING_SAID
from summhay_ray.summarize.offline.reading import read

# Minimum cosine of two sentences in one cluster.
_SAME = 0.5
# Minimum cosine with a cluster's centroid of a sentence that supports the cluster. It is lower, since a centroid is a steadier
# measure.
_SUPPORTS = 0.35
# Minimum cosine with the centroid of a chosen cluster at which a sentence is redundant.
_REDUNDANT = 0.4
# Number of documents that give a statement full support; fewer count in proportion. A statement in a single document, without
# repetition, has so little weight that it comes last.
_ENOUGH_DOCUMENTS = 4
_ALONE = 0.1
# A document's relevance is the mean of its three most relevant sentences.
_BEST_SENTENCES = 3
# Pseudo-relevance feedback, since queries are short: after each round but the last, the best 50 clusters extend the query.
_ROUNDS = 3
_FEEDBACK = 50
_FEEDBACK_TERMS = 1000
_CENTROID_TERMS = 40
# Number of sentences nearest the query that are clustered. The paper's haystacks (100 documents) fit in full.
_MOST_SEEDS = 5000
# The documents do not cover a subject if at least this share of its words' weight is missing. The second number is for the words
# of subject and question together, which include words such as "documents".
_LACKING, _LACKING_ALL = 0.5, 0.33
_SUMMARY = re.compile(r"\bsummar", re.IGNORECASE)
# Number of sentences in a section's summary.
_OF_A_SECTION = 5
# Maximum characters of the summary of a section in which no sentence has four terms.
_LONGEST_SECTION = 300
# A summary has at most 300 words (paper, section 3.1). Each bullet leaves 20 words for every later one.
_SUMMARY_WORDS = 300
_SPARE_WORDS = 20
_LONGEST_BULLET = 45
# Leading sentences are introductory. So the lead is the first sentence that is at least half as similar to the query as the best.
_LEAD = 0.5


class Support:
    """Ranks clusters of similar sentences by relevance and support. For each, it states the central sentence and cites its
    documents."""

    name: ClassVar[str] = "offline/support"
    revision: ClassVar[str] = "4"

    def answer(self, request: Request) -> str:
        """Return one bullet per requested insight, or one text. There are fewer bullets, or none, if the documents do not yield
        enough. If they lack the rare words of the question, one bullet states that the documents do not answer it.

        For a context with headers such as `<Section 1>`, return each header with the most central sentences of its section. For a
        prompt that requests a summary of its whole `### Context:`, return the most central sentences of the context.
        """
        frame = read_frame(request.prompt)
        if frame is not None and SECTION.search(frame.context):
            headers = list(SECTION.finditer(frame.context))
            summaries = _central([text for _, text in numbered(frame.context, headers)])
            return "\n\n".join(f"{header.group()}\n{text}" for header, text in zip(headers, summaries, strict=True))
        if frame is not None and _SUMMARY.search(frame.instruction):
            return _central([frame.context])[0]
        question = read(request.prompt)
        index = indexing.index_of(tuple(sorted(question.documents)))
        if index.n == 0 or question.n_insights == 0:
            return indexing.answer_text([], question.n_words is None)
        if index.is_english_with(question.query):
            # Whether the documents lack the rare words of the subject, or of the question if no subject is named.
            lacking = index.unknown(question.query)
            least = _LACKING_ALL if question.subject else _LACKING
            if lacking > least and (not question.subject or index.unknown(question.subject) > _LACKING):
                return f"- {NOTHING_SAID}" if question.n_words is None else NOTHING_SAID
        clusters = _ranked(index, index.encode(question.query))
        most_words = _SUMMARY_WORDS if question.n_words is None else question.n_words
        chosen = _chosen(index, clusters, question.n_insights, most_words)
        return indexing.answer_text(chosen, question.n_words is None)


def _central(texts: Sequence[str]) -> list[str]:
    """Return, for each text, its sentences that are most similar to the whole text, in order; or its beginning if it has no
    sentence."""
    index = indexing.index_of(tuple(enumerate(texts)))
    found = []
    for place, text in enumerate(texts):
        own = np.flatnonzero(index.documents == place)
        near = np.round(index.similarities(index.encode(text))[own], 12)
        best = np.sort(own[np.argsort(-near, kind="stable")[:_OF_A_SECTION]])
        found.append(" ".join(index.texts[one] for one in best.tolist()) or text[:_LONGEST_SECTION].strip())
    return found


@dataclass(frozen=True, slots=True)
class _Clusters:
    """One cluster around each seed sentence: the seeds (m) and their scores (m), which are 0 for clusters unrelated to the
    query."""

    seeds: indexing.Ints
    worth: indexing.Floats


def _ranked(index: indexing.SentenceIndex, query: indexing.Vector) -> _Clusters:
    vector = query
    for round_ in range(_ROUNDS):
        relevance = index.similarities(vector)
        if not relevance.any():
            # If no query term occurs, rank by support alone.
            relevance = np.ones(index.n)
        seeds = np.sort(np.argsort(-relevance, kind="stable")[:_MOST_SEEDS])
        clusters = _Clusters(seeds, _worth(index, seeds, relevance))
        if round_ < _ROUNDS - 1:
            best = np.argsort(-clusters.worth, kind="stable")[:_FEEDBACK]
            words = index.centroid(seeds[best], clusters.worth[best], _FEEDBACK_TERMS)
            dense = np.zeros(index.n_terms)
            for part in (query, words):
                dense[part.terms] += part.weights
            terms = np.flatnonzero(dense)
            vector = index.unit(indexing.Vector(terms, dense[terms]))
    return clusters


def _worth(index: indexing.SentenceIndex, seeds: indexing.Ints, relevance: indexing.Floats) -> indexing.Floats:
    """Return the score of each cluster (m): the root of its sentences' relevance x its documents' relevance x support x mean
    similarity."""
    near = [index.neighbours(seed, _SAME) for seed in seeds.tolist()]
    owner = np.repeat(np.arange(seeds.size), [members.size for members, _ in near])
    members = np.concatenate([members for members, _ in near])
    alike = np.concatenate([similar for _, similar in near])
    sentence_relevance = indexing.sums(owner, alike * relevance[members], seeds.size) / indexing.sums(owner, alike, seeds.size)
    # For each cluster and document, only the most similar sentence counts.
    documents = index.documents[members]
    order = np.lexsort((-alike, documents, owner))
    owner, documents, alike = owner[order], documents[order], alike[order]
    first = np.ones(owner.size, dtype=bool)
    first[1:] = (owner[1:] != owner[:-1]) | (documents[1:] != documents[:-1])
    owner, documents, alike = owner[first], documents[first], alike[first]
    # Relevance of each document minus half the mean relevance, but at least a tenth of its own relevance.
    order = np.lexsort((-relevance, index.documents))
    ordered = index.documents[order]
    best = np.arange(ordered.size) - np.searchsorted(ordered, ordered) < _BEST_SENTENCES
    counts = indexing.sums(ordered[best], np.ones(ordered[best].size), len(index.numbers))
    means = indexing.sums(ordered[best], relevance[order][best], len(index.numbers)) / np.maximum(counts, 1.0)
    about = np.maximum(means - means.mean() / 2, means / 10)[documents]
    n_documents = indexing.sums(owner, np.ones(owner.size), seeds.size)
    document_relevance = indexing.sums(owner, about, seeds.size) / np.sqrt(n_documents)
    support = np.minimum(n_documents, _ENOUGH_DOCUMENTS) / _ENOUGH_DOCUMENTS * np.where(n_documents < 2, _ALONE, 1.0)
    likeness = indexing.sums(owner, alike, seeds.size) / n_documents
    # Machines may differ in the last bits. Rounding keeps ties equal, and argmax breaks them in document order.
    worth: indexing.Floats = np.round(np.sqrt(sentence_relevance) * document_relevance * support * likeness, 12)
    return worth


def _chosen(index: indexing.SentenceIndex, clusters: _Clusters, wanted: int, most_words: int) -> list[tuple[str, list[int]]]:
    """Return the central sentence of each of the best clusters, and the numbers of the documents that support it."""
    worth = np.zeros(index.n)
    worth[clusters.seeds] = clusters.worth
    chosen: list[tuple[str, list[int]]] = []
    words = 0
    while len(chosen) < wanted and worth.max() > 0:
        seed = int(np.argmax(worth))
        members, alike = index.neighbours(seed, _SAME)
        nearness = index.similarities(index.centroid(members, alike, _CENTROID_TERMS))
        room = most_words - words - _SPARE_WORDS * (wanted - len(chosen) - 1)
        fits = index.lengths[members] <= min(room, _LONGEST_BULLET)
        central = int(members[np.argmax(np.round(nearness[members], 12) * np.where(fits, 1.0, 0.5))])
        supporting = set(index.documents[nearness >= _SUPPORTS].tolist()) | {int(index.documents[central])}
        chosen.append((index.texts[central], sorted({index.numbers[place] for place in supporting})))
        words += int(index.lengths[central])
        worth[seed] = 0.0
        worth[members] = 0.0
        worth[nearness >= _REDUNDANT] = 0.0
    return chosen


class Lead:
    """Takes the documents most similar to the query. From each, it takes the first sentence close to the query, with one
    citation."""

    name: ClassVar[str] = "offline/lead"
    revision: ClassVar[str] = "3"

    def answer(self, request: Request) -> str:
        """Return one bullet per requested insight, at most one per document, or one text. There are no bullets if the documents
        yield none. If they contain no word of the query, one bullet says so."""
        question = read(request.prompt)
        index = indexing.index_of(tuple(sorted(question.documents)))
        query = index.encode(question.query)
        relevance = index.similarities(query)
        if not relevance.any() and index.is_english_with(question.query):
            return f"- {NOTHING_SAID}" if question.n_words is None else NOTHING_SAID
        ranking = np.argsort(-np.round(index.document_similarities(query), 12), kind="stable").tolist()
        chosen: list[tuple[str, list[int]]] = []
        for place in ranking:
            sentences = np.flatnonzero(index.documents == place)
            if len(chosen) == question.n_insights:
                break
            if sentences.size:
                lead = sentences[np.argmax(relevance[sentences] >= _LEAD * relevance[sentences].max())]
                chosen.append((index.texts[lead], [index.numbers[place]]))
        return indexing.answer_text(chosen, question.n_words is None)
