"""``constructs-optim explain``: what it prints, what it asks AWS, and what its exit status says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore.model import StringShape
from syrupy.assertion import SnapshotAssertion
from typer.testing import CliRunner, Result

from constructs_optim.cli import explain as explain_module
from constructs_optim.cli.main import app
from constructs_optim.explanation.report import Report
from constructs_optim_local.cloud import LocalCloud
from constructs_optim_local.price_list import hourly_price

from ..support.denials import deny
from ..support.handwritten_templates import chat, job, resource, role, scaled, stack, written
from ..support.operator_stores import Store, artifact_key, owner
from ..support.resource_schemas import DOCUMENTED, documented
from ..support.waiting import until
from ..support.watched_endpoints import Watched
from ..support.watched_endpoints import watched as watched_resources

WIDER = {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}


def explained(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["explain", *(str(argument) for argument in arguments)])


def reported(*arguments: object) -> Report:
    result = explained(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return Report.model_validate_json(result.stdout)


@pytest.fixture
def before(tmp_path: Path) -> Path:
    return written(tmp_path / "before", stack(chat(Target=scaled(1, 2))))


@pytest.fixture
def after(tmp_path: Path) -> Path:
    changed = chat(generation="2", key="b" * 64, Target=scaled(1, 4), Role=role(WIDER))
    return written(tmp_path / "after", stack(changed))


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    path = tmp_path / "prices.json"
    path.write_text('{"ml.g5.12xlarge": 7.09}')
    return path


def test_a_change_is_explained_as_text_without_calling_aws(
    before: Path, after: Path, prices: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(explain_module, "Account")
    result = explained(after, "--against", before, "--prices", prices)
    assert result.exit_code == 0, result.output
    lines = [line.strip() for line in result.stdout.splitlines()]
    for line in (
        "Chat/Endpoint: changed in us-west-2",
        "resources replaced: Model (PrimaryContainer), Config (ProductionVariants)",
        "update: blue/green, a second fleet takes over at once; no alarm rolls it back",
        "cost: $5,176 to $20,703 per month (730 hours on demand, prices of prices.json); before: $5,176 to $10,351",
        "Role: grants more than before, 1 added and 0 removed",
        "+ Allow s3:* on *",
        "1 endpoint changed; a job may run; 1 policy grants new permissions.",
    ):
        assert line in lines, result.stdout


def test_markdown_starts_with_the_marker_of_the_workflow_comment(before: Path, after: Path) -> None:
    result = explained(after, "--against", before, "--markdown")
    assert result.stdout.startswith("<!-- constructs-optim explain -->\n## What this deployment does\n")
    assert "\n  + Allow s3:* on *\n" in result.stdout


def test_json_output_is_only_the_report(before: Path, after: Path, prices: Path) -> None:
    result = explained(after, "--against", before, "--prices", prices, "--json")
    report = Report.model_validate_json(result.stdout)
    assert report.endpoints[0].monthly_cost is not None
    assert report.endpoints[0].monthly_cost.most == 20702.8
    assert report.endpoints[0].jobs[0].outcome == "decided_at_deployment"


@pytest.mark.parametrize("path", DOCUMENTED, ids=lambda path: path.name)
def test_each_documented_json_schema_matches_its_model(path: Path) -> None:
    kept = json.loads(path.read_text(encoding="utf-8"))
    assert kept == documented(DOCUMENTED[path]), "python -m tests.support.resource_schemas writes it anew"


@pytest.mark.parametrize(("what", "status"), [("change", 1), ("job", 1), ("permissions", 1), ("interruption", 0)])
def test_the_exit_status_follows_the_fail_on_option(what: str, status: int, before: Path, after: Path) -> None:
    assert explained(after, "--against", before, "--fail-on", what).exit_code == status
    assert explained(before, "--against", before, "--fail-on", what).exit_code == 0


def test_an_update_that_aws_refuses_is_listed_first_and_always_fails(before: Path, tmp_path: Path) -> None:
    changed = chat(Target=scaled(1, 2))
    changed["Config"]["Properties"]["ProductionVariants"][0]["InstanceType"] = "ml.g6.12xlarge"
    after = written(tmp_path / "after", stack(changed))
    for arguments in ((), ("--fail-on", "interruption"), ("--json",), ("--markdown",)):
        assert explained(after, "--against", before, *arguments).exit_code == 1
    result = explained(after, "--against", before)
    assert result.stdout.startswith("SageMaker refuses the update of Endpoint: ")
    assert result.stdout.endswith("AWS refuses this deployment for 1 reason: see the top.\n")


_LONG = f"arn:${{AWS::Partition}}:s3:::{'a-bucket-with-a-long-name-' * 4}/*"


@pytest.mark.parametrize("width", [80, 100])
@pytest.mark.parametrize("case", ["first deployment", "change", "refused"])
def test_lines_fit_the_terminal_without_broken_names(
    case: str, width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    long = {"Effect": "Allow", "Action": ["s3:GetObject", "s3:GetObjectVersion"], "Resource": _LONG}
    if_service = {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}
    describing = {
        "Effect": "Allow",
        "Action": "cloudformation:DescribeStacks",
        "Resource": "*",
        "Condition": if_service,
    }
    # Relative to the working directory: the length of its own name would change where lines end.
    monkeypatch.chdir(tmp_path)
    old = written(Path("apps/old"), stack(chat(Target=scaled(1, 2), Role=role(WIDER))))
    changed = chat(generation="2", key="b" * 64, Target=scaled(1, 4), Role=role(long, describing))
    if case == "refused":
        changed["Config"]["Properties"]["ProductionVariants"][0]["InstanceType"] = "ml.g6.12xlarge"
    new = written(Path("apps/new"), stack({**changed, "Topic": resource("AWS::SNS::Topic")}))
    text = explained(new, *([] if case == "first deployment" else ["--against", old])).stdout
    for line in text.splitlines():
        assert len(line) <= width or line.split()[-1] == _LONG, line
    for name in (_LONG, "cloudformation:DescribeStacks") if case != "first deployment" else ():
        assert name in text
    assert text == snapshot


def test_removing_an_endpoint_is_an_interruption(before: Path, tmp_path: Path) -> None:
    left = written(tmp_path / "left", stack(job()))
    result = explained(left, "--against", before, "--fail-on", "interruption", "--fail-on", "permissions")
    assert result.exit_code == 1
    assert "Chat/Endpoint: removed, interrupted in us-west-2" in result.stdout


def test_stacks_are_selected_by_name_pattern(tmp_path: Path) -> None:
    both = written(tmp_path, stack(chat(), path="Prod/Chat"), stack(chat(), path="Test/Chat"))
    assert [each.name for each in reported(both).stacks] == ["Prod/Chat", "Test/Chat"]
    assert [each.name for each in reported(both, "--stack", "Prod/*").stacks] == ["Prod/Chat"]
    result = explained(both, "--stack", "Chat")
    assert result.exit_code == 2
    assert "has no stack Chat. Its stacks: Prod/Chat, Test/Chat" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "run `cdk synth` first"),
        (["{after}", "--against", "nowhere"], "run `cdk synth` first"),
        (["{after}", "--prices", "nowhere"], "cannot read"),
        (["{after}", "--store", "s3://bucket/"], "not a bucket name"),
    ],
)
def test_an_unreadable_app_or_baseline_is_an_error_message(arguments: list[str], message: str, after: Path) -> None:
    result = explained(*(argument.format(after=after) for argument in arguments))
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "the file is [], which is not an object"),
        ('{"ml.g5.12xlarge": "7"}', "ml.g5.12xlarge is '7', which is not a number above zero"),
        ('{"hosting": {"ml.g5.12xlarge": -1}}', "hosting.ml.g5.12xlarge is -1, which is not a number above zero"),
        ('{"hosting": 5}', "hosting is 5, which is not an object"),
        ('{"ml.g5.12xlargee": 7}', "ml.g5.12xlargee: did you mean ml.g5.12xlarge"),
        ('{"training": {"g5": 7}}', "g5: names begin with ml."),
    ],
)
def test_an_invalid_price_file_is_refused(content: str, message: str, after: Path, prices: Path) -> None:
    prices.write_text(content)
    result = explained(after, "--prices", prices)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


def test_every_instance_type_of_sagemaker_may_have_a_price(after: Path, prices: Path) -> None:
    model = botocore.session.get_session().get_service_model("sagemaker")
    shapes = [model.shape_for(name) for name in ("ProductionVariantInstanceType", "TrainingInstanceType")]
    names = {name for shape in shapes if isinstance(shape, StringShape) for name in shape.enum}
    assert len(names) > 300
    prices.write_text(json.dumps(dict.fromkeys(names, 1.5)))
    assert explained(after, "--prices", prices).exit_code == 0


@pytest.mark.parametrize("content", ['{"ml.p5.48xlarge": 63.3}', '{"training": {"ml.g5.12xlarge": 5}}'])
def test_types_that_a_price_file_lacks_are_named_and_no_option_for_prices(
    content: str, after: Path, prices: Path
) -> None:
    prices.write_text(content)
    result = explained(after, "--prices", prices)
    assert result.exit_code == 0, result.output
    assert "the price list has no ml.g5.12xlarge" in result.stdout
    assert "--prices" not in result.stdout


def test_jobs_and_hosting_can_have_separate_prices(after: Path, prices: Path) -> None:
    prices.write_text('{"hosting": {"ml.g5.12xlarge": 7}, "optimization": {"ml.g5.12xlarge": 5}}')
    (found,) = reported(after, "--prices", prices).endpoints
    assert (found.jobs[0].price_per_hour, found.jobs[0].max_cost) == (5, 50)
    assert found.monthly_cost is not None
    assert found.monthly_cost.least == 5110


@pytest.mark.local
def test_the_store_distinguishes_reuse_a_running_job_and_a_new_job(store: Store, tmp_path: Path) -> None:
    ready, running, missing = (
        artifact_key(name) for name in ("explained ready", "explained running", "explained none")
    )
    store.made(ready)
    store.running(running, owner())
    stacks = [stack(chat(key=key), path=name) for name, key in (("A", ready), ("B", running), ("C", missing))]
    report = reported(written(tmp_path, *stacks), "--store", store.bucket)
    assert [each.jobs[0].outcome for each in report.endpoints] == ["reuse", "join_running_job", "new_job"]
    assert f"is not in the store {store.bucket}." in report.endpoints[2].jobs[0].sentences[0]


@pytest.mark.local
def test_past_jobs_of_the_same_kind_estimate_duration_and_cost(store: Store, tmp_path: Path, prices: Path) -> None:
    store.made(artifact_key("explained duration"))
    described = {"Model": "meta-textgeneration-llama-2-70b 5.0.0", "Techniques": ["AWQ INT4 (group size 128)"]}
    resources = chat(key=artifact_key("explained next version"))
    resources["Job"]["Properties"]["Description"] = described
    (found,) = reported(written(tmp_path, stack(resources)), "--store", store.bucket, "--prices", prices).endpoints
    assert found.jobs[0].estimate_based_on == 1
    assert found.jobs[0].estimated_seconds is not None
    assert found.jobs[0].estimated_cost is not None
    assert "as 1 job of the same kind took; at most 10 h and $70.90" in found.jobs[0].sentences[1]


@pytest.fixture
def deployed(store: Store) -> Any:
    """Creates a stack on the cloud; it is deleted when the test ends."""
    cloudformation = store.cloud.client("cloudformation")
    names: list[str] = []

    def create(name: str, resources: dict[str, Any]) -> None:
        cloudformation.create_stack(StackName=name, TemplateBody=json.dumps({"Resources": resources}))
        names.append(name)
        status = until(
            lambda: cloudformation.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"],
            lambda found: not found.endswith("_IN_PROGRESS"),
        )
        assert status == "CREATE_COMPLETE"

    yield create
    for name in names:
        cloudformation.delete_stack(StackName=name)


@pytest.mark.local
def test_against_deployed_compares_with_the_deployed_stacks(deployed: Any, tmp_path: Path) -> None:
    queue = resource("AWS::SQS::Queue", DelaySeconds=5)
    deployed("Explained", {"Queue": queue})
    changed = {"Queue": resource("AWS::SQS::Queue", DelaySeconds=9), "Topic": resource("AWS::SNS::Topic")}
    folder = written(tmp_path, stack(changed, path="Explained"), stack(chat(), path="NotThere"))
    report = reported(folder, "--against", "deployed")
    there, new = report.stacks
    assert (there.change, [(each.name, each.action) for each in there.resources]) == (
        "changed",
        [("Queue", "update"), ("Topic", "create")],
    )
    assert (new.change, new.endpoints[0].change) == ("new", "new")
    same = written(tmp_path / "same", stack({"Queue": queue}, path="Explained"))
    assert not reported(same, "--against", "deployed").has_changes


@pytest.fixture
def watched(store: Store) -> Iterator[Watched]:
    made = Watched(store.cloud)
    yield made
    made.stack.delete()


@pytest.mark.local
def test_against_deployed_names_what_was_removed_and_changed_by_hand(watched: Watched, tmp_path: Path) -> None:
    name = watched.stack.name
    folder = written(tmp_path, replace(stack(watched_resources()), path=name, stack_name=name))
    sound = explained(folder, "--against", "deployed", "--fail-on", "drift")
    assert (sound.exit_code, "Nothing changes.\n" in sound.stdout) == (0, True), sound.output
    watched.deregister()
    watched.silence()
    result = explained(folder, "--against", "deployed", "--fail-on", "drift")
    assert result.exit_code == 1
    lines = [line.strip() for line in result.stdout.splitlines()]
    missing, changed = (lines.index(f"Deployed, but {what} in the account ({name})") for what in ("missing", "changed"))
    target = f"Target is not registered, so nothing scales {watched.target['ResourceId']}."
    assert lines[missing + 1] == f"{target} Next: `cdk deploy --revert-drift` creates it again"
    assert lines[changed + 1].startswith("ErrorRate (")
    assert lines[-1] == "Nothing changes. 3 resources drifted: see the top."
    report = reported(folder, "--against", "deployed")
    assert [(each.logical_id, each.is_missing) for each in report.drift] == [
        ("Target", True),
        ("Policy", True),
        ("ErrorRate", False),
    ]


@pytest.mark.local
def test_a_stack_that_may_not_be_compared_with_the_account_is_a_note(
    watched: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = watched.stack.name
    folder = written(tmp_path, replace(stack(watched_resources()), path=name, stack_name=name))
    deny(monkeypatch, "ListStackResources")
    report = reported(folder, "--against", "deployed")
    assert report.notes[0] == f"{name} was not compared with the account: ListStackResources is denied."
    assert not report.has_changes


@pytest.mark.local
def test_the_store_of_a_job_is_resolved_from_the_deployed_stack(store: Store, deployed: Any, tmp_path: Path) -> None:
    bucket = {"Bucket": resource("AWS::S3::Bucket")}
    deployed("ExplainedStore", bucket)
    resources = {**bucket, **chat(bucket={"Ref": "Bucket"})}
    folder = written(
        tmp_path,
        stack(resources, path="ExplainedStore"),
        stack({**bucket, **chat(bucket={"Ref": "Bucket"})}, path="NewStore"),
        stack(chat(bucket={"Ref": "Parameter"}), path="Elsewhere"),
    )
    report = reported(folder, "--store", "deployed")
    first, second, third = report.jobs
    assert first.outcome == "new_job"
    assert "is not in the store explainedstore-bucket" in first.sentences[0]
    assert "is not in the store that this deployment creates." in second.sentences[0]
    assert third.outcome == "decided_at_deployment"
    assert any("The store of Job in Elsewhere is unknown" in note for note in report.notes)


@pytest.mark.local
def test_a_stack_of_another_account_is_not_treated_as_undeployed(store: Store, tmp_path: Path) -> None:
    there = replace(stack(chat()), account="111122223333")
    folder = written(tmp_path, there)
    result = explained(folder, "--against", "deployed")
    assert result.exit_code == 2
    assert "to account 000000000000, but these stacks belong to other accounts: Chat (111122223333)" in result.stderr
    report = reported(folder, "--store", "deployed")
    assert report.jobs[0].outcome == "decided_at_deployment"
    assert "The stores of Chat were not searched: the stack belongs to account 111122223333." in report.notes


@pytest.mark.local
def test_the_price_list_is_queried_for_the_region_of_each_stack(store: Store, tmp_path: Path) -> None:
    folder = written(tmp_path, stack(chat()), stack(chat(), path="Far", region="eu-west-1"))
    near, far = reported(folder, "--prices", "aws").endpoints
    price = hourly_price("ml.g5.12xlarge")
    assert price is not None
    assert near.monthly_cost is not None
    assert far.monthly_cost is not None
    assert near.monthly_cost.most == round(price * 730, 2)
    assert (far.monthly_cost.most or 0) > (near.monthly_cost.most or 0)
    assert near.monthly_cost.source == "AWS Price List of us-west-2"


@pytest.mark.local
def test_denied_price_lookups_are_noted_and_the_report_continues(
    store: Store, cloud: LocalCloud, tmp_path: Path
) -> None:
    cloud.inject("access_denied", operation="GetProducts")
    folder = written(tmp_path, stack(chat(), region="ap-northeast-1"))
    report = reported(folder, "--prices", "aws")
    assert report.endpoints[0].monthly_cost is not None
    assert report.endpoints[0].monthly_cost.most is None
    assert any("AWS denies pricing:GetProducts" in note for note in report.notes)
