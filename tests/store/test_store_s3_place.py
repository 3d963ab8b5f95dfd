"""The parts of an `s3://` URI, and the one spelling that reopens the same place anywhere."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from summhay_ray.store import StoreError, open_files, with_endpoint
from summhay_ray.store.names import BUCKET, Place, parse_place

pytestmark = pytest.mark.core

EDGE, INNER = "abcdefghijklmnopqrstuvwxyz0123456789", "abcdefghijklmnopqrstuvwxyz0123456789-"
buckets = st.builds(
    lambda first, inner, last: first + inner + last, st.sampled_from(EDGE), st.text(INNER, min_size=1), st.sampled_from(EDGE)
)
buckets = buckets.filter(BUCKET.fullmatch)
parts = st.text(st.characters(exclude_characters="/?", exclude_categories=("C", "Z")), min_size=1, max_size=12)
prefixes = st.lists(parts.filter(lambda part: part not in {".", ".."}), max_size=4).map("/".join)
hosts = st.sampled_from(["127.0.0.1", "minio.example.org", "[::1]", "s3.eu-central-1.amazonaws.com"])
endpoints = st.none() | st.builds(
    lambda scheme, host, port, path: f"{scheme}://{host}{port}{path}",
    st.sampled_from(["http", "https"]),
    hosts,
    st.integers(1, 65535).map(lambda port: f":{port}") | st.just(""),
    st.sampled_from(["", "/storage/v1/s3"]),
)
regions = st.none() | st.sampled_from(["us-east-1", "auto", "eu-central-1"])
places = st.builds(Place, buckets, prefixes, endpoints, regions)


@given(places)
@example(Place("abc"))
@example(Place("a.b", "100%25/a+b/é#x&y=z", "http://127.0.0.1:9000", "auto"))
def test_a_place_is_the_same_behind_its_own_uri(place: Place) -> None:
    assert parse_place(place.uri) == place
    assert place.uri.isprintable() and place.bare == place.uri.partition("?")[0]


@given(places, endpoints.filter(lambda endpoint: endpoint is not None))
def test_the_endpoint_of_a_spec_is_taken_where_the_uri_has_none(place: Place, endpoint: str) -> None:
    told = parse_place(with_endpoint(place.uri, endpoint))
    assert told.endpoint_url == (place.endpoint_url or endpoint)
    assert (told.bucket, told.prefix, told.region) == (place.bucket, place.prefix, place.region)
    assert with_endpoint(place.uri, None) == place.uri


@given(st.text(max_size=60))
@example("b" * 64)
@example("bucket/\ud800")
@example("bucket?endpoint_url=http://[")
@example("bucket?endpoint_url=http://h:99999")
def test_any_text_is_a_place_or_one_clear_line(text: str) -> None:
    try:
        place = parse_place("s3://" + text)
    except StoreError as refused:
        told = str(refused)
        assert told.startswith("store s3://") and "\n" not in told and told.isprintable() and refused.exit_code == 2
    else:
        assert parse_place(place.uri) == place


@given(
    st.sampled_from(
        ["s3://{}@bucket/x", "s3://{}@bucket", "s3://bucket/x?endpoint_url=http://{}@host:9000", "s3://bucket?key={}"]
    )
)
@example("s3://bucket?endpoint_url=http://{}@host:nonsense")
@example("s3://bucket?endpoint_url=http://{}#x@host")
@example("s3://bucket?aws_secret_access_key={}")
def test_credentials_in_a_uri_are_refused_and_not_repeated(form: str) -> None:
    for secret in ("AKIAABCDEF:wJalr+EXAMPLEKEY", "AKIAABCDEF:wJalr/EXAMPLEKEY"):
        with pytest.raises(StoreError) as refused:
            parse_place(form.format(secret))
        assert "EXAMPLEKEY" not in str(refused.value) and "AKIA" not in str(refused.value)


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("s3://", "'' is not a bucket name"),
        ("s3:///prefix", "'' is not a bucket name"),
        ("s3://Bucket/x", "'Bucket' is not a bucket name (3 to 63 of a-z, 0-9, '.', '-')"),
        ("s3://ab", "'ab' is not a bucket name"),
        ("s3://a..b", "'a..b' is not a bucket name"),
        ("s3://bucket/a/../b", "the prefix must be plain names"),
        ("s3://bucket?endpoint=http://h", "option 'endpoint' is unknown, or given twice; give each of endpoint_url and region"),
        ("s3://bucket?x=1", "option 'x' is unknown"),
        ("s3://bucket?region=a&region=b", "given twice"),
        ("s3://bucket?region=EU West", "'EU West' is not a region name"),
        (
            "s3://bucket?endpoint_url=127.0.0.1:9000",
            "endpoint_url '127.0.0.1:9000' is not the URL of a service; give one such as",
        ),
        ("s3://bucket?endpoint_url=", "endpoint_url '' is not the URL of a service"),
    ],
)
def test_what_is_wrong_is_said(uri: str, said: str) -> None:
    with pytest.raises(StoreError, match=re.escape(said)):
        open_files(uri)


def test_slashes_do_not_make_another_place() -> None:
    assert parse_place("s3://bucket//a///b/?endpoint_url=http://h:1/").uri == "s3://bucket/a/b?endpoint_url=http://h:1"
    assert parse_place("s3://bucket/").uri == "s3://bucket"


def test_a_folder_has_no_endpoint() -> None:
    assert with_endpoint("./store", "http://127.0.0.1:9000") == "./store"


def test_keys_lie_below_the_prefix() -> None:
    assert Place("bucket", "a/b").key("runs/x") == "a/b/runs/x"
    assert Place("bucket").key("runs/x") == "runs/x"


def test_boto3_is_not_loaded_before_a_bucket_is_named() -> None:
    code = (
        "import sys; from summhay_ray.store import open_files, with_endpoint; open_files('./x'); "
        "with_endpoint('s3://bucket/x', 'http://127.0.0.1:1'); assert not {'boto3', 'botocore'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
