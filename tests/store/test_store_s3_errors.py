"""`check` finds every problem of a bucket, and reports it in one line with the place, the fault and the remedy."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator

import pytest
from botocore import exceptions as boto
from fault_proxy import Fault, FaultProxy
from s3_servers import SECRET, Bucket, S3Server, client, s3_bucket, s3_server, serving, soaked

from summhay_ray.store import StoreError, open_files
from summhay_ray.store.names import Place, StoreUnavailable, parse_place
from summhay_ray.store.s3 import S3Files
from summhay_ray.store.s3_errors import problem_of

__all__ = ["s3_bucket", "s3_server"]
pytestmark = pytest.mark.s3


@pytest.fixture(scope="module")
def guarded() -> Iterator[tuple[str, str, str]]:
    """A moto server that checks keys and rights like AWS: the URI of a bucket, and a user's key and secret without any right."""
    # The first requests of the set-up are not checked.
    with serving("moto", INITIAL_NO_AUTH_ACTION_COUNT="3") as server:
        bucket, iam = server.bucket(), client(server.url, "iam")
        iam.create_user(UserName="nobody")
        key = iam.create_access_key(UserName="nobody")["AccessKey"]
        yield server.uri(bucket), key["AccessKeyId"], key["SecretAccessKey"]


def told_by(uri: str) -> str:
    """The line that `check` prints."""
    began = time.monotonic()
    with pytest.raises(StoreError) as problem:
        open_files(uri).check()
    assert time.monotonic() - began < 60.0
    said = str(problem.value)
    assert problem.value.exit_code == 2 and "\n" not in said and len(said) < 400
    assert SECRET not in said and problem.value.__cause__ is None
    assert said.startswith(f"store {uri.partition('?')[0]}: ")
    return said


def test_a_bucket_that_does_not_exist(s3_server: S3Server) -> None:
    said = told_by(s3_server.uri("no-such-bucket"))
    assert f"{s3_server.url} has no bucket 'no-such-bucket'; create it, or correct the store's URI" in said


def test_a_key_that_the_service_does_not_know(guarded: tuple[str, str, str], s3_server: S3Server) -> None:
    assert "does not accept the credentials that boto3 found (InvalidAccessKeyId)" in told_by(guarded[0])


def test_a_user_without_rights(guarded: tuple[str, str, str], s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    uri, key, secret = guarded
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
    said = told_by(uri)
    assert (
        "denies access to bucket 'bucket-" in said and "allow s3:GetObject and s3:PutObject on its objects, s3:ListBucket" in said
    )
    assert key not in said and secret not in said


def test_a_secret_that_does_not_fit(guarded: tuple[str, str, str], s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", guarded[1])
    assert "does not accept the credentials that boto3 found (SignatureDoesNotMatch)" in told_by(guarded[0])


def test_no_credentials(s3_bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert "no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or AWS_PROFILE" in told_by(s3_bucket.uri())


def test_half_of_the_credentials(s3_bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert "AWS_SECRET_ACCESS_KEY); log in again, or check" in told_by(s3_bucket.uri())


def test_a_profile_that_is_not_there(s3_bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    assert "(ProfileNotFound: nobody)" in told_by(s3_bucket.uri())


def test_nobody_at_the_endpoint(s3_server: S3Server) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        said = told_by(f"s3://bucket/x?endpoint_url={url}")
    assert f"{url} cannot be reached" in said and "check endpoint_url and whether the service is up" in said


def test_an_endpoint_that_takes_and_never_answers(s3_server: S3Server) -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        url = f"http://127.0.0.1:{mute.getsockname()[1]}"
        files = S3Files(parse_place(f"s3://bucket/x?endpoint_url={url}"), answer_s=2.0)
        with pytest.raises(StoreError, match=f"{url} does not answer"):
            files.check()


def test_tls_where_there_is_none(s3_bucket: Bucket) -> None:
    url = s3_bucket.server.url.replace("http:", "https:")
    assert f"no TLS with {url}; check https:// against http://" in told_by(s3_bucket.uri(url=url))


@pytest.mark.parametrize("status", [302, *soaked(301, 307, 400, 404, 405)])
def test_a_web_server_that_is_not_s3(s3_bucket: Bucket, status: int) -> None:
    with FaultProxy(s3_bucket.server.url) as proxy:
        proxy.add(Fault("html", status=status))
        said = told_by(s3_bucket.uri(url=proxy.url))
        assert f"{proxy.url} answers, but not as S3 does (HTTP {status}); check endpoint_url" in said
        assert proxy.count() == 1


def test_a_service_that_ignores_conditions_is_refused(s3_bucket: Bucket) -> None:
    with FaultProxy(s3_bucket.server.url) as proxy:
        proxy.add(Fault("strip"))
        for _ in range(2):
            said = told_by(s3_bucket.uri(url=proxy.url))
            assert f"{proxy.url} ignores conditional writes (If-None-Match)" in said and "use a service that honours them" in said
    assert s3_bucket.keys() == ["store/.summhay-check"]


REFUSALS = [
    (
        403,
        "AccessDenied",
        "",
        "denies access to bucket 'BUCKET' with the credentials that boto3 found; allow s3:GetObject and s3:PutObject",
    ),
    (403, "AccessDenied", "PUT", "denies access to bucket 'BUCKET'"),
    (403, "SignatureDoesNotMatch", "", "does not accept the credentials that boto3 found (SignatureDoesNotMatch)"),
    (400, "ExpiredToken", "", "URL does not accept the credentials that boto3 found (ExpiredToken); log in again"),
    (403, "RequestTimeTooSkewed", "", "the clock of this machine differs too much from that of URL; set it"),
    (
        301,
        "PermanentRedirect",
        "",
        "bucket 'BUCKET' is in another region than boto3 asked; add region=REGION to the store's URI",
    ),
    (400, "AuthorizationHeaderMalformed", "", "is in another region than boto3 asked"),
    (400, "InvalidBucketName", "", "URL refuses GetObject (InvalidBucketName, HTTP 400)"),
    (
        501,
        "NotImplemented",
        "PUT",
        "has no conditional writes (If-None-Match: NotImplemented, HTTP 501); use a service that has them",
    ),
    (400, "KMS.DisabledException", "PUT", "refuses PutObject (KMS.DisabledException, HTTP 400); look the code up"),
    (405, "MethodNotAllowed", "PUT", "refuses PutObject (MethodNotAllowed, HTTP 405)"),
]


@pytest.mark.parametrize(
    ("status", "code", "method", "said"),
    [*REFUSALS[:4], *soaked(*REFUSALS[4:])],
    ids=[f"{one[1]}-{one[2] or 'any'}" for one in REFUSALS],
)
def test_refusals(s3_bucket: Bucket, status: int, code: str, method: str, said: str) -> None:
    with FaultProxy(s3_bucket.server.url) as proxy:
        proxy.add(Fault("refuse", status=status, code=code, method=method))
        told = told_by(s3_bucket.uri(url=proxy.url))
        assert said.replace("BUCKET", s3_bucket.name).replace("URL", proxy.url) in told
        # A refusal is final: it is not tried again.
        assert proxy.count() <= 4


def test_a_refusal_in_the_midst_of_a_run_ends_it_at_once(s3_bucket: Bucket) -> None:
    with FaultProxy(s3_bucket.server.url) as proxy:
        files = open_files(s3_bucket.uri(url=proxy.url))
        proxy.add(Fault("refuse", status=400, code="ExpiredToken"))
        for act in (lambda: files.create("a", b""), lambda: files.read("a"), lambda: list(files.names("a"))):
            with pytest.raises(StoreError, match="does not accept the credentials"):
                act()


def test_a_check_outlives_a_busy_service(s3_bucket: Bucket) -> None:
    with FaultProxy(s3_bucket.server.url) as proxy:
        proxy.add(Fault("503", times=3))
        open_files(s3_bucket.uri(url=proxy.url)).check()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (boto.CredentialRetrievalError(provider="x", error_msg=SECRET), "could not get credentials (CredentialRetrievalError: "),
        (boto.UnauthorizedSSOTokenError(), "could not get credentials (UnauthorizedSSOTokenError: "),
        (boto.ProxyConnectionError(proxy_url=f"http://u:{SECRET}@h"), "the proxy h:80 of HTTPS_PROXY cannot be reached"),
        (boto.NoRegionError(), "boto3 found no usable region; add region=REGION"),
        (
            boto.ConfigParseError(path="~/.aws/config"),
            "boto3 cannot be used for AWS (eu-west-1) (ConfigParseError); check its settings",
        ),
        (boto.SSLError(endpoint_url="x", error="CERTIFICATE_VERIFY_FAILED"), "or give its certificate in AWS_CA_BUNDLE"),
    ],
)
def test_what_boto3_says_of_this_machine(error: Exception, said: str) -> None:
    problem = problem_of(error, Place("bucket", "x", region="eu-west-1"))
    assert re.search(re.escape(said), str(problem)) and SECRET not in str(problem) and problem.exit_code == 2


def test_a_region_that_the_service_tells_is_passed_on() -> None:
    answer = {
        "Error": {"Code": "AuthorizationHeaderMalformed", "Region": "eu-west-1"},
        "ResponseMetadata": {"HTTPStatusCode": 400},
    }
    problem = problem_of(boto.ClientError(answer, "PutObject"), Place("bucket"))
    assert str(problem).endswith("bucket 'bucket' is in another region than boto3 asked; add region=eu-west-1 to the store's URI")


def test_a_service_that_is_away_is_no_mistake_of_the_person() -> None:
    problem = problem_of(boto.ReadTimeoutError(endpoint_url="x"), Place("bucket"), 60.0)
    assert isinstance(problem, StoreUnavailable) and problem.exit_code == 1
    assert "AWS does not answer" in str(problem) and "tried for 60 s; check the network" in str(problem)


def test_a_service_over_http_is_reached_past_every_proxy(s3_bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.2:1")
    open_files(s3_bucket.uri()).check()
    assert "the proxy 127.0.0.2:1 of HTTPS_PROXY cannot be reached" in told_by("s3://bucket/p?endpoint_url=https://s3.invalid")
    monkeypatch.setenv("https_proxy", f"socks5://me:{SECRET}@127.0.0.2:1")
    told = told_by("s3://bucket/p?endpoint_url=https://s3.invalid")
    assert "https_proxy names a socks5 proxy (127.0.0.2:1), which is not supported" in told and SECRET not in told
