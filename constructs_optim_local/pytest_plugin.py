"""Fixtures for pytest: a local cloud that is shared by a run, and emptied after each test that uses it.

pytest finds them by itself where this package is installed. Options of ``pytest.ini`` or ``pyproject.toml``:
``local_cloud_serve`` (``true``, or the command line of a model server) and ``local_cloud_enforce_iam``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import boto3

    from constructs_optim_local.cloud import LocalCloud

_SERVE, _ENFORCE_IAM = "local_cloud_serve", "local_cloud_enforce_iam"
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("", "false", "no", "off", "0")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    parser.addini(_SERVE, "whether endpoints of local_cloud have model servers, or such a server's command", default="")
    parser.addini(_ENFORCE_IAM, "whether local_cloud holds roles to their policies", type="bool", default=False)


@pytest.fixture(scope="session")
def local_cloud_settings(pytestconfig: pytest.Config) -> dict[str, Any]:
    """The arguments of :class:`LocalCloud`. Override it in a ``conftest.py`` to set others."""
    stated = str(pytestconfig.getini(_SERVE)).strip()
    serve = stated.lower() in _TRUE or (stated if stated.lower() not in _FALSE else False)
    return {"serve": serve, "enforce_iam": pytestconfig.getini(_ENFORCE_IAM)}


@pytest.fixture(scope="session")
def running_local_cloud(local_cloud_settings: dict[str, Any]) -> Iterator[LocalCloud]:
    """A local cloud for the whole run, with what earlier tests have left in it."""
    from constructs_optim_local.cloud import LocalCloud

    with LocalCloud(**local_cloud_settings) as cloud:
        yield cloud


@pytest.fixture
def local_cloud(running_local_cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalCloud]:
    """A local cloud without resources, which the environment of this process points every AWS SDK and tool at."""
    from constructs_optim_local.cloud import IN_THE_WAY

    running_local_cloud.reset()
    for name in IN_THE_WAY:
        monkeypatch.delenv(name, raising=False)
    for name, value in running_local_cloud.environment().items():
        monkeypatch.setenv(name, value)
    yield running_local_cloud


@pytest.fixture
def local_session(local_cloud: LocalCloud) -> boto3.Session:
    """A boto3 session whose clients talk to :func:`local_cloud`."""
    import boto3

    variables = local_cloud.environment()
    return boto3.Session(
        aws_access_key_id=variables["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=variables["AWS_SECRET_ACCESS_KEY"],
        region_name=local_cloud.region,
    )
