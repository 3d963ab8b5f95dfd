"""Your own retriever: ranks documents by the number of query words in them. `retrievers: [word_retriever:WordRetriever]`."""

from summhay_ray.records import Haystack, Subtopic
from summhay_ray.retrieve import Ranked


class WordRetriever:
    name = "words"
    whole = False  # True only for a retriever that always returns the whole haystack, unordered

    def __init__(self, argument: str = "", seed: int = 0) -> None:
        """`seed` is the spec's; `argument` is the text after a slash in the spec, `word_retriever:WordRetriever/ARGUMENT`."""

    def rank(self, subtopic: Subtopic, haystack: Haystack) -> list[Ranked]:
        """Return the documents to show, best first, as `Ranked(number, score)`. Documents have the numbers 1, 2, 3, ..."""
        wanted = set(subtopic.search_text.lower().split())  # the query and the subtopic; `subtopic.query` is the query alone
        ranked = [Ranked(one.number, float(len(wanted & set(one.text.lower().split())))) for one in haystack.documents]
        return sorted(ranked, key=lambda one: -one.score)
