"""The topics of a synthesis (read from a spec, made up from a seed, or stored with a run) and the haystacks made from them."""

import hashlib
import itertools
import json
import random
import re
import unicodedata
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

from summhay_ray.benchmark import Inputs, RunStore, Store, Table
from summhay_ray.benchmarks.summhay.haystacks.sources import STORE
from summhay_ray.benchmarks.synth.spec import MOST_MADE_UP, MOST_NAME, SynthSpec
from summhay_ray.errors import SpecError, StoreError
from summhay_ray.synth import Topic

TOPICS = "topics"
"""The kind of the store's object with a run's topics, and the field of the run's record that names this object."""

_EVENTS = (
    "the rebuilding of the {thing} in {place}",
    "the dispute about the {thing} of {place}",
    "the sale of the {thing} in {place}",
    "the first year of the {thing} in {place}",
    "the closing of the {thing} in {place}",
    "the plans for a new {thing} in {place}",
    "the strike at the {thing} of {place}",
    "the inquiry into the {thing} of {place}",
    "the move of the {thing} to {place}",
    "the festival at the {thing} of {place}",
)
_THINGS = (
    *("harbour", "tram line", "hospital", "paper mill", "theatre", "airport", "market hall", "observatory", "swimming pool"),
    *("water works", "university library", "ferry", "railway station", "town archive", "power plant", "football stadium"),
    *("botanical garden", "fire station", "school for music", "shipyard", "bridge", "bakery", "radio station", "city farm"),
)
_BEGIN = ("Al", "Bren", "Cal", "Dor", "El", "Far", "Gren", "Hal", "Is", "Kar", "Lun", "Mar", "Nor", "Or", "Pel", "Ros", "Tor")
_MIDDLE = ("a", "den", "e", "gar", "i", "ken", "la", "men", "o", "ra", "sten", "ve")
_END = ("berg", "by", "dale", "field", "ford", "ham", "haven", "mouth", "stad", "ton", "vik", "wick")


def topics_of(spec: SynthSpec, inputs: Inputs) -> tuple[Topic, ...]:
    """Return the topics in the spec's order, each with a unique name. Raises SpecError.

    A topic's name is the given one, or derived from the topic's words. Derived names that clash get a suffix of 8 hex digits,
    hashed from the topic's content. The suffix does not change the haystack (see `alone`).
    """
    if (n := sum(entry.made_up for entry in spec.topics)) > MOST_MADE_UP:
        problem = f"{n} made-up topics are more than the {MOST_MADE_UP} that a spec may have"
        raise SpecError(f"synth: topics: {problem}; make the others with another spec and seed")
    # All entries draw from one list of made-up topics.
    topics: list[Topic] = []
    invented = made_up(spec.seed)
    for entry in spec.topics:
        if entry.made_up:
            topics += [Topic("", topic) for topic in itertools.islice(invented, entry.made_up)]
        else:
            context = tuple(map(inputs.text, entry.context))
            topics.append(Topic(entry.name, entry.topic.strip(), tuple(entry.participants), context))
    if (same := _first_repeated(map(_content, topics))) is not None:
        text, *_ = _content(topics[same])
        problem = f"{text[:60]!r} is listed twice and would give the same insights; reword it, or use another seed"
        raise SpecError(f"synth: topics: {problem}")
    # Some file systems do not distinguish X from x.
    given = [topic.name.lower() for topic in topics if topic.name]
    if (twice := _first_repeated(given)) is not None:
        raise SpecError(f"synth: topics: the name {given[twice]!r} is used twice; give each haystack its own")
    slugs = [topic.name or _slug(topic.topic) for topic in topics]
    counts = Counter(map(str.lower, slugs))
    named = [
        replace(topic, name=slug if topic.name or counts[slug.lower()] == 1 else _with_suffix(slug, topic))
        for topic, slug in zip(topics, slugs, strict=True)
    ]
    if (clash := _first_repeated(topic.name.lower() for topic in named)) is not None:
        problem = f"{named[clash].topic[:60]!r} would get the name of another topic, {named[clash].name!r}"
        raise SpecError(f"synth: topics: {problem}; give it a name: {{topic: ..., name: NAME}}")
    return tuple(named)


def alone(topic: Topic) -> Topic:
    """Return the topic without the suffix of its name. Its haystack is made from this, including `topic_id`."""
    slug = _slug(topic.topic)
    return replace(topic, name=slug) if topic.name != slug and topic.name == _with_suffix(slug, topic) else topic


def made_up(seed: int, n: int | None = None) -> Iterator[str]:
    """Yield topics made up from the seed, all different. A longer list begins with a shorter one. `n`: at most 500,000; None:
    endless."""
    chance, seen = random.Random(f"made-up topics {seed}"), set[str]()
    while n is None or len(seen) < n:
        place = chance.choice(_BEGIN) + chance.choice(_MIDDLE) + chance.choice(_END)
        topic = chance.choice(_EVENTS).format(thing=chance.choice(_THINGS), place=place)
        if topic not in seen:
            seen.add(topic)
            yield topic


def _first_repeated(values: Iterable[Hashable]) -> int | None:
    """Return the index of the first value that repeats an earlier one, or None if all differ."""
    seen = set[Hashable]()
    for place, value in enumerate(values):
        if value in seen:
            return place
        seen.add(value)
    return None


def _content(topic: Topic) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    return " ".join(topic.topic.split()), topic.participants, topic.context


def _slug(topic: str) -> str:
    plain = unicodedata.normalize("NFKD", topic.replace("ß", "ss")).encode("ascii", "ignore").decode()
    words = re.findall(r"[a-z0-9]+", plain.lower())
    return "_".join(words)[:MOST_NAME].strip("_") or "topic"


def _with_suffix(slug: str, topic: Topic) -> str:
    digits = hashlib.sha256(json.dumps(_content(topic)).encode("ascii")).hexdigest()[:8]
    return f"{slug[: MOST_NAME - 9].rstrip('_')}_{digits}"


def topic_from(written: Mapping[str, Any]) -> Topic:
    """Read a topic that `asdict` wrote. Raises TypeError for other content."""
    known: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in written.items()}
    return Topic(**known)


def stored_topics(store: Store, record: Mapping[str, Any]) -> tuple[tuple[str, Topic], ...]:
    """Return the (cell id, topic) pairs of a stored run, in its order. Raises StoreError."""
    content = store.get_object(TOPICS, record[TOPICS])
    try:
        return tuple((row.pop("cell_id"), topic_from(row)) for row in json.loads(content))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise StoreError(f"store {store.uri!r}: the topics {record[TOPICS]} are of another version: {error}") from error


@dataclass(frozen=True, slots=True)
class Made:
    """A haystack that a synthesis has made."""

    cell_id: Annotated[str, "id of the topic's item"]
    haystack_id: Annotated[str, "content hash of the haystack"]
    digest: Annotated[str, "sha256 of its released JSON in the store"]
    name: Annotated[str, "name of the haystack"]

    @property
    def entry(self) -> str:
        return f"{STORE}{self.digest}/{self.name}.json"

    def source(self) -> dict[str, str]:
        """Return the haystack's entry among the sources in a run's record."""
        return {"haystack_id": self.haystack_id, "name": self.name, "object": self.digest}


MADE = Table("made", Made, ("cell_id",))


def made_by(run: RunStore) -> dict[str, Made]:
    """Map each cell of a finished topic to its haystack, in the spec's order."""
    made = {row.cell_id: row for row in MADE.records(run.table(MADE.name))}
    return {cell: made[cell] for cell, _ in stored_topics(run.store, run.record) if cell in made}
