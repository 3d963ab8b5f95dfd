"""The files that a spec names.

A new run reads them from the spec's folder and stores their content; a stored run reads them from the store. A path in a spec may
be a link, but a link inside a folder that the spec names may not lead out of that folder.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from summhay_ray.errors import SpecError, UserError
from summhay_ray.inputs import find, read_json, real_path
from summhay_ray.plugins import code_identity, source_identity
from summhay_ray.store import Store

FOLDER = "folder"
"""The field of a run's record with the folder of its spec, for models in folders next to the spec."""
KIND = "input"
"""The kind of these files among the store's objects."""
CODE = "code"
"""The field of a run's record with the user's own code: module:Class -> sha256 (hex) of the module."""


class Inputs:
    """Reads files by their names in a spec. Every file that is read becomes part of the run's identity."""

    def __init__(
        self,
        folder: Path,
        store: Callable[[], Store | None] = lambda: None,
        named: Iterable[str] = (),
        untrusted: bool = False,
    ) -> None:
        """`folder`: the spec's. `named`: every text in the spec. `untrusted`: read nothing outside the spec's folder."""
        self.folder = folder
        self.untrusted = untrusted
        self.record: Mapping[str, Any] | None = None
        """The record of a stored run; None for a new one."""
        self._named = named
        self._places: set[Path] | None = None
        self._open = store
        self._given: dict[str, bytes] = {}
        self._digests: dict[str, str] = {}
        self.files: dict[str, Path] = {}
        """Name in the spec -> path on this machine, for the files that were read from disk."""
        self.settled = False
        """Whether the run's set of files is final, because the run is stored or has started. No further file can be read then."""

    @functools.cached_property
    def store(self) -> Store | None:
        """The run's store, which holds inputs that are named by their hash; None without a store. Raises StoreError."""
        return self._open()

    @classmethod
    def stored(cls, store: Store, record: Mapping[str, Any]) -> Inputs:
        """The inputs of a stored run, from its record."""
        inputs = cls(Path(record.get(FOLDER, "")), lambda: store)
        inputs.record = record
        inputs._digests = {**record.get("inputs", {}), **record.get("answers", {})}
        inputs.settled = True
        return inputs

    def read(self, entry: str) -> bytes:
        """The file's content. Raises SpecError if there is no such file, or if it changed since it was first read."""
        if self.settled and entry not in self._digests:
            raise SpecError(
                f"{entry!r} is read for the first time while the run is under way; read it in `items` or `__init__`: a run's "
                "files are kept before it begins"
            )
        if self.record is not None and self.store is not None:
            content = self.store.get_object(KIND, self._digests[entry])
        elif entry in self._given:
            content = self._given[entry]
        else:
            path = self.path(entry)
            try:
                content = read_json(path, self._within(path))
            except OSError as error:
                raise SpecError(f"spec: {entry!r} cannot be read ({error.strerror}); give a file that can") from error
            except UserError as error:
                raise SpecError(f"spec: {error}") from error
            self.files[entry] = path.resolve()
        digest = hashlib.sha256(content).hexdigest()
        if self._digests.setdefault(entry, digest) != digest:
            raise SpecError(f"{entry}: was changed since it was read; put back what it was, or start again")
        return content

    def give(self, entry: str, content: bytes) -> None:
        """Provide content that is not a file in the spec's folder. `read` returns it, and the run stores it like a file."""
        self._given[entry] = content

    def digests(self) -> dict[str, str]:
        """Name in the spec -> sha256 (hex) of the content, for all files that were read."""
        return dict(self._digests)

    def keep(self, store: Store, entries: Iterable[str] | None = None) -> dict[str, str]:
        """Put the files that were read (or only `entries`) into the store; returns their `digests`."""
        names = self._digests if entries is None else entries
        return {entry: store.put_object(KIND, self.read(entry)) for entry in names}

    def code(self, name: str) -> str:
        """sha256 (hex) of the module with the user's own `module:Class`, as part of a run's identity; empty for a built-in name.

        A stored run has it in its record, so that reading a run imports none of the user's code.
        """
        if self.record is None:
            return code_identity(name)
        known: Mapping[str, str] = self.record.get(CODE, {})
        head = name.partition("/")[0]
        return known[head] if head in known else source_identity(name)

    def path(self, entry: str) -> Path:
        """The path of a file or folder: in the spec's folder or, for a trusted spec, else in the current one. Raises SpecError if
        it does not exist or is outside the place that the spec names."""
        path = find(entry, self.folder) if self.untrusted else find(entry, self.folder, Path())
        if path is None:
            raise SpecError(f"spec: no file {entry!r} in {str(self.folder)!r}; paths start from the spec's folder")
        try:
            real_path(path, *self._within(path))
        except UserError as error:
            raise SpecError(f"spec: {error}") from error
        return path

    def _within(self, path: Path) -> list[Path]:
        """The places that `path` must not leave: the nearest folder above it that the spec names, unless it is named itself; and
        the folder of an untrusted spec."""
        if self._places is None:
            # The spec's texts as paths, each relative to the spec's folder and to the current one.
            roots = (self.folder, Path())
            self._places = {Path(os.path.abspath(root / text)) for text in self._named if text for root in roots}
        placed = Path(os.path.abspath(path))
        above = next((place for place in (placed, *placed.parents) if place in self._places), placed)
        return [*([above] if above != placed else []), *([self.folder] if self.untrusted else [])]

    def text(self, entry: str) -> str:
        """The file's text, without a byte order mark. Raises SpecError if it is not UTF-8."""
        try:
            return self.read(entry).decode("utf-8-sig")
        except UnicodeDecodeError:
            raise SpecError(f"spec: {entry!r} is not UTF-8 text") from None
