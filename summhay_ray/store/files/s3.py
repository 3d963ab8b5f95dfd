"""A store's files in an S3 bucket. Part of the store room; imports boto3, so only `open_files` imports it, for an `s3://` URI.

`create` is S3's conditional write (`If-None-Match: *`, "conditional writes" in the S3 user guide). Every object carries a token
of the write that created it, so that a write whose reply was lost is recognized as our own when it is retried.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import mimetypes
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from summhay_ray.errors import StoreError
from summhay_ray.store.files.entry import Entry, check_path, is_plain
from summhay_ray.store.files.s3_client import BeyondEnd, ObjectExists, Service
from summhay_ray.store.files.s3_errors import not_s3
from summhay_ray.store.files.s3_place import Place, parse_place

TOKEN = "summhay-write"
PATIENCE_S = 300.0
"""How long a service that has answered before is asked again, if it cannot be reached: an outage of minutes ends no run."""
ANSWER_S = 30.0
"""How long an answer is awaited."""
TRIES = 5
# A person waits for a check.
CHECK_S, CHECK_ANSWER_S = 6.0, 4.0
CHECKED, CHECKED_CONTENT = ".summhay-check", b"summhay\n"


class S3Files:
    """A store under a prefix of a bucket; see `Files`. Thread-safe. Another process reopens it by `uri` or by unpickling."""

    def __init__(self, place: Place, patience_s: float = PATIENCE_S, answer_s: float = ANSWER_S) -> None:
        self._patience_s, self._answer_s = patience_s, answer_s
        self._named = place
        self._service = Service(place, patience_s, answer_s)

    def __reduce__(self) -> tuple[Any, ...]:
        return S3Files, (self._service.place, self._patience_s, self._answer_s)

    @property
    def uri(self) -> str:
        """See `Files`. Includes the endpoint that boto3 found here, so that another machine finds the same service."""
        return self._service.place.uri

    @property
    def folder(self) -> Path | None:
        """See `Files`."""
        return None

    def where(self, name: str) -> str:
        """See `Files`."""
        at = f" (at {self._named.endpoint_url})" if self._named.endpoint_url is not None else ""
        return f"s3://{self._named.bucket}/{self._named.key(name)}{at}"

    def create(self, name: str, content: bytes) -> bool:
        """See `Files`. Also returns True if an earlier try of this call wrote the object and only its reply was lost.

        Raises StoreError. After StoreUnavailable the outcome is unknown: the object may exist, or appear a little later.
        """
        token = uuid.uuid4().hex
        for _ in range(TRIES):
            with contextlib.suppress(ObjectExists):
                self._write(name, io.BytesIO(content), token, IfNoneMatch="*")
                return True
            # If the object was deleted between the two requests, the name is free again.
            with contextlib.suppress(FileNotFoundError):
                # Checked even on a first try: a proxy on the way may have sent the write twice.
                return _token_of(self._ask("head_object", name)) == token
        raise StoreError(f"{self.where(name)} is taken and missing at once; delete it, with all its versions, and run again")

    def put(self, name: str, content: bytes) -> None:
        """See `Files`."""
        self._write(name, io.BytesIO(content))

    @contextlib.contextmanager
    def writing(self, name: str, named: Callable[[Path], str] | None = None) -> Iterator[Path]:
        """See `Files`."""
        with tempfile.TemporaryDirectory(prefix="summhay-") as folder:
            path = Path(folder) / "whole"
            yield path
            name = name if named is None else named(path)
            with path.open("rb") as stream:
                self._write(name, stream)

    def read(self, name: str, most_mb: float | None = None) -> bytes:
        """See `Files`."""
        return bytes(self._ask("get_object", name)["Body"])

    def read_range(self, name: str, offset: int, length: int) -> bytes:
        """See `Files`."""
        try:
            answer = self._ask("get_object", name, Range=f"bytes={offset}-{offset + length - 1}")
        except BeyondEnd:
            return b""
        content = bytes(answer["Body"])
        # A service may ignore the range and send the whole object.
        return content if "ContentRange" in answer else content[offset : offset + length]

    def exists(self, name: str) -> bool:
        """See `Files`."""
        try:
            self._ask("head_object", name)
        except FileNotFoundError:
            return False
        return True

    def names(self, folder: str, suffix: str = "") -> Iterator[str]:
        """See `Files`. One request per 1,000 names."""
        for entry in self.entries(folder):
            if entry.name.endswith(suffix) and not entry.name.rpartition("/")[2].startswith("."):
                yield entry.name

    def entries(self, folder: str, deep: bool = False) -> Iterator[Entry]:
        """See `Files`."""
        above = self._above(folder)
        for page in self._service.pages(above, deep):
            for entry in page.get("Contents", ()):
                name = str(entry["Key"])[len(above) :]
                if all(map(is_plain, name.split("/"))):
                    yield Entry(f"{folder}/{name}" if folder else name, int(entry["Size"]), entry["LastModified"].timestamp())

    def delete(self, name: str) -> None:
        """See `Files`."""
        with contextlib.suppress(FileNotFoundError):
            self._ask("delete_object", name)

    def move(self, name: str, to: str) -> None:
        """See `Files`. The service copies it, at most 5 GB."""
        source = {"Bucket": self._named.bucket, "Key": self._key(name)}
        with contextlib.suppress(FileNotFoundError):
            self._ask("copy_object", to, CopySource=source)
            self.delete(name)

    def folders(self, folder: str) -> Iterator[str]:
        """See `Files`."""
        above = self._above(folder)
        for page in self._service.pages(above):
            for entry in page.get("CommonPrefixes", ()):
                name = str(entry["Prefix"])[len(above) : -1]
                if is_plain(name) and not name.startswith("."):
                    yield name

    def check(self) -> None:
        """See `Files`. Makes five requests and leaves one small object, which later checks write over."""
        S3Files(self._service.place, CHECK_S, CHECK_ANSWER_S)._check()

    def _check(self) -> None:
        store, at = f"store {self._named.bare}", self._named.endpoint_url or "AWS"
        # A missing object must not look like a denied one.
        try:
            self.read(f"{CHECKED}-{uuid.uuid4().hex}")
        except FileNotFoundError:
            pass
        else:
            raise StoreError(f"{store}: {not_s3(at, 'it has an object that nobody wrote')}")
        self.put(CHECKED, CHECKED_CONTENT)
        if self.create(CHECKED, CHECKED_CONTENT):
            raise StoreError(
                f"{store}: {at} ignores conditional writes (If-None-Match), so that two runs could write over each other's work; "
                "use a service that honours them"
            )
        held = self._ask("get_object", CHECKED)
        if held["Body"] != CHECKED_CONTENT or _token_of(held) is None:
            raise StoreError(f"{store}: {at} does not give back what was written (content and metadata); use another service")

    def _above(self, folder: str) -> str:
        """The common prefix of the keys directly in `folder`."""
        return self._named.key(f"{folder}/" if folder else "")

    def _write(self, name: str, content: io.BufferedIOBase, token: str = "", **condition: str) -> None:
        """Write an object in one request, which S3 allows up to 5 GB."""
        md5 = hashlib.file_digest(content, lambda: hashlib.md5(usedforsecurity=False))
        digest = base64.b64encode(md5.digest()).decode()
        # Without the right content type a browser does not display an HTML page.
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        headers = {"ContentMD5": digest, "ContentType": kind, "Metadata": {TOKEN: token or uuid.uuid4().hex}}
        self._ask("put_object", name, Body=content, **headers, **condition)

    def _key(self, name: str) -> str:
        check_path(name, self._named.bare)
        return self._named.key(name)

    def _ask(self, operation: str, name: str, **options: Any) -> dict[str, Any]:
        try:
            return self._service.ask(operation, Key=self._key(name), **options)
        except FileNotFoundError:
            raise FileNotFoundError(self.where(name)) from None


def open_s3(uri: str) -> S3Files:
    """The files of an `s3://` URI. Makes no connection. Raises StoreError for an unusable URI."""
    return S3Files(parse_place(uri))


def _token_of(answer: dict[str, Any]) -> str | None:
    """The token of the write that created the object; None if it has none."""
    metadata: dict[str, str] = answer.get("Metadata", {})
    return next((value for name, value in metadata.items() if name.lower() == TOKEN), None)
