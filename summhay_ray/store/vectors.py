"""Embedding vectors, which are computed once, stored as Parquet, and shared by all runs of the store.

A space contains the vectors of one configuration (model, revision, options). In a space, the key of a vector is the sha256 of its
text. A file, `vectors/SPACE/SHA256.parquet`, is named by the hash of its content. So a damaged file is detected and deleted, and
its vectors are computed again.
"""

from __future__ import annotations

import hashlib
import io
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from summhay_ray.store.files import Files

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


FOLDER = "vectors"
SUFFIX = ".parquet"
OPEN_FILES = 64
"""Maximum number of a space's files in memory, which need about 25 MB."""


@dataclass(frozen=True)
class Kept:
    """One vector and the number of tokens of its text."""

    vector: NDArray[np.float32]
    n_tokens: int
    n_cut: int = 0
    """Number of tokens of the text that the model did not read."""


class VectorSpace:
    """The vectors of one space. The most recently used files stay in memory. It is thread-safe."""

    def __init__(self, files: Files | None, space: str) -> None:
        """`files`: the store's files; None for a space that exists only in memory."""
        self._files = files
        self._folder = f"{FOLDER}/{space}"
        self._where: dict[bytes, str] = {}
        """Key -> the file that contains its vector."""
        self._known: set[str] = set()
        """The files that were read, including files whose vectors are all in earlier files."""
        self._open: OrderedDict[str, dict[bytes, Kept]] = OrderedDict()
        """File -> its vectors, for the most recently used files."""
        self._lock = threading.Lock()

    @staticmethod
    def key(text: str) -> bytes:
        """Return the key of a text's vector, which is the sha256 of the text."""
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()

    def get(self, keys: Iterable[bytes]) -> dict[bytes, Kept]:
        """Return the stored vectors of these keys. New files are read only if a key is unknown."""
        wanted = dict.fromkeys(keys)
        with self._lock:
            if any(key not in self._where for key in wanted):
                for name in self._files.names(self._folder, SUFFIX) if self._files is not None else ():
                    if name not in self._known:
                        self._rows(name)
            places: dict[str, list[bytes]] = {}
            for key in wanted:
                if key in self._where:
                    places.setdefault(self._where[key], []).append(key)
            return {
                key: rows[key] for name, held in places.items() for rows in (self._rows(name),) for key in held if key in rows
            }

    def put(
        self,
        keys: Sequence[bytes],
        vectors: NDArray[np.float32],
        n_tokens: Sequence[int],
        half: bool = False,
        n_cut: Sequence[int] = (),
    ) -> None:
        """Store vectors, an array of shape (keys, dimensions), as one file. `half`: round them to 2-byte floats. `n_cut`: number
        of tokens of each text that the model did not read; empty if it read all."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.parquet as pq

        values = vectors.astype(np.float16 if half else np.float32)
        columns = {
            "key": pa.array(keys, pa.binary(32)),
            "n_tokens": pa.array(list(map(int, n_tokens)), pa.int32()),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1]),
        }
        if any(n_cut):
            columns["n_cut"] = pa.array(list(map(int, n_cut)), pa.int32())
        sink = io.BytesIO()
        # Vectors hardly become smaller, so compression would only cost time.
        pq.write_table(pa.table(columns), sink, compression="none", write_statistics=False)
        content = sink.getvalue()
        name = f"{self._folder}/{hashlib.sha256(content).hexdigest()}{SUFFIX}"
        if self._files is not None:
            self._files.create(name, content)
        with self._lock:
            self._index(name, content)

    def _rows(self, name: str) -> Mapping[bytes, Kept]:
        """Return the vectors in a file; none if the file is damaged or missing. They are then computed again when they are
        needed."""
        if name not in self._open and self._files is not None:
            try:
                content = self._files.read(name)
            except FileNotFoundError:
                # Another process has found it damaged and deleted it.
                content = b""
            if hashlib.sha256(content).hexdigest() not in name:
                self._files.delete(name)
                self._known.discard(name)
                self._where = {key: place for key, place in self._where.items() if place != name}
                return {}
            self._index(name, content)
        self._open.move_to_end(name)
        return self._open[name]

    def _index(self, name: str, content: bytes) -> None:
        """Add the vectors in a file to the index, and keep them in memory."""
        import numpy as np
        import pyarrow.parquet as pq

        table = pq.read_table(io.BytesIO(content))
        column = table["vector"].combine_chunks()
        flat = column.flatten().to_numpy(zero_copy_only=False).astype(np.float32)
        vectors = flat.reshape(len(table), column.type.list_size)
        cut = table["n_cut"].to_pylist() if "n_cut" in table.column_names else [0] * len(table)
        kept = map(Kept, vectors, table["n_tokens"].to_pylist(), cut)
        rows = dict(zip(table["key"].to_pylist(), kept, strict=True))
        self._known.add(name)
        for key in rows:
            self._where.setdefault(key, name)
        self._open[name] = rows
        # Without a store, vectors cannot be read again, so keep all of them.
        while self._files is not None and len(self._open) > OPEN_FILES:
            self._open.popitem(last=False)


def n_vector_files(files: Files) -> int:
    """Return the number of vector files in the store. Each contains a block of texts."""
    return sum(1 for space in files.folders(FOLDER) for _ in files.names(f"{FOLDER}/{space}", SUFFIX))


def vector_flaws(files: Files) -> Mapping[str, int]:
    """Return vector file of the store -> number of its vectors, or -1 if it is damaged. Changes nothing."""
    import pyarrow.parquet as pq

    found: dict[str, int] = {}
    for space in files.folders(FOLDER):
        for name in files.names(f"{FOLDER}/{space}", SUFFIX):
            content = files.read(name)
            is_whole = hashlib.sha256(content).hexdigest() in name
            found[files.where(name)] = pq.ParquetFile(io.BytesIO(content)).metadata.num_rows if is_whole else -1
    return found


@dataclass
class Dimensions:
    """The number of dimensions of each space, as far as this process knows it. It is thread-safe."""

    files: Files
    _decided: dict[str, int | None] = field(default_factory=dict)
    """Space -> its number of dimensions; None until an answer decides it."""
    _read: dict[str, int] = field(default_factory=dict)
    """Space -> the number of dimensions of the first stored answer that was read before an answer decided it."""
    overruled: set[str] = field(default_factory=set)
    """Spaces in which a new answer has decided a number of dimensions that differs from earlier answers."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def fits(self, space: str, dimensions: int) -> bool:
        """Return whether a stored answer with this number of dimensions fits the other answers."""
        with self._lock:
            decided = self._of(space)
            return dimensions == (self._read.setdefault(space, dimensions) if decided is None else decided)

    def expected(self, space: str, dimensions: int) -> int:
        """Return the valid number of dimensions. `dimensions`: the number of a new answer. The first new answer decides."""
        with self._lock:
            decided = self._of(space)
            if decided is None:
                before = self._stored(space)
                if len(before) != 1:
                    if {*before, self._read.get(space, dimensions)} - {dimensions}:
                        self.overruled.add(space)
                    self.files.create(f"{FOLDER}/dimensions/{space}/{dimensions}", b"")
                    for other in before:
                        if other != dimensions:
                            self.files.delete(f"{FOLDER}/dimensions/{space}/{other}")
                    # Another process may have decided at the same time. If not, only this number of dimensions is stored.
                    before = [other for other in self._stored(space) if other != dimensions] or [dimensions]
                decided = self._decided[space] = before[0]
        if decided != dimensions:
            self.files.create(f"{FOLDER}/dimensions/{space}/{dimensions}", b"")
        return decided

    def _of(self, space: str) -> int | None:
        if space not in self._decided:
            there = self._stored(space)
            self._decided[space] = there[0] if len(there) == 1 else None
        return self._decided[space]

    def _stored(self, space: str) -> list[int]:
        names = (name.rpartition("/")[2] for name in self.files.names(f"{FOLDER}/dimensions/{space}"))
        return [int(name) for name in names if name.isdigit()]
