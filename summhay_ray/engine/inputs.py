"""The files that a spec names: read from its folder, kept in the store by their content, read from there ever after.

Part of the engine room.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from summhay_ray.engine.spec import SpecError
from summhay_ray.errors import UserError
from summhay_ray.inputs import find, read_json
from summhay_ray.store import Store

KIND = "input"
"""Kind of the store's objects that hold them."""


class Inputs:
    """Reads files by the names that a spec gives them. Each is a part of the run's identity from the first time it is read."""

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
        """Where inputs lie that are named by their content; None where no store is given. Raises StoreError."""
        return self._open()

    @classmethod
    def stored(cls, store: Store, digests: Mapping[str, str]) -> Inputs:
        """The inputs of a stored run."""
        inputs = cls(Path(), lambda: store)
        inputs._digests = dict(digests)
        inputs._settled = True
        inputs._content = lambda entry: store.get_object(KIND, inputs._digests[entry])
        return inputs

    def read(self, entry: str) -> bytes:
        """The file's content. Raises SpecError where there is none; one that has changed meanwhile is refused."""
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
        """Content that lies in no file of the spec's folder: `read` gives it, and it is kept with the run as a file's is."""
        self._given[entry] = content

    @property
    def settled(self) -> bool:
        """Whether all that the run stands on is known: it is a stored run, or one that is under way."""
        return self._settled

    def settle(self) -> None:
        """All files that the run stands on were read: another one is refused from now on."""
        self._settled = True

    def digests(self) -> dict[str, str]:
        """File as the spec names it -> sha256 (hex) of its content, for all that were read."""
        return dict(self._digests)

    def keep(self, store: Store, entries: Iterable[str] | None = None) -> dict[str, str]:
        """Put what was read, or these of it, into the store; gives their `digests`."""
        kept = self._digests if entries is None else entries
        return {entry: store.put_object(KIND, self.read(entry)) for entry in kept}

    def path(self, entry: str) -> Path:
        """Where a file lies on this machine: in the spec's folder, else where the person stands. Raises SpecError for none."""
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
        """The file's text. Raises SpecError where it is not UTF-8."""
        try:
            return self.read(entry).decode("utf-8")
        except UnicodeDecodeError:
            raise SpecError(f"spec: {entry!r} is not UTF-8 text") from None

    def files(self) -> dict[str, Path]:
        """File as the spec names it -> where it lies on this machine."""
        return dict(self._files)
