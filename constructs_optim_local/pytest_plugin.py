"""Fixtures for pytest: a local cloud for a whole run, and a new account for each test.

pytest finds them if this package is installed. The cloud starts with the first test that uses it. Settings in
``pytest.ini`` or ``pyproject.toml``: ``local_cloud_serve`` (``true``, or the command line of a model server) and
``local_cloud_enforce_iam``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import boto3

    from constructs_optim_local.cloud import LocalCloud

_SERVE, _ENFORCE_IAM = "local_cloud_serve", "local_cloud_enforce_iam"
_WORDS = {"": False, "false": False, "true": True}
_accounts = itertools.count(100_000_000_001)


@dataclass(frozen=True)
class LocalAccount:
    """A new account of a local cloud.

    Attributes:
        id: the account ID, 12 digits.
        session: a boto3 session whose clients call the local cloud as the account's administrator.
        environment: variables that make any AWS SDK or tool do the same. They are set in this process.
    """

    id: str
    session: boto3.Session
    environment: Mapping[str, str]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the settings."""
    parser.addini(
        _SERVE, "whether endpoints of local_cloud have model servers, or the command of a model server", default=""
    )
    parser.addini(_ENFORCE_IAM, "whether local_cloud enforces the roles' policies", type="bool", default=False)


@pytest.fixture(scope="session")
def local_cloud_settings(pytestconfig: pytest.Config) -> dict[str, Any]:
    """Return the arguments of ``LocalCloud``. Override it in a ``conftest.py`` to pass further arguments."""
    stated = str(pytestconfig.getini(_SERVE))
    return {"serve": _WORDS.get(stated.lower(), stated), "enforce_iam": pytestconfig.getini(_ENFORCE_IAM)}


@pytest.fixture(scope="session")
def local_cloud(local_cloud_settings: dict[str, Any]) -> Iterator[LocalCloud]:
    """Yield a local cloud for the whole run."""
    from constructs_optim_local.cloud import LocalCloud

    with LocalCloud(**local_cloud_settings) as cloud:
        yield cloud


@pytest.fixture
def local_account(local_cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalAccount]:
    """Yield a new account of the local cloud, and delete the account's resources after the test."""
    import boto3

    from constructs_optim_local.cloud import IN_THE_WAY

    account = str(next(_accounts))
    environment = local_cloud.environment(account)
    for name in IN_THE_WAY:
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    # boto3.client() uses a default session, which keeps the first credentials that it found.
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    yield LocalAccount(account, boto3.Session(), environment)
    # All accounts share the names of buckets.
    for bucket in boto3.Session().resource("s3").buckets.all():
        bucket.object_versions.delete()
        bucket.delete()
    local_cloud.forget(account)
    local_cloud.clear_faults()
    local_cloud.clear_performances()
    local_cloud.clear_quotas()


@pytest.fixture
def local_session(local_account: LocalAccount) -> boto3.Session:
    """Return the boto3 session of ``local_account``."""
    return local_account.session
