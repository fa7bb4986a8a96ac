"""One store for the teams of three accounts, deployed in each with its own credentials and IAM enforced."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from constructs_optim.local.cloud import LocalCloud

from .conftest import write_document
from .stack import DeployedStack

pytestmark = pytest.mark.exhaustive

PLATFORM, SEARCH, SUPPORT = "111122223333", "444455556666", "777788889999"
ACCOUNTS = {"Platform": PLATFORM, "Search": SEARCH, "Support": SUPPORT}


@pytest.fixture(scope="module")
def teams(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    """A local cloud of which each account is bootstrapped."""
    hub = tmp_path_factory.mktemp("hub")
    write_document(hub / "meta-textgeneration-llama-3-70b-instruct", ("2.16.2",))
    with LocalCloud(
        job_seconds=(0.3, 0.3), endpoint_seconds=0.2, time_scale=0.01, hub_folders=[hub], enforce_iam=True
    ) as running:
        for account in ACCOUNTS.values():
            stack = DeployedStack(running, tmp_path_factory.mktemp("bootstrap"), "Bootstrap", account=account)
            stack.cdk("bootstrap", f"aws://{account}/{running.region}")
        yield running


def test_the_first_account_makes_the_artifact_and_the_second_serves_it(teams: LocalCloud, tmp_path: Path) -> None:
    context = {"platform": PLATFORM, "search": SEARCH, "support": SUPPORT}
    stacks: dict[str, DeployedStack] = {}
    for name, account in ACCOUNTS.items():
        stack = stacks[name] = DeployedStack(
            teams, tmp_path, name, example="shared_store.py", context=context, account=account
        )
        stack.deploy()
        if name == "Platform":
            context["key_arn"] = stack.outputs["KeyArn"]
    assert len(teams.jobs()) == 1, "the second account's deployment found the artifact"
    assert {stacks[name].endpoint["EndpointStatus"] for name in ("Search", "Support")} == {"InService"}
    served = [stacks[name].served_container for name in ("Search", "Support")]
    assert served[0]["ModelDataSource"] == served[1]["ModelDataSource"]
    assert stacks["Search"].endpoint["EndpointArn"].split(":")[4] == SEARCH
    for name in ("Support", "Search", "Platform"):
        stacks[name].destroy()
