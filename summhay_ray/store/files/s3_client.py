"""Requests to S3 with retries, then one clear error. Part of the store room; only `s3.py` calls it.

The retries are not botocore's: its quota is shared by all threads and runs out when many requests fail, and botocore does
not retry when a connection breaks in the middle of a response body.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import boto3
import botocore.config
import botocore.exceptions
import botocore.loaders
import botocore.session
import botocore.utils
from tenacity import RetryCallState, Retrying, retry_if_exception, wait_random_exponential

from summhay_ray.routes import route_to
from summhay_ray.store.files.s3_errors import ERRORS, code_of, problem_of, worth_again
from summhay_ray.store.files.s3_place import Place, parse_place, with_endpoint

POOL = 32
CONNECT_S = 5.0
FIRST_S = 6.0
"""How long a service that has never answered is asked: it may not exist."""
PAUSES = wait_random_exponential(multiplier=0.1, max=5.0)


class ObjectExists(Exception):
    """The condition of a conditional write failed: the object exists."""


class BeyondEnd(Exception):
    """The requested range begins after the object's end."""


class Service:
    """The S3 service of one place. Each process gets a client of its own: a forked child must not share connections.

    `patience_s`: how long a request is tried, with growing random pauses, once the service has answered at all.
    """

    def __init__(self, place: Place, patience_s: float, answer_s: float) -> None:
        self._named, self._patience_s, self._answer_s = place, patience_s, answer_s
        self._met = False
        self._making = threading.Lock()
        self._made: tuple[int, Place, Any] | None = None

    @property
    def place(self) -> Place:
        """The place, including the endpoint from this process's boto3 settings if it is not AWS's. Raises StoreError."""
        return self._client()[0]

    def ask(self, operation: str, **options: Any) -> dict[str, Any]:
        """Make one request to the bucket and return the response, with a `Body` read fully as bytes.

        Raises FileNotFoundError, ObjectExists, BeyondEnd, StoreError; StoreUnavailable if all retries failed of a service that
        has answered before.
        """
        place, client = self._client()
        trials = Retrying(retry=retry_if_exception(worth_again), wait=PAUSES, stop=self._is_over, reraise=True)
        try:
            for trial in trials:
                with trial:
                    answer = self._asked(client, operation, options)
        except ERRORS as error:
            raise problem_of(error, place, trial.retry_state.seconds_since_start or 0.0, self._met) from None
        return answer

    def _asked(self, client: Any, operation: str, options: Mapping[str, Any]) -> dict[str, Any]:
        if "Body" in options:
            options["Body"].seek(0)
        try:
            answer: dict[str, Any] = getattr(client, operation)(Bucket=self._named.bucket, **options)
            if "Body" in answer:
                answer["Body"] = answer["Body"].read()
        except ERRORS as error:
            said = _said(operation, error)
            self._met |= said is not None
            raise said or error from None
        self._met = True
        return answer

    def _is_over(self, state: RetryCallState) -> bool:
        """Whether the next try would come too late."""
        most_s = self._patience_s if self._met else min(self._patience_s, FIRST_S)
        return (state.seconds_since_start or 0.0) + state.upcoming_sleep > most_s

    def pages(self, prefix: str, deep: bool = False) -> Iterator[dict[str, Any]]:
        """The pages of a listing directly below `prefix`, or `deep`."""
        more = {} if deep else {"Delimiter": "/"}
        while True:
            page = self.ask("list_objects_v2", Prefix=prefix, **more)
            yield page
            if not page.get("IsTruncated"):
                return
            more["ContinuationToken"] = page["NextContinuationToken"]

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
    # AWS itself is reached over https: botocore reads the environment. Otherwise it would send http:// through a proxy.
    proxies = None if place.endpoint_url is None else route_to(place.endpoint_url).proxies
    config = botocore.config.Config(
        proxies=proxies,
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


def _said(operation: str, error: Exception) -> Exception | None:
    """FileNotFoundError, ObjectExists or BeyondEnd for error codes that stand for an expected outcome."""
    code = code_of(error)
    if code == "NoSuchKey" or (operation == "head_object" and code in {"404", "NotFound"}):
        return FileNotFoundError()
    if code in {"PreconditionFailed", "412"}:
        return ObjectExists()
    return BeyondEnd() if code in {"InvalidRange", "416"} else None
