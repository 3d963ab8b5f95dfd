"""The topics of a synthesis: as a spec writes them, with their files read, or made up from a seed."""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import random
import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, overload

from summhay_ray.benchmark import Inputs, SpecError
from summhay_ray.benchmarks.synth.spec import MOST_MADE_UP, MOST_NAME, SynthSpec, TopicSpec
from summhay_ray.store import Store, StoreError
from summhay_ray.synth import Topic

TOPICS = "topics"
"""Kind of the store's object that holds the topics of a run, and the field of its record that names it."""

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
    """The topics in the spec's order, each with a name of its own. Raises SpecError.

    A name is the given one, else the topic's words. Where these are another topic's name as well, every topic concerned that
    was given none has 8 hex digits of its own content behind them: whether they are there depends on the other topics, which
    they are does not, and what is made of the topic (see `alone`) is the same with them and without.
    """
    found = list(_listed(spec, inputs))
    if (same := _twice(map(_content, found))) is not None:
        text, *_ = _content(found[same])
        told = f"{text[:60]!r} stands twice and would give the same insights; reword it, or use another seed"
        raise SpecError(f"synth: topics: {told}")
    # Some file systems take X and x for one.
    given = [one.name.lower() for one in found if one.name]
    if (twice := _twice(given)) is not None:
        raise SpecError(f"synth: topics: the name {given[twice]!r} stands twice; each haystack needs its own")
    slugs = [one.name or _slug(one.topic) for one in found]
    alike = Counter(map(str.lower, slugs))
    named = [
        replace(one, name=slug if one.name or alike[slug.lower()] == 1 else _told_apart(slug, one))
        for one, slug in zip(found, slugs, strict=True)
    ]
    if (both := _twice(one.name.lower() for one in named)) is not None:
        told = f"{named[both].topic[:60]!r} would be named as another one is, {named[both].name!r}"
        raise SpecError(f"synth: topics: {told}; give it a name: {{topic: ..., name: NAME}}")
    return tuple(named)


def alone(topic: Topic) -> Topic:
    """The topic as it is named where no other's name is alike: what its haystack is made from, its `topic_id` included."""
    slug = _slug(topic.topic)
    return replace(topic, name=slug) if topic.name != slug and topic.name == _told_apart(slug, topic) else topic


def made_up(seed: int, n: int | None = None) -> Iterator[str]:
    """Topics invented from the seed, all different; the first ones of a longer list are those of a shorter one.

    `n`: how many, at most 500,000; without it, as many as are taken.
    """
    chance, seen = random.Random(f"made-up topics {seed}"), set[str]()
    while n is None or len(seen) < n:
        place = chance.choice(_BEGIN) + chance.choice(_MIDDLE) + chance.choice(_END)
        topic = chance.choice(_EVENTS).format(thing=chance.choice(_THINGS), place=place)
        if topic not in seen:
            seen.add(topic)
            yield topic


def _listed(spec: SynthSpec, inputs: Inputs) -> Iterator[Topic]:
    """All topics, with the names that they were given or none; one list of made-up ones goes on through all entries."""
    if (n := sum(one.made_up for one in spec.topics)) > MOST_MADE_UP:
        told = f"{n} made-up ones are asked for; at most {MOST_MADE_UP} are invented for a spec"
        raise SpecError(f"synth: topics: {told}; make the others by another spec with another seed")
    invented = made_up(spec.seed)
    for written in spec.topics:
        if written.made_up:
            yield from (Topic("", topic) for topic in itertools.islice(invented, written.made_up))
        else:
            yield Topic(written.name, written.topic.strip(), tuple(written.participants), _context(written, inputs))


def _twice(values: Iterable[Hashable]) -> int | None:
    """The place of the first value that stood before."""
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


def _told_apart(slug: str, topic: Topic) -> str:
    digits = hashlib.sha256(json.dumps(_content(topic)).encode("ascii")).hexdigest()[:8]
    return f"{slug[: MOST_NAME - 9].rstrip('_')}_{digits}"


def _context(written: TopicSpec, inputs: Inputs) -> tuple[str, ...]:
    return tuple(map(inputs.text, written.context))


Kept = tuple[str, Topic]
"""A topic and its cell."""


def keep_topics(store: Store, topics: Iterable[Kept]) -> str:
    """Put the topics into the store; the digest of their object."""
    written = [{"cell_id": cell_id, **asdict(topic)} for cell_id, topic in topics]
    text = json.dumps(written, ensure_ascii=True, separators=(",", ":"))
    return store.put_object(TOPICS, zlib.compress(text.encode("ascii")))


def topic_from(written: Mapping[str, Any]) -> Topic:
    """The topic that `asdict` wrote. Raises TypeError for anything else."""
    known: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in written.items()}
    return Topic(**known)


def stored_topics(store: Store, record: Mapping[str, Any]) -> tuple[Kept, ...]:
    """The topics of a stored run with their cells, in its order. Raises StoreError."""
    content = store.get_object(TOPICS, record[TOPICS])
    try:
        return tuple((one.pop("cell_id"), topic_from(one)) for one in json.loads(zlib.decompress(content)))
    except (ValueError, TypeError, KeyError, AttributeError, zlib.error) as error:
        raise StoreError(f"store {store.uri!r}: the topics {record[TOPICS]} are of another version: {error}") from error


class LateTopics(Sequence[Topic]):
    """Topics that are read when the first one is asked for."""

    def __init__(self, read: Callable[[], Sequence[Topic]]) -> None:
        self._read = functools.cache(read)

    @overload
    def __getitem__(self, index: int) -> Topic: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Topic]: ...
    def __getitem__(self, index: int | slice) -> Topic | Sequence[Topic]:
        return self._read()[index]

    def __len__(self) -> int:
        return len(self._read())
