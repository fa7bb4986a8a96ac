"""The upload of the files that a template names."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from constructs_optim.operations.code_upload import upload
from constructs_optim.runtime.errors import DeploymentError
from constructs_optim_local.cloud import LocalCloud

REGION, ACCOUNT, OTHER = "us-west-2", "000000000000", "444455556666"
CODE = {f"code/{hashlib.sha256(text).hexdigest()}.zip": text for text in (b"handlers", b"training")}


def s3_of(cloud: LocalCloud, region: str) -> Any:
    credentials = cloud.environment()
    return boto3.client(
        "s3",
        endpoint_url=cloud.endpoint_url,
        region_name=region,
        aws_access_key_id=credentials["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=credentials["AWS_SECRET_ACCESS_KEY"],
    )


@pytest.fixture(scope="module")
def bucket(cloud: LocalCloud) -> str:
    for region in (REGION, "eu-west-1"):
        location: Any = {"LocationConstraint": region}
        s3_of(cloud, region).create_bucket(Bucket=f"code-{region}", CreateBucketConfiguration=location)
    return f"code-{REGION}"


def uploaded(cloud: LocalCloud, bucket: str, files: dict[str, bytes] = CODE) -> list[str]:
    return upload(lambda region: s3_of(cloud, region), bucket, files, region=REGION, owner=ACCOUNT)


def keys_in(cloud: LocalCloud, bucket: str) -> list[str]:
    return [item["Key"] for item in cloud.client("s3").list_objects_v2(Bucket=bucket).get("Contents", [])]


def test_files_are_uploaded_once_with_their_checksums(cloud: LocalCloud, bucket: str) -> None:
    assert uploaded(cloud, bucket) == [*CODE]
    assert uploaded(cloud, "code-${AWS::Region}") == []
    s3 = cloud.client("s3")
    for key, text in CODE.items():
        found = s3.head_object(Bucket=bucket, Key=key, ChecksumMode="ENABLED")
        assert base64.b64decode(found["ChecksumSHA256"]) == hashlib.sha256(text).digest()


def test_nothing_is_uploaded_to_a_bucket_of_another_region(cloud: LocalCloud, bucket: str) -> None:
    with pytest.raises(
        DeploymentError, match=r"code-eu-west-1 is in eu-west-1, but the template is deployed to us-west-2"
    ):
        uploaded(cloud, "code-eu-west-1")
    assert keys_in(cloud, "code-eu-west-1") == []


def test_a_bucket_that_is_missing_is_named(cloud: LocalCloud) -> None:
    with pytest.raises(DeploymentError, match=r"no-such-bucket does not exist: create it in us-west-2"):
        uploaded(cloud, "no-such-bucket")


def test_nothing_is_uploaded_to_a_bucket_of_another_account(cloud: LocalCloud, bucket: str) -> None:
    files = {"strange.zip": b"mine"}
    with pytest.raises(DeploymentError, match=rf"account {OTHER} has no access to the code bucket {bucket}: .* Use"):
        upload(lambda region: s3_of(cloud, region), bucket, files, region=REGION, owner=OTHER)
    assert "strange.zip" not in keys_in(cloud, bucket)


def test_a_key_with_other_content_is_refused(cloud: LocalCloud, bucket: str) -> None:
    cloud.client("s3").put_object(Bucket=bucket, Key="planted.zip", Body=b"planted")
    with pytest.raises(DeploymentError, match=r"planted\.zip does not match its name"):
        uploaded(cloud, bucket, {"planted.zip": b"mine"})


class Raced:
    """A client before whose write another one writes."""

    def __init__(self, s3: Any, body: bytes) -> None:
        self._s3, self._body = s3, body

    def __getattr__(self, name: str) -> Any:
        return getattr(self._s3, name)

    def put_object(self, **request: Any) -> Any:
        self._s3.put_object(Bucket=request["Bucket"], Key=request["Key"], Body=self._body)
        return self._s3.put_object(**request)


def test_two_uploads_at_once_agree(cloud: LocalCloud, bucket: str) -> None:
    raced: Any = Raced(cloud.client("s3"), b"same")
    assert upload(lambda region: raced, bucket, {"raced.zip": b"same"}, region=REGION, owner=ACCOUNT) == []


def test_a_write_that_is_overtaken_is_not_taken_for_its_own(cloud: LocalCloud, bucket: str) -> None:
    raced: Any = Raced(cloud.client("s3"), b"other")
    with pytest.raises(DeploymentError, match="does not match its name"):
        upload(lambda region: raced, bucket, {"overtaken.zip": b"mine"}, region=REGION, owner=ACCOUNT)


def test_a_request_that_aws_denies_stays_what_it_is(cloud: LocalCloud, bucket: str) -> None:
    class Denied(Raced):
        def put_object(self, **request: Any) -> Any:
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "PutObject")

    denied: Any = Denied(cloud.client("s3"), b"")
    with pytest.raises(ClientError, match="AccessDenied"):
        upload(lambda region: denied, bucket, {"denied.zip": b"mine"}, region=REGION, owner=ACCOUNT)
