"""Converts errors of boto3 to one line: what is wrong, where, and how to fix it.

botocore's own messages are never shown, since they contain request dumps and, for some services, keys.
"""

from typing import Any
from urllib.parse import urlsplit

from botocore import exceptions as boto
from botocore.parsers import ResponseParserError
from urllib3.exceptions import HTTPError as RawHttpError

from summhay_ray.errors import StoreError
from summhay_ray.routes import NoRoute, origin_of
from summhay_ray.store.names import NoCredentials, Place, StoreUnavailable

# Exceptions of a request to a bucket. Any other exception is a bug in this package, and is not caught.
ERRORS = (boto.BotoCoreError, boto.ClientError, ResponseParserError, RawHttpError)
AGAIN_CODES = frozenset(
    {
        *("SlowDown", "InternalError", "ServiceUnavailable", "RequestTimeout", "RequestTimeoutException", "RequestLimitExceeded"),
        *("Throttling", "ThrottlingException", "ThrottledException", "TooManyRequests", "BandwidthLimitExceeded"),
        *("ConditionalRequestConflict", "OperationAborted", "BadDigest", "IncompleteBody", "XAmzContentSHA256Mismatch"),
    }
)
AGAIN_STATUS = frozenset({408, 429})
CREDENTIALS = (
    *(boto.PartialCredentialsError, boto.ProfileNotFound),
    *(boto.CredentialRetrievalError, boto.TokenRetrievalError, boto.SSOError),
)
RIGHTS = "s3:GetObject and s3:PutObject on its objects, s3:ListBucket on the bucket (without it a missing object looks denied)"
CHECK_KEY = "log in again, or check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
GIVE_KEY = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or AWS_PROFILE, or give this machine a role"
REGION_CODES = (
    *("PermanentRedirect", "TemporaryRedirect", "AuthorizationHeaderMalformed"),
    *("IllegalLocationConstraintException", "InvalidRegion", "InvalidRegionName"),
)
KEY_CODES = (
    *("InvalidAccessKeyId", "InvalidClientTokenId", "UnrecognizedClientException", "SignatureDoesNotMatch"),
    *("ExpiredToken", "ExpiredTokenException", "InvalidToken", "TokenRefreshRequired", "RequestExpired"),
)
DENIED_CODES = ("AccessDenied", "AllAccessDisabled", "AccountProblem", "InvalidObjectState", "UnauthorizedAccess", "401", "403")


def code_of(error: BaseException) -> str:
    """Return S3's error code; the HTTP status if the response had no body; "" if there was no response."""
    return str(error.response.get("Error", {}).get("Code", "")) if isinstance(error, boto.ClientError) else ""


def status_of(error: BaseException) -> int:
    """Return the HTTP status; 0 if there was no response."""
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)) if isinstance(error, boto.ClientError) else 0


def worth_again(error: BaseException) -> bool:
    """Return whether a retry of the same request may succeed."""
    if isinstance(error, boto.SSLError):
        return "CERTIFICATE" not in str(error).upper() and "WRONG_VERSION" not in str(error).upper()
    if isinstance(error, boto.ConnectionError | boto.HTTPClientError | boto.IncompleteReadError | RawHttpError):
        return not isinstance(error, boto.ProxyConnectionError)
    code, status = code_of(error), status_of(error)
    if code in AGAIN_CODES or status in AGAIN_STATUS:
        return True
    # Status 501 means that the service lacks the feature.
    return status >= 500 and status != 501 and code != "NotImplemented"


def problem_of(error: Exception, place: Place, tried_s: float = 0.0, met: bool = True) -> StoreError:
    """Return the error to raise. `tried_s`: for how many seconds the request was retried. `met`: whether the service has ever
    answered; if it has not, its name is probably wrong."""
    at = place.endpoint_url or ("AWS" if place.region is None else f"AWS ({place.region})")
    if worth_again(error):
        if isinstance(error, boto.EndpointConnectionError):
            why = f"{at} cannot be reached (its name is unknown, or nobody listens there)"
        elif isinstance(error, boto.ClientError):
            why = f"{at} answers {code_of(error) or 'an error'} (HTTP {status_of(error)})"
        else:
            why = f"{at} does not answer, or breaks the connection off"
        cause = "endpoint_url" if place.endpoint_url is not None else "the network"
        mend = f"check {cause} and whether the service is up, then run again: nothing that is paid for is lost"
        return (StoreUnavailable if met else StoreError)(f"store {place.bare}: {why}, tried for {tried_s:.0f} s; {mend}")
    if isinstance(error, boto.NoCredentialsError | boto.NoAuthTokenError):
        return NoCredentials(f"store {place.bare}: no credentials; {GIVE_KEY}")
    why = _refusal(error, place, at) if isinstance(error, boto.ClientError) else _own_side(error, at)
    return StoreError(f"store {place.bare}: {why}")


def not_s3(at: str, how: str) -> str:
    """Return the message for an endpoint that is a web server but not S3."""
    return f"{at} answers, but not as S3 does ({how}); check endpoint_url"


def _refusal(error: boto.ClientError, place: Place, at: str) -> str:
    """Return the message for a request that the service refused."""
    code, status = code_of(error), status_of(error)
    if code == "NoSuchBucket":
        return f"{at} has no bucket {place.bucket!r}; create it, or correct the store's URI (bucket, endpoint_url, region)"
    if code in KEY_CODES:
        return (
            f"{at} does not accept the credentials that boto3 found ({code}); {CHECK_KEY}, and whether they are of this service"
        )
    if code == "RequestTimeTooSkewed":
        return f"the clock of this machine differs too much from that of {at}; set it, then run again"
    if code in REGION_CODES:
        headers: dict[str, Any] = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
        found = str(error.response.get("Error", {}).get("Region") or headers.get("x-amz-bucket-region") or "")
        region = (found if found.replace("-", "").isalnum() else "") or "REGION"
        return f"bucket {place.bucket!r} is in another region than boto3 asked; add region={region} to the store's URI"
    if code == "NotImplemented" or status == 501:
        return f"{at} has no conditional writes (If-None-Match: {code}, HTTP {status}); use a service that has them"
    if code in DENIED_CODES or status in {401, 403}:
        return f"{at} denies access to bucket {place.bucket!r} with the credentials that boto3 found; allow {RIGHTS}"
    if not code or code.isdigit():
        return not_s3(at, f"HTTP {status}")
    return f"{at} refuses {error.operation_name} ({code}, HTTP {status}); look the code up in the service's documentation"


def _own_side(error: Exception, at: str) -> str:
    """Return the message for an error on this machine or in the network."""
    if isinstance(error, CREDENTIALS):
        named = error.kwargs.get("cred_var") or error.kwargs.get("profile") or "see ~/.aws"
        return f"boto3 could not get credentials ({type(error).__name__}: {named}); {CHECK_KEY}"
    if isinstance(error, boto.SSLError):
        return f"no TLS with {at}; check https:// against http:// in endpoint_url, or give its certificate in AWS_CA_BUNDLE"
    if isinstance(error, boto.ProxyConnectionError):
        proxy = origin_of(urlsplit(error.kwargs["proxy_url"])).partition("://")[2]
        return f"the proxy {proxy} of HTTPS_PROXY cannot be reached or refuses; mend HTTPS_PROXY, or add {at} to NO_PROXY"
    if isinstance(error, NoRoute):
        return str(error)
    if isinstance(error, boto.NoRegionError | boto.InvalidRegionError):
        return "boto3 found no usable region; add region=REGION to the store's URI, or set AWS_DEFAULT_REGION"
    if isinstance(error, ResponseParserError):
        return not_s3(at, "no XML")
    return f"boto3 cannot be used for {at} ({type(error).__name__}); check its settings (~/.aws/config, AWS_* variables)"
