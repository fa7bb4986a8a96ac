"""An AWS account on the command line: options, clients, and errors in one sentence."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Annotated, Any

import boto3
import botocore.session
import typer
from botocore import exceptions
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.utils import is_valid_endpoint_url, is_valid_ipv6_endpoint_url

from constructs_optim.evaluator.options import EvaluationError
from constructs_optim.explanation.assembly import ExplanationError
from constructs_optim.operations.artifacts import REQUESTS_AT_ONCE, ArtifactInventory
from constructs_optim.operations.dashboard_preview import PreviewError
from constructs_optim.recipe.documentation import page
from constructs_optim.runtime.errors import DENIED, DeploymentError, code_of, message_of
from constructs_optim.runtime.evaluation.price_list import API_REGION, prices_per_hour
from constructs_optim.runtime.store.artifact_store import region_of

from . import completion
from .endpoint_file import SynthesisError
from .node import NodeError
from .presentation import say

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
# One pooled connection per concurrent request of an inventory.
_CONFIG = Config(
    retries={"mode": "standard", "max_attempts": 4},
    connect_timeout=5,
    read_timeout=30,
    max_pool_connections=REQUESTS_AT_ONCE,
)


def bucket_name(value: str | None) -> str | None:
    """Return an option's value if it can be a bucket's name."""
    if value is not None and not _BUCKET.fullmatch(value):
        raise typer.BadParameter(f"{value!r} is not a bucket name. For s3://artifacts/..., use artifacts")
    return value


DEFAULT_REGION = "us-west-2"
"""The Region if no option, variable, or profile sets one and the command does not call AWS."""

AWS_PANEL = "AWS account"
REGION_WITHOUT_CALLS = f"Default: AWS_REGION, the profile's, or {DEFAULT_REGION}."
Region = Annotated[
    str | None,
    typer.Option(
        help="AWS Region. Default: AWS_REGION, or the profile's.",
        autocompletion=completion.regions,
        rich_help_panel=AWS_PANEL,
    ),
]
Profile = Annotated[
    str | None,
    typer.Option(
        help="Profile in ~/.aws/config. Default: AWS_PROFILE.",
        autocompletion=completion.profiles,
        rich_help_panel=AWS_PANEL,
    ),
]
_STORE = typer.Option(
    "--store",
    metavar="BUCKET",
    help="Bucket of the artifact store.",
    callback=bucket_name,
    rich_help_panel=AWS_PANEL,
)
Bucket = Annotated[str, _STORE]
OptionalBucket = Annotated[str | None, _STORE]


def session_of(profile: str | None, region: str | None) -> boto3.Session:
    """Return a session in a Region: the given one, that of the environment, or the profile's.

    boto3 itself does not read AWS_REGION, which precedes AWS_DEFAULT_REGION in all other tools
    (https://docs.aws.amazon.com/sdkref/latest/guide/feature-region.html), and takes an empty variable for a Region.

    Raises:
        BotoCoreError: if there is no such profile, or an endpoint's URL is none.
    """
    core = botocore.session.get_session()
    core.set_config_variable("profile", profile)
    _check_endpoint_urls(core)
    core.get_component("config_store").set_config_variable("region", _region_of(core, region))
    return boto3.Session(botocore_session=core)


def _region_of(core: botocore.session.Session, region: str | None) -> str | None:
    named = region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    return named or core.get_scoped_config().get("region")


def _check_endpoint_urls(core: botocore.session.Session) -> None:
    if core.get_config_variable("ignore_configured_endpoint_urls"):
        return
    named = {name: value for name, value in os.environ.items() if name.startswith("AWS_ENDPOINT_URL")}
    of_profile = core.get_scoped_config().get("endpoint_url")
    for name, url in {"endpoint_url of the profile": of_profile, **named}.items():
        if url and not (is_valid_endpoint_url(url) or is_valid_ipv6_endpoint_url(url)):
            raise exceptions.InvalidEndpointConfigurationError(
                msg=f"{name} is {url!r}, which is no URL: begin it with http:// or https://, as in http://localhost:4566"
            )


def region_without_calls(region: str | None) -> str:
    """Return the Region of a command that does not call AWS, and so needs no profile."""
    with suppress(exceptions.ProfileNotFound, exceptions.ConfigParseError):
        return _region_of(botocore.session.get_session(), region) or DEFAULT_REGION
    return DEFAULT_REGION


class Account:
    """The account of a command."""

    def __init__(self, profile: str | None, region: str | None) -> None:
        self._session = session_of(profile, region)
        self._regions: dict[str, str] = {}

    def client(self, service: str, region: str | None = None) -> Any:
        """Return a client for a service, by default in the command's Region."""
        return self._session.client(service, region_name=region, config=_CONFIG)

    @property
    def region(self) -> str | None:
        """The command's Region, from its option, the environment, or the profile."""
        return self._session.region_name

    @cached_property
    def id(self) -> str:
        """The account's 12-digit number."""
        return self.client("sts", self.region or "us-east-1").get_caller_identity()["Account"]

    def region_of(self, bucket: str) -> str:
        """Return the Region of a bucket, and therefore of its jobs (runtime/handlers/job_handler.py)."""
        if bucket not in self._regions:
            self._regions[bucket] = region_of(self.client("s3", self.region or "us-east-1"), bucket)
        return self._regions[bucket]

    def sagemaker(self, bucket: str | None = None) -> Any:
        """Return a SageMaker client, in the Region of the store's jobs if there is a bucket."""
        return self.client("sagemaker", self.region_of(bucket) if bucket else None)

    def prices(self, region: str, component: str = "Hosting") -> Mapping[str, float] | None:
        """Return on-demand prices by instance type, in US dollars an hour; None if AWS denies the request."""
        try:
            return prices_per_hour(self.client("pricing", API_REGION), region, component)
        except ClientError as error:
            if code_of(error) not in DENIED:
                raise
            return None

    def inventory(self, bucket: str) -> ArtifactInventory:
        """Return the store in ``bucket``, with the jobs of the bucket's Region."""
        region = self.region_of(bucket)
        return ArtifactInventory(self.client("s3", region), self.sagemaker(bucket), bucket, account=self.id)


EXPLAINED = (
    BotoCoreError,
    ClientError,
    DeploymentError,
    EvaluationError,
    ExplanationError,
    NodeError,
    PreviewError,
    SynthesisError,
)
"""The errors for which ``sentence`` has an explanation."""


@contextmanager
def errors_explained() -> Iterator[None]:
    """End the command with one sentence and status 2 if AWS refuses a request or data is invalid."""
    try:
        yield
    except EXPLAINED as error:
        raise failed(sentence(error)) from None


def failed(reason: str) -> typer.Exit:
    """Print why the command cannot continue; raising the result ends the command with status 2."""
    say(reason, style="red", err=True)
    return typer.Exit(2)


def sentence(error: Exception) -> str:
    """Return a sentence about one of the ``EXPLAINED`` errors, with a fix."""
    match error:
        case exceptions.NoCredentialsError() | exceptions.PartialCredentialsError():
            return "No AWS credentials found. Sign in with `aws sso login`, or name a profile with --profile."
        case exceptions.SSOError() | exceptions.TokenRetrievalError():
            return f"The sign-in is missing or has expired ({error}). Run `aws sso login`."
        case exceptions.NoRegionError():
            return "No AWS Region is set. Use --region, or set AWS_REGION."
        case exceptions.ProfileNotFound():
            return f"{error}. `aws configure list-profiles` lists the profiles."
        case exceptions.ConnectionError() | exceptions.HTTPClientError():
            return f"Cannot reach AWS: {error}. Check the Region's name, the network, and AWS_ENDPOINT_URL."
        case ClientError():
            code, message = code_of(error), message_of(error)
        case _:
            return str(error)
    match code:
        case "ExpiredToken" | "ExpiredTokenException" | "RequestExpired":
            return "The AWS credentials have expired. Sign in again with `aws sso login`."
        case (
            "AuthFailure"
            | "InvalidAccessKeyId"
            | "InvalidClientTokenId"
            | "SignatureDoesNotMatch"
            | "UnrecognizedClientException"
        ):
            return f"AWS does not know these credentials ({code}). Check the profile, or sign in again."
        case "NoSuchBucket":
            return (
                "No such bucket. The stack's output ArtifactStoreBucket, or its resources in CloudFormation, name the "
                "store's bucket."
            )
        case _ if code in DENIED:
            return (
                f"AWS denies {error.operation_name} ({message}). Use other credentials with --profile, or have the "
                f"permission added: {page('operations')} lists the permissions that this command needs."
            )
        case _:
            return f"{error.operation_name} failed with {code}: {message}"
