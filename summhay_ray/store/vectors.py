"""Vectors as content: computed once, kept as Parquet, shared by all runs of the store. Part of the store room.

A space holds the vectors that are made one way (model, revision, options); in it a vector is known by the sha256 of its text.
Each file, `vectors/SPACE/SHA256.parquet`, is named by its own content, so that a damaged one is seen, taken away, and made again.
"""

from __future__ import annotations

import hashlib
import io
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from summhay_ray.store.files import Files

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

FOLDER = "vectors"
SUFFIX = ".parquet"
OPEN_FILES = 64
"""Files of a space whose vectors stay in memory: some 25 MB."""


@dataclass(frozen=True)
class Kept:
    """One vector and the tokens that it was made of."""

    vector: NDArray[np.float32]
    n_tokens: int


def vector_key(text: str) -> bytes:
    """What a text's vector is known by in its space."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


class VectorSpace:
    """The vectors of one space, of which what was read stays in memory; any thread may ask."""

    def __init__(self, files: Files | None, space: str) -> None:
        """`files`: the store's; None for a space that nothing is kept of."""
        self._files = files
        self._folder = f"{FOLDER}/{space}"
        self._where: dict[bytes, str] = {}
        """Key -> the file that holds its vector."""
        self._open: OrderedDict[str, dict[bytes, Kept]] = OrderedDict()
        """The files read last."""
        self._lock = threading.Lock()
        self.damaged: list[str] = []
        """Files that were not what their names say, and were taken away."""

    def get(self, keys: Iterable[bytes]) -> dict[bytes, Kept]:
        """What is there of the keys; files that came meanwhile are looked at where one is not known yet."""
        wanted = dict.fromkeys(keys)
        with self._lock:
            if any(key not in self._where for key in wanted):
                self._look()
            places: dict[str, list[bytes]] = {}
            for key in wanted:
                if key in self._where:
                    places.setdefault(self._where[key], []).append(key)
            return {
                key: rows[key] for name, held in places.items() for rows in (self._rows(name),) for key in held if key in rows
            }

    def put(self, keys: Sequence[bytes], vectors: NDArray[np.float32], n_tokens: Sequence[int], half: bool = False) -> None:
        """Keep (keys, dimensions) vectors as one file. `half`: as 2-byte floats, which the vectors are then rounded to."""
        import numpy as np

        content = _parquet(keys, vectors.astype(np.float16 if half else np.float32), n_tokens)
        name = f"{self._folder}/{hashlib.sha256(content).hexdigest()}{SUFFIX}"
        if self._files is not None:
            self._files.create(name, content)
        with self._lock:
            self._index(name, content)

    def _look(self) -> None:
        known = set(self._where.values())
        for name in self._files.names(self._folder, SUFFIX) if self._files is not None else ():
            if name not in known:
                self._rows(name)

    def _rows(self, name: str) -> Mapping[bytes, Kept]:
        """What a file holds; nothing where it is damaged, and then it is taken away: whoever needs it computes it again."""
        if name not in self._open and self._files is not None:
            content = self._files.read(name)
            if hashlib.sha256(content).hexdigest() != name.rpartition("/")[2].removesuffix(SUFFIX):
                self.damaged.append(self._files.where(name))
                self._files.delete(name)
                self._where = {key: place for key, place in self._where.items() if place != name}
                return {}
            self._index(name, content)
        self._open.move_to_end(name)
        return self._open[name]

    def _index(self, name: str, content: bytes) -> None:
        rows = _rows(content)
        for key in rows:
            self._where.setdefault(key, name)
        self._open[name] = rows
        # Without a store, what is let go is gone.
        while self._files is not None and len(self._open) > OPEN_FILES:
            self._open.popitem(last=False)


def vector_flaws(files: Files) -> Mapping[str, int]:
    """Vector files of the store -> vectors that it holds, or -1 for one that is not what its name says. Changes nothing."""
    import pyarrow.parquet as pq

    found: dict[str, int] = {}
    for space in files.folders(FOLDER):
        for name in files.names(f"{FOLDER}/{space}", SUFFIX):
            content = files.read(name)
            whole = hashlib.sha256(content).hexdigest() == name.rpartition("/")[2].removesuffix(SUFFIX)
            found[files.where(name)] = pq.ParquetFile(io.BytesIO(content)).metadata.num_rows if whole else -1
    return found


def _parquet(keys: Sequence[bytes], values: NDArray[Any], n_tokens: Sequence[int]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    vectors = pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])
    table: pa.Table = pa.table(
        {"key": pa.array(keys, pa.binary(32)), "n_tokens": pa.array(list(map(int, n_tokens)), pa.int32()), "vector": vectors}
    )
    sink = io.BytesIO()
    # Vectors hardly compress: time is not spent on it.
    pq.write_table(table, sink, compression="none", write_statistics=False)
    return sink.getvalue()


def _rows(content: bytes) -> dict[bytes, Kept]:
    import numpy as np
    import pyarrow.parquet as pq

    table = pq.read_table(io.BytesIO(content))
    column = table["vector"].combine_chunks()
    flat = column.flatten().to_numpy(zero_copy_only=False).astype(np.float32)
    vectors = flat.reshape(len(table), column.type.list_size)
    counts = table["n_tokens"].to_pylist()
    return {key: Kept(vector, n) for key, vector, n in zip(table["key"].to_pylist(), vectors, counts, strict=True)}
