"""Requests to S3 with retries, then one clear error. Part of the store room; only `s3.py` calls it.

The retries are our own: botocore's retry quota is shared by all threads and runs out when many requests fail, and botocore does
not retry when a connection breaks in the middle of a response body.
"""

from __future__ import annotations

import functools
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import boto3
import botocore.config
import botocore.exceptions
import botocore.loaders
import botocore.session
import botocore.utils

from summhay_ray.store.files.s3_errors import ERRORS, code_of, problem_of, worth_again
from summhay_ray.store.files.s3_place import Place, parse_place, with_endpoint

POOL = 32
CONNECT_S = 5.0
ANSWER_S = 30.0
PAUSES_S = (0.05, 5.0)


class ObjectExists(Exception):
    """The condition of a conditional write failed: the object exists."""


class BeyondEnd(Exception):
    """The requested range begins after the object's end."""


class Until:
    """A deadline for retries: `patience_s()` seconds from now on, with growing random pauses between the tries.

    patience_s: called before each pause, since the patience grows once another request has been answered.
    """

    def __init__(self, patience_s: Callable[[], float]) -> None:
        self._began, self._patience_s = time.monotonic(), patience_s

    @property
    def tried_s(self) -> float:
        """Seconds since the first try."""
        return time.monotonic() - self._began

    def pause(self, tried: int) -> bool:
        """Wait before the next try. Return False at once if no time is left."""
        pause_s = min(PAUSES_S[1], PAUSES_S[0] * 2**tried) * random.uniform(0.5, 1.0)
        if self.tried_s + pause_s > self._patience_s():
            return False
        time.sleep(pause_s)
        return True


class Service:
    """The S3 service of one place. Each process gets a client of its own: a forked child must not share connections."""

    def __init__(self, place: Place, answer_s: float = ANSWER_S) -> None:
        self._named, self._answer_s = place, answer_s
        self._making = threading.Lock()
        self._made: tuple[int, Place, Any] | None = None

    @property
    def place(self) -> Place:
        """The place, including the endpoint from this process's boto3 settings if it is not AWS's. Raises StoreError."""
        return self._client()[0]

    def ask(self, operation: str, until: Until, **options: Any) -> dict[str, Any]:
        """Make one request to the bucket and return the response, with a `Body` read fully as bytes.

        Raises FileNotFoundError, ObjectExists, BeyondEnd, StoreError; StoreUnavailable if all retries failed.
        """
        place, client = self._client()
        tried = 0
        while True:
            if "Body" in options:
                options["Body"].seek(0)
            try:
                answer: dict[str, Any] = getattr(client, operation)(Bucket=place.bucket, **options)
                if "Body" in answer:
                    answer["Body"] = answer["Body"].read()
                return answer
            except ERRORS as error:
                _raise_said(operation, error)
                tried += 1
                if not worth_again(error) or not until.pause(tried):
                    raise problem_of(error, place, until.tried_s) from None

    def pages(self, patience_s: Callable[[], float], prefix: str, deep: bool = False) -> Iterator[dict[str, Any]]:
        """The pages of a listing directly below `prefix`, or `deep`; each is retried for `patience_s()` seconds."""
        more = {} if deep else {"Delimiter": "/"}
        while True:
            page = self.ask("list_objects_v2", Until(patience_s), Prefix=prefix, **more)
            yield page
            if not page.get("IsTruncated"):
                return
            more["ContinuationToken"] = page["NextContinuationToken"]

    def close(self) -> None:
        """Close the connections."""
        if self._made is not None:
            self._made[2].close()
        self._made = None

    def _client(self) -> tuple[Place, Any]:
        with self._making:
            if self._made is None or self._made[0] != os.getpid():
                try:
                    self._made = (os.getpid(), *self._make())
                except (*ERRORS, ValueError) as error:
                    raise problem_of(error, self._named) from None
            return self._made[1:]

    def _make(self) -> tuple[Place, Any]:
        place = self._named
        client = _connect(place, self._answer_s)
        found = str(client.meta.endpoint_url).rstrip("/")
        if place.endpoint_url is None and not _is_aws(found):
            # The endpoint becomes part of the URI, so that a machine with other settings opens the same place.
            place = parse_place(with_endpoint(place.uri, found))
            client = _connect(place, self._answer_s)
        return place, client


def _connect(place: Place, answer_s: float) -> Any:
    # Bucket names in the host name need DNS entries, which services other than AWS rarely have.
    style = {"addressing_style": "path"} if place.endpoint_url is not None else {}
    config = botocore.config.Config(
        connect_timeout=min(CONNECT_S, answer_s),
        read_timeout=answer_s,
        retries={"total_max_attempts": 1, "mode": "standard"},
        max_pool_connections=POOL,
        s3=style,
        # Services other than AWS fail on the newer checksums; the store's objects carry checksums of their own.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    # boto3's default session is not thread-safe. Its data loader is, and sharing it saves a tenth of a second per client.
    session = botocore.session.Session()
    session.register_component("data_loader", _data_loader())
    # As botocore does it, the times in a listing take most of the time to read it.
    session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=_time)
    client = boto3.session.Session(botocore_session=session).client(
        "s3", endpoint_url=place.endpoint_url, region_name=place.region, config=config
    )
    if place.endpoint_url is not None:
        # On a redirect without a region (from a web server), botocore asks for the bucket's region.
        # That request is redirected too, and so on without end.
        client.meta.events.register("before-call.s3.HeadBucket", _no_region)
    return client


@functools.cache
def _data_loader() -> Any:
    return botocore.loaders.create_loader()


def _time(text: str) -> Any:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return botocore.utils.parse_timestamp(text)  # That of a header.


def _no_region(**_: Any) -> None:
    raise botocore.exceptions.ClientError({"ResponseMetadata": {"HTTPHeaders": {}}}, "HeadBucket")


def _is_aws(endpoint_url: str) -> bool:
    host = urlsplit(endpoint_url).hostname or ""
    return host.endswith((".amazonaws.com", ".amazonaws.com.cn"))


def _raise_said(operation: str, error: Exception) -> None:
    """Raise FileNotFoundError, ObjectExists or BeyondEnd for error codes that stand for an expected outcome."""
    code = code_of(error)
    if code == "NoSuchKey" or (operation == "head_object" and code in {"404", "NotFound"}):
        raise FileNotFoundError from None
    if code in {"PreconditionFailed", "412"}:
        raise ObjectExists from None
    if code in {"InvalidRange", "416"}:
        raise BeyondEnd from None
