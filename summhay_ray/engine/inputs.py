"""The files that a spec names. Part of the engine room.

A new run reads them from the spec's folder and stores their content; a stored run reads them from the store.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from summhay_ray.engine.spec import SpecError
from summhay_ray.errors import UserError
from summhay_ray.inputs import find, read_json
from summhay_ray.store import Store

FOLDER = "folder"
"""The field of a run's record with the folder of its spec, for models in folders beside it."""
KIND = "input"
"""The kind of these files among the store's objects."""


class Inputs:
    """Reads files by their names in a spec. Every file that is read becomes part of the run's identity."""

    def __init__(self, folder: Path, store: Callable[[], Store | None] = lambda: None) -> None:
        self.folder = folder
        self._open = store
        self._content: Callable[[str], bytes] = self._from_folder
        self._given: dict[str, bytes] = {}
        self._digests: dict[str, str] = {}
        self._files: dict[str, Path] = {}
        self._settled = False

    @functools.cached_property
    def store(self) -> Store | None:
        """The store, which holds inputs that are named by their content; None if there is none. Raises StoreError."""
        return self._open()

    @classmethod
    def stored(cls, store: Store, record: Mapping[str, Any]) -> Inputs:
        """The inputs of a stored run, by its record."""
        digests = record.get("inputs", {})
        inputs = cls(Path(record.get(FOLDER, "")), lambda: store)
        inputs._digests = dict(digests)
        inputs._settled = True
        inputs._content = lambda entry: store.get_object(KIND, inputs._digests[entry])
        return inputs

    def read(self, entry: str) -> bytes:
        """The file's content. Raises SpecError if there is no such file, or if it changed since it was first read."""
        if self._settled and entry not in self._digests:
            raise SpecError(
                f"{entry!r} is read for the first time while the run is under way; read it in `items` or `__init__`: a run's "
                "files are kept before it begins"
            )
        content = self._content(entry)
        digest = hashlib.sha256(content).hexdigest()
        if self._digests.setdefault(entry, digest) != digest:
            raise SpecError(f"{entry}: was changed since it was read; put back what it was, or start again")
        return content

    def give(self, entry: str, content: bytes) -> None:
        """Provide content that is not a file in the spec's folder. `read` returns it, and the run stores it like a file."""
        self._given[entry] = content

    @property
    def settled(self) -> bool:
        """Whether the run's files are all known, because the run is stored or has started. No further file can be read then."""
        return self._settled

    def settle(self) -> None:
        """Declare that all files of the run were read. From now on, another file is refused."""
        self._settled = True

    def digests(self) -> dict[str, str]:
        """Name in the spec -> sha256 (hex) of the content, for all files that were read."""
        return dict(self._digests)

    def keep(self, store: Store, entries: Iterable[str] | None = None) -> dict[str, str]:
        """Put the files that were read (or only `entries`) into the store; returns their `digests`."""
        names = self._digests if entries is None else entries
        return {entry: store.put_object(KIND, self.read(entry)) for entry in names}

    def path(self, entry: str) -> Path:
        """The path of a file: in the spec's folder, else in the current folder. Raises SpecError if there is none."""
        path = find(entry, self.folder)
        if path is None:
            raise SpecError(f"spec: no file {entry!r} in {str(self.folder)!r}; paths start from the spec's folder")
        return path

    def _from_folder(self, entry: str) -> bytes:
        if entry in self._given:
            return self._given[entry]
        path = self.path(entry)
        try:
            content = read_json(path)
        except OSError as error:
            raise SpecError(f"spec: {entry!r} cannot be read ({error.strerror}); give a file that can") from error
        except UserError as error:
            raise SpecError(f"spec: {error}") from error
        self._files[entry] = path.resolve()
        return content

    def text(self, entry: str) -> str:
        """The file's text. Raises SpecError if it is not UTF-8."""
        try:
            return self.read(entry).decode("utf-8")
        except UnicodeDecodeError:
            raise SpecError(f"spec: {entry!r} is not UTF-8 text") from None

    def files(self) -> dict[str, Path]:
        """Name in the spec -> path on this machine, for the files that were read from disk."""
        return dict(self._files)
