"""The URIs of buckets, the names of a store's files, the entries of its listings, and the errors that a store raises."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from summhay_ray.errors import StoreError

PLAIN = r"^\.?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?$"
"""The valid names of files and folders in a store: letters, digits, `_`, `-` and `.`, but not `.` alone or `..`."""


class DamagedRecord(StoreError):
    """Raised if a record of the store was changed, does not fit its schema, or was replaced, for example by a link.

    `flaw`: what is damaged, and how to fix it. `uri`: the store's URI; the message then contains a command that checks the whole
    store.
    """

    exit_code = 1

    def __init__(self, flaw: str, uri: str = "") -> None:
        super().__init__(f"{flaw}; run summhay doctor --store {uri}" if uri else flaw)
        self.flaw = flaw


class NoCredentials(StoreError):
    """Raised if this machine has no credentials for the bucket. Another machine, such as a cluster node, may have them."""


class StoreUnavailable(StoreError):
    """Raised if the store does not answer within the retry time, or if its disk is full. The request itself is valid."""

    exit_code = 1


class Superseded(StoreError):
    """Raised if another driver has taken over the run. The commits of this driver stay valid.

    It has a separate exit code, with which a scheduler should not restart the job: the two drivers would take the run from each
    other again and again.
    """

    exit_code = 6


@dataclass(frozen=True, slots=True)
class Entry:
    """A file's name, size and time in a listing."""

    name: str
    size: int
    """Bytes."""
    written: float
    """When the file was written: seconds since 1970, by the clock of the disk or bucket."""


@dataclass(slots=True)
class NewFile:
    """A local file that is being written, and its later name in the store."""

    path: Path
    name: str


def is_plain(name: Any) -> bool:
    """Return whether a file or folder of a store may have this name; see `PLAIN`."""
    return isinstance(name, str) and re.fullmatch(PLAIN, name) is not None


def check_path(path: str, store: str) -> None:
    """Raise DamagedRecord unless the path of a file or folder in a store consists of plain names."""
    if path and not all(map(is_plain, path.split("/"))):
        raise DamagedRecord(f"store {store!r}: {path[:200]!r} is not a name of a file in it, and is not read or written")


SCHEME = "s3://"
EXAMPLE = "s3://BUCKET/PREFIX, or s3://BUCKET/PREFIX?endpoint_url=https://HOST:PORT&region=REGION"
BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
REGION = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
OPTIONS = ("endpoint_url", "region")


@dataclass(frozen=True, slots=True)
class Place:
    """A bucket, a prefix in it, and the service that has the bucket.

    `prefix` has no slash at its ends; if it is empty, the place is the whole bucket. If another field is None, boto3's settings
    apply.
    """

    bucket: str
    prefix: str = ""
    endpoint_url: str | None = None
    region: str | None = None

    @property
    def bare(self) -> str:
        """The URI without endpoint and region, as the `aws` command expects it."""
        return f"{SCHEME}{self.bucket}/{self.prefix}".rstrip("/")

    @property
    def uri(self) -> str:
        """The normalized URI of this place; `parse_place` is its inverse."""
        options = {name: value for name in OPTIONS if (value := getattr(self, name)) is not None}
        return self.bare + ("?" + urlencode(options, safe=":/") if options else "")

    def key(self, name: str) -> str:
        """Return the S3 key of the store's file `name`."""
        return f"{self.prefix}/{name}" if self.prefix else name


def parse_place(uri: str) -> Place:
    """Parse a URI. If it is unusable, raises StoreError with one line that contains no secret."""
    path, _, query = uri.removeprefix(SCHEME).partition("?")
    bucket, _, prefix = path.partition("/")
    if "@" in bucket or ":" in bucket:
        raise StoreError(
            f"store s3://...: only a bucket's name may come before the first '/'; boto3 finds credentials. Give {EXAMPLE}"
        )
    if not BUCKET.fullmatch(bucket) or ".." in bucket:
        raise StoreError(f"store s3://...: {_quote(bucket)} is not a bucket name (3 to 63 of a-z, 0-9, '.', '-'); give {EXAMPLE}")
    parts = [part for part in prefix.split("/") if part]
    if any(part in {".", ".."} or not part.isprintable() for part in parts):
        raise StoreError(f"store s3://{bucket}/...: the prefix must be plain names with '/' between; give {EXAMPLE}")
    place = Place(bucket, "/".join(parts))
    pairs = parse_qsl(query, keep_blank_values=True)
    names = [name for name, _ in pairs]
    for name in names:
        if name not in OPTIONS or names.count(name) > 1:
            mend = f"give each of {' and '.join(OPTIONS)} once at most; credentials are found by boto3"
            raise StoreError(f"store {place.bare}: option {_quote(name)} is unknown, or given twice; {mend}")
    options = dict(pairs)
    if (region := options.get("region")) is not None and not REGION.fullmatch(region):
        raise StoreError(f"store {place.bare}: {_quote(region)} is not a region name; give one such as region=eu-central-1")
    endpoint = options.get("endpoint_url")
    return replace(place, region=region, endpoint_url=None if endpoint is None else _endpoint(endpoint, f"store {place.bare}"))


def with_endpoint(uri: str, endpoint_url: str | None) -> str:
    """Add the endpoint to `uri`, so that it opens the same place on any machine.

    An endpoint that the URI already has takes precedence. The path of a folder is returned unchanged. Raises StoreError for an
    unusable URI or endpoint.
    """
    if not uri.startswith(SCHEME):
        return uri
    place = parse_place(uri)
    if endpoint_url is None or place.endpoint_url is not None:
        return place.uri
    return replace(place, endpoint_url=_endpoint(endpoint_url, f"store {place.bare}")).uri


def _endpoint(endpoint_url: str, store: str) -> str:
    """Check the endpoint, and return it without a trailing slash. Raises StoreError."""
    mend = "give one such as http://127.0.0.1:9000"
    if "@" in endpoint_url:
        raise StoreError(f"{store}: endpoint_url must not hold credentials, boto3 finds them; {mend}")
    try:
        parts = urlsplit(endpoint_url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not endpoint_url.isascii() or not endpoint_url.isprintable() or set(endpoint_url) & set(" ?#&\\"):
        raise StoreError(f"{store}: endpoint_url {_quote(endpoint_url)} is not the URL of a service; {mend}")
    return endpoint_url.rstrip("/")


def _quote(text: str) -> str:
    """Return the text in quotes, on one line, truncated to 80 characters."""
    return repr(text if len(text) <= 80 else text[:77] + "...")
