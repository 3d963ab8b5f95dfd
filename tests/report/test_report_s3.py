"""A report in a bucket has the content type of a page."""

from __future__ import annotations

from pathlib import Path

import pytest
from inline_runs import answered
from s3_servers import Bucket, s3_bucket, s3_server

from summhay_ray.report.make import report

__all__ = ["s3_bucket", "s3_server"]
pytestmark = pytest.mark.s3


def test_a_report_is_written_into_a_bucket(s3_bucket: Bucket, tmp_path: Path) -> None:
    report([answered(tmp_path / "store")[1]]).write(s3_bucket.uri("first"), figures=["svg"])
    client, keys = s3_bucket.server.client(), s3_bucket.keys()
    kinds = {key: client.head_object(Bucket=s3_bucket.name, Key=key)["ContentType"] for key in keys}
    assert kinds["first/index.html"] == "text/html" and kinds["first/figures/results.svg"] == "image/svg+xml"
    assert {"text/javascript", "application/javascript"} >= {kinds["first/data/manifest.js"], kinds["first/data/samples-0.js"]}
