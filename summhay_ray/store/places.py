"""The locations of a log's answers by key, which need 48 bytes per answer.

A store may contain millions of answers of other runs, and any of them may answer a run's next request. As a Python object, each
would need 305 bytes, in the driver and in the ledger.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from summhay_ray.store.answers import Location

_PLACE = np.dtype([("file", np.uint32), ("offset", np.int64), ("length", np.uint32)])
"""A location. `length` is 0 if the entry was deleted."""
_ROW = np.dtype([("key", "S32"), ("place", _PLACE)])
"""A key's bytes, and the location of its answer."""
_KEY = re.compile("[0-9a-f]{64}")
MOST_RECENT = 4096
"""Maximum number of recent answers that are Python objects; or 1/32 of all answers, if that is more."""


@dataclass(frozen=True, slots=True)
class NewPlaces:
    """The locations of the answers in a section of a file. `others`: the answers whose key is not a sha256, as in tests."""

    name: str
    rows: NDArray[np.void]
    others: Sequence[tuple[str, Location]]

    @classmethod
    def of(cls, name: str, start: int, columns: Iterable[tuple[Sequence[str], Sequence[int], Sequence[int]]]) -> NewPlaces:
        """Convert columns of answers to rows. `columns`: keys, offsets from `start`, lengths."""
        parts, others = [np.empty(0, _ROW)], list[tuple[str, Location]]()
        for keys, offsets, lengths in columns:
            usual = [place for place, key in enumerate(keys) if _KEY.fullmatch(key)]
            rows = np.zeros(len(usual), _ROW)
            if usual:
                rows["key"] = np.frombuffer(bytes.fromhex("".join(keys[place] for place in usual)), "S32")
                rows["place"]["offset"] = np.array(offsets, np.int64)[usual] + start
                rows["place"]["length"] = np.array(lengths, np.uint32)[usual]
            parts.append(rows)
            if len(usual) < len(keys):
                every = zip(keys, map(Location, repeat(name), map(start.__add__, offsets), lengths), strict=True)
                others += [(key, location) for key, location in every if not _KEY.fullmatch(key)]
        return cls(name, np.concatenate(parts), others)


@dataclass(eq=False)
class Places(MutableMapping[str, Location]):
    """Key -> location of its answer. Most entries are in sorted arrays, and the most recent ones are Python objects."""

    _recent: dict[str, Location] = field(default_factory=dict)
    _keys: NDArray[np.bytes_] = field(default_factory=lambda: np.empty(0, "S32"))
    """The sorted keys. They are separate from the locations, so that numpy can search them without a copy."""
    _places: NDArray[np.void] = field(default_factory=lambda: np.empty(0, _PLACE))
    """The location of each of `_keys`."""
    _files: dict[str, int] = field(default_factory=dict)
    """File -> its number in `_places`."""
    _names: list[str] = field(default_factory=list)
    _deleted: int = 0

    def add(self, places: Iterable[NewPlaces]) -> list[tuple[str, Location]]:
        """Add locations. Keeps the first location of each key, and returns the further ones."""
        places, further = list(places), list[tuple[str, Location]]()
        for new in places:
            new.rows["place"]["file"] = self._number(new.name)
        pairs = [pair for new in places for pair in new.others]
        if sum(len(new.rows) for new in places) > MOST_RECENT:
            further += self._merge([new.rows for new in places])
        else:
            pairs += [pair for new in places for pair in map(self._pair, new.rows["key"], new.rows["place"])]
        for key, location in pairs:
            if self.setdefault(key, location) != location:
                further.append((key, location))
        return further

    def _number(self, name: str) -> int:
        if name not in self._files:
            self._files[name] = len(self._names)
            self._names.append(name)
        return self._files[name]

    def _merge(self, parts: Sequence[NDArray[np.void]]) -> list[tuple[str, Location]]:
        """Insert the recent entries and then `parts` into the sorted arrays. Keeps the first location of each key, and returns
        the further ones."""
        recent = {key: location for key, location in self._recent.items() if _KEY.fullmatch(key)}
        packed = [(bytes.fromhex(key), (self._number(one.name), one.offset, one.length)) for key, one in recent.items()]
        self._recent = {key: location for key, location in self._recent.items() if key not in recent}
        new = np.concatenate([np.array(packed, _ROW), *parts])
        if self._deleted:
            known = self._places["length"] > 0
            self._keys, self._places, self._deleted = self._keys[known], self._places[known], 0
        new = new[np.argsort(new["key"], kind="stable")]
        at = np.searchsorted(self._keys, new["key"])
        again = np.zeros(len(new), bool)
        again[1:] = new["key"][1:] == new["key"][:-1]
        if len(self._keys):
            again |= self._keys[np.minimum(at, len(self._keys) - 1)] == new["key"]
        # Insert into one array at a time, since copying both would double the memory of a ledger with many answers.
        self._keys = np.insert(self._keys, at[~again], new["key"][~again])
        self._places = np.insert(self._places, at[~again], new["place"][~again])
        pairs = [self._pair(row["key"], row["place"]) for row in new[again]]
        return [(key, location) for key, location in pairs if self[key] != location]

    def _pair(self, key: bytes, place: np.void) -> tuple[str, Location]:
        """Return a key as text, and its location."""
        location = Location(self._names[place["file"]], int(place["offset"]), int(place["length"]))
        # numpy strips zero bytes at the end of a key.
        return key.ljust(32, b"\0").hex(), location

    def _find(self, key: str) -> int | None:
        """Return the index of a key in `_keys`; None if it is missing."""
        if not len(self._keys) or not _KEY.fullmatch(key):
            return None
        raw = np.bytes_(bytes.fromhex(key))
        index = int(np.searchsorted(self._keys, raw))
        is_there = index < len(self._keys) and self._keys[index] == raw.rstrip(b"\0") and self._places["length"][index] > 0
        return index if is_there else None

    def __getitem__(self, key: str) -> Location:
        if (recent := self._recent.get(key)) is not None:
            return recent
        if (index := self._find(key)) is None:
            raise KeyError(key)
        return self._pair(self._keys[index], self._places[index])[1]

    def __contains__(self, key: object) -> bool:
        return key in self._recent or (isinstance(key, str) and self._find(key) is not None)

    def __setitem__(self, key: str, location: Location) -> None:
        if (index := self._find(key)) is not None:
            self._places[index] = (self._number(location.name), location.offset, location.length)
            return
        self._recent[key] = location
        if len(self._recent) > max(MOST_RECENT, len(self._keys) // 32):
            self._merge([])

    def __delitem__(self, key: str) -> None:
        if key in self._recent:
            del self._recent[key]
        elif (index := self._find(key)) is not None:
            self._places["length"][index] = 0
            self._deleted += 1
        else:
            raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        yield from list(self._recent)
        known = self._places["length"] > 0
        for key, place in zip(self._keys[known], self._places[known], strict=True):
            yield self._pair(key, place)[0]

    def __len__(self) -> int:
        return len(self._recent) + len(self._keys) - self._deleted
