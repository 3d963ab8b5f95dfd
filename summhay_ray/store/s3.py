"""A store's files in an S3 bucket. This module imports boto3, so only `open_files` imports it, for an `s3://` URI.

`create` uses S3's conditional write (`If-None-Match: *`; see "conditional writes" in the S3 user guide). If the object exists,
its content is compared. So if the reply to a write was lost, the retry succeeds.

botocore's retries are not used. All threads share their quota, which runs out if many requests fail. Also, they do not cover a
connection that breaks in the middle of a response body.
"""

import base64
import contextlib
import functools
import hashlib
import io
import mimetypes
import os
import tempfile
import threading
import uuid
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import botocore.config
import botocore.exceptions
import botocore.loaders
import botocore.session
import botocore.utils
from tenacity import RetryCallState, Retrying, retry_if_exception, wait_random_exponential

from summhay_ray.errors import StoreError
from summhay_ray.routes import route_to
from summhay_ray.store.names import Entry, NewFile, Place, check_path, is_plain, parse_place, with_endpoint
from summhay_ray.store.s3_errors import ERRORS, code_of, not_s3, problem_of, worth_again

PATIENCE_S = 300.0
"""Seconds of retries if the service has answered before, so that a run survives an outage of minutes."""
FIRST_S = 6.0
"""Seconds of retries if the service has never answered, since it may not exist."""
ANSWER_S = 30.0
"""Seconds to wait for an answer."""
TRIES = 5
# The timeouts of a check are shorter, since a person waits for it.
CHECK_S, CHECK_ANSWER_S = 6.0, 4.0
CHECKED, CHECKED_CONTENT = ".summhay-check", b"summhay\n"
POOL = 32
CONNECT_S = 5.0
PAUSES = wait_random_exponential(multiplier=0.1, max=5.0)
_data_loader = functools.cache(botocore.loaders.create_loader)


class ObjectExists(Exception):
    """Raised if a conditional write fails because the object exists."""


class BeyondEnd(Exception):
    """Raised if the requested range begins after the object's end."""


class S3Files:
    """A store under a prefix of a bucket, with the methods of `LocalFiles`. Thread-safe.

    Another process opens it by `uri` or by unpickling. Each process creates its own client, since a forked child must not share
    connections. `patience_s`: for how long a request is retried, with growing random pauses, if the service has answered before.
    """

    folder: Path | None = None

    def __init__(self, place: Place, patience_s: float = PATIENCE_S, answer_s: float = ANSWER_S) -> None:
        self._place, self._patience_s, self._answer_s = place, patience_s, answer_s
        self._has_answered = False
        self._making = threading.Lock()
        self._made: tuple[int, Place, Any] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return S3Files, (self._client()[0], self._patience_s, self._answer_s)

    @property
    def uri(self) -> str:
        """The URI, including the endpoint from this machine's boto3 settings, so that another machine uses the same service.
        Raises StoreError."""
        return self._client()[0].uri

    def where(self, name: str) -> str:
        """See `LocalFiles`."""
        at = f" (at {self._place.endpoint_url})" if self._place.endpoint_url is not None else ""
        return f"s3://{self._place.bucket}/{self._place.key(name)}{at}"

    def create(self, name: str, content: bytes) -> bool:
        """See `LocalFiles`. Raises StoreError. After StoreUnavailable, the object may exist or may appear a little later."""
        for _ in range(TRIES):
            with contextlib.suppress(ObjectExists):
                self._write(name, io.BytesIO(content), IfNoneMatch="*")
                return True
            # The object may be from our own write, if the reply was lost or a proxy sent the request twice. If the object is gone
            # now, try again.
            with contextlib.suppress(FileNotFoundError):
                return self.read(name) == content
        raise StoreError(f"{self.where(name)} is both taken and missing; delete it, with all its versions, and run again")

    def put(self, name: str, content: bytes) -> None:
        """See `LocalFiles`."""
        self._write(name, io.BytesIO(content))

    @contextlib.contextmanager
    def writing(self, name: str, durable: bool = False) -> Iterator[NewFile]:
        """See `LocalFiles`. Every object is durable."""
        with tempfile.TemporaryDirectory(prefix="summhay-") as folder:
            new = NewFile(Path(folder) / "whole", name)
            yield new
            with new.path.open("rb") as stream:
                self._write(new.name, stream)

    def read(self, name: str, offset: int = 0, length: int | None = None, *, is_large: bool = False) -> bytes:
        """See `LocalFiles`. There is no limit."""
        if length is None:
            return bytes(self._request("get_object", name)["Body"])[offset:]
        try:
            answer = self._request("get_object", name, Range=f"bytes={offset}-{offset + length - 1}")
        except BeyondEnd:
            return b""
        content = bytes(answer["Body"])
        # A service may ignore the range, and send the whole object.
        return content if "ContentRange" in answer else content[offset : offset + length]

    def exists(self, name: str) -> bool:
        """See `LocalFiles`."""
        try:
            self._request("head_object", name)
        except FileNotFoundError:
            return False
        return True

    def names(self, folder: str, suffix: str = "") -> Iterator[str]:
        """See `LocalFiles`. One request per 1,000 names."""
        for entry in self.entries(folder):
            if entry.name.endswith(suffix) and not entry.name.rpartition("/")[2].startswith("."):
                yield entry.name

    def entries(self, folder: str, deep: bool = False) -> Iterator[Entry]:
        """See `LocalFiles`."""
        for above, page in self._pages(folder, deep):
            for entry in page.get("Contents", ()):
                name = str(entry["Key"])[len(above) :]
                if all(map(is_plain, name.split("/"))):
                    yield Entry(f"{folder}/{name}" if folder else name, int(entry["Size"]), entry["LastModified"].timestamp())

    def folders(self, folder: str) -> Iterator[str]:
        """See `LocalFiles`."""
        for above, page in self._pages(folder, False):
            for entry in page.get("CommonPrefixes", ()):
                name = str(entry["Prefix"])[len(above) : -1]
                if is_plain(name) and not name.startswith("."):
                    yield name

    def delete(self, name: str) -> None:
        """See `LocalFiles`."""
        with contextlib.suppress(FileNotFoundError):
            self._request("delete_object", name)

    def move(self, name: str, to: str) -> None:
        """See `LocalFiles`. The service copies the object, which may have at most 5 GB."""
        check_path(name, self._place.bare)
        with contextlib.suppress(FileNotFoundError):
            self._request("copy_object", to, CopySource={"Bucket": self._place.bucket, "Key": self._place.key(name)})
            self.delete(name)

    def check(self) -> None:
        """See `LocalFiles`. Makes five requests, and leaves one small object, which later checks overwrite."""
        probe = S3Files(self._client()[0], CHECK_S, CHECK_ANSWER_S)
        store, at = f"store {probe._place.bare}", probe._place.endpoint_url or "AWS"
        # Check that a missing object does not look like a denied one.
        try:
            probe.read(f"{CHECKED}-{uuid.uuid4().hex}")
        except FileNotFoundError:
            pass
        else:
            raise StoreError(f"{store}: {not_s3(at, 'it has an object that nobody wrote')}")
        probe.put(CHECKED, CHECKED_CONTENT)
        if probe.create(CHECKED, b"second\n"):
            raise StoreError(
                f"{store}: {at} ignores conditional writes (If-None-Match), so that two runs could write over each other's work; "
                "use a service that honours them"
            )
        if probe.read(CHECKED) != CHECKED_CONTENT:
            raise StoreError(f"{store}: {at} does not give back what was written; use another service")

    def _write(self, name: str, content: io.BufferedIOBase, **condition: str) -> None:
        """Write an object in one request, for which S3 allows up to 5 GB."""
        md5 = hashlib.file_digest(content, lambda: hashlib.md5(usedforsecurity=False))
        digest = base64.b64encode(md5.digest()).decode()
        # Set the content type, since otherwise a browser does not display an HTML page.
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        self._request("put_object", name, Body=content, ContentMD5=digest, ContentType=kind, **condition)

    def _pages(self, folder: str, deep: bool) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield (the common prefix of the keys in a folder, a page of its listing) for each page."""
        above = self._place.key(f"{folder}/" if folder else "")
        more = {} if deep else {"Delimiter": "/"}
        while True:
            page = self._request("list_objects_v2", None, Prefix=above, **more)
            yield above, page
            if not page.get("IsTruncated"):
                return
            more["ContinuationToken"] = page["NextContinuationToken"]

    def _request(self, operation: str, name: str | None, **options: Any) -> dict[str, Any]:
        """Make a request about a file or about the bucket. Returns the response, whose `Body` is converted to bytes.

        Raises FileNotFoundError, ObjectExists, BeyondEnd, StoreError; StoreUnavailable if all retries failed although the service
        has answered before.
        """
        if name is not None:
            check_path(name, self._place.bare)
            options["Key"] = self._place.key(name)
        place, client = self._client()
        trials = Retrying(retry=retry_if_exception(worth_again), wait=PAUSES, stop=self._is_over, reraise=True)
        try:
            for trial in trials:
                with trial:
                    answer = self._try_once(client, operation, options)
        except FileNotFoundError:
            raise FileNotFoundError(self.where(name or "")) from None
        except ERRORS as error:
            raise problem_of(error, place, trial.retry_state.seconds_since_start or 0.0, self._has_answered) from None
        return answer

    def _try_once(self, client: Any, operation: str, options: dict[str, Any]) -> dict[str, Any]:
        if "Body" in options:
            options["Body"].seek(0)
        try:
            answer: dict[str, Any] = getattr(client, operation)(Bucket=self._place.bucket, **options)
            if "Body" in answer:
                answer["Body"] = answer["Body"].read()
        except ERRORS as error:
            code = code_of(error)
            expected: Exception | None = None
            if code == "NoSuchKey" or (operation == "head_object" and code in {"404", "NotFound"}):
                expected = FileNotFoundError()
            elif code in {"PreconditionFailed", "412"}:
                expected = ObjectExists()
            elif code in {"InvalidRange", "416"}:
                expected = BeyondEnd()
            self._has_answered |= expected is not None
            raise expected or error from None
        self._has_answered = True
        return answer

    def _is_over(self, state: RetryCallState) -> bool:
        """Return whether the time for retries is over."""
        most_s = self._patience_s if self._has_answered else min(self._patience_s, FIRST_S)
        return (state.seconds_since_start or 0.0) + state.upcoming_sleep > most_s

    def _client(self) -> tuple[Place, Any]:
        """Return the place, and the client of this process. If boto3's settings name an endpoint other than AWS, the place
        includes this endpoint. Raises StoreError."""
        with self._making:
            if self._made is None or self._made[0] != os.getpid():
                place = self._place
                try:
                    client = _connect(place, self._answer_s)
                    found = str(client.meta.endpoint_url).rstrip("/")
                    host = urlsplit(found).hostname or ""
                    if place.endpoint_url is None and not host.endswith((".amazonaws.com", ".amazonaws.com.cn")):
                        # Add the endpoint to the URI, so that a machine with other settings opens the same place.
                        place = parse_place(with_endpoint(place.uri, found))
                        client = _connect(place, self._answer_s)
                except (*ERRORS, ValueError) as error:
                    raise problem_of(error, self._place) from None
                self._made = os.getpid(), place, client
            return self._made[1:]


def _connect(place: Place, answer_s: float) -> Any:
    # A bucket's name in the host name needs a DNS entry, which services other than AWS rarely have.
    style = {"addressing_style": "path"} if place.endpoint_url is not None else {}
    # For AWS, whose addresses are https://, let botocore read the proxy from the environment. For other services, `route_to`
    # names the proxy, since botocore would use one for http:// addresses, too.
    proxies = None if place.endpoint_url is None else route_to(place.endpoint_url).proxies
    config = botocore.config.Config(
        proxies=proxies,
        connect_timeout=min(CONNECT_S, answer_s),
        read_timeout=answer_s,
        retries={"total_max_attempts": 1, "mode": "standard"},
        max_pool_connections=POOL,
        s3=style,
        # Services other than AWS fail on the newer checksums. The store's objects have their own checksums.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    # boto3's default session is not thread-safe, so create a new one. Share its data loader, which is thread-safe; this saves 0.1
    # s per client.
    session = botocore.session.Session()
    session.register_component("data_loader", _data_loader())
    # Parse times here, since botocore's parser takes most of the time for reading a listing.
    session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=_time)
    client = boto3.session.Session(botocore_session=session).client(
        "s3", endpoint_url=place.endpoint_url, region_name=place.region, config=config
    )
    if place.endpoint_url is not None:
        # After a redirect without a region, which a web server may send, botocore asks for the bucket's region. That request is
        # redirected as well, and so on forever. So let the question for the region fail.
        client.meta.events.register("before-call.s3.HeadBucket", _no_region)
    return client


def _time(text: str) -> Any:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return botocore.utils.parse_timestamp(text)  # The time of an HTTP header.


def _no_region(**_: Any) -> None:
    raise botocore.exceptions.ClientError({"ResponseMetadata": {"HTTPHeaders": {}}}, "HeadBucket")
