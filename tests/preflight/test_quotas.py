"""Quotas at the declared counts, beside what is in use: endpoints that are made, updated or left alone, and jobs."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from constructs_optim.runtime.preflight.checks import run
from constructs_optim.runtime.preflight.context import Context
from constructs_optim.runtime.requests.preflight_properties import PreflightProperties
from constructs_optim.runtime.requests.properties import validate

from ..support.answers import Answers
from ..support.hosting import make_config, make_model
from ..support.in_process import InProcessCloud

G5 = "ml.g5.12xlarge"
QUOTA = f"{G5} for endpoint usage"
TRAINING = f"{G5} for training job usage"
PLAN = "arn:aws:sagemaker:us-west-2:111122223333:training-plan"
NONE: list[tuple[str, Any]] = [("list_objects_v2", {})] * 4


@pytest.fixture
def cloud() -> InProcessCloud:
    return InProcessCloud()


def fleet(name: str = "chat", count: int = 1, **changed: Any) -> dict[str, Any]:
    return {
        "EndpointName": name,
        "InstanceTypes": [G5],
        "InstanceCount": str(count),
        "BatchSize": str(count),
        "Definition": "1",
        **changed,
    }


def levels(cloud: InProcessCloud, *, is_update: bool = False, s3: Any = None, **needs: Any) -> list[tuple[str, str]]:
    answers = Answers(cloud, **({"s3": s3} if s3 is not None else {}))
    report = run(validate(PreflightProperties, needs), answers.context(is_update=is_update))
    assert {finding.check for finding in report.findings} <= {"quota"}
    return [(finding.level, finding.text) for finding in report.findings]


def serve(cloud: InProcessCloud, name: str, count: int = 1) -> None:
    sagemaker = cloud.client("sagemaker")
    make_model(sagemaker, name)
    make_config(sagemaker, name, name, count=count)
    sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)
    cloud.advance(3600)


def test_a_new_endpoint_needs_room_beside_what_is_in_use(cloud: InProcessCloud) -> None:
    serve(cloud, "other", 2)
    cloud.set_quota(QUOTA, 3)
    assert levels(cloud, Fleets=[fleet()]) == []
    ((level, text),) = levels(cloud, Fleets=[fleet(count=2)])
    assert (level, text) == ("problem", f"chat needs 2 instances, but '{QUOTA}' is 3 with 2 in use")


def test_the_endpoints_of_a_stack_count_together(cloud: InProcessCloud) -> None:
    cloud.set_quota(QUOTA, 3)
    ((level, text),) = levels(cloud, Fleets=[fleet("one", 2), fleet("two", 2)])
    assert (level, "one, two together need 4 instances" in text) == ("problem", True)


def test_an_update_needs_both_fleets_and_a_rolling_one_a_batch(cloud: InProcessCloud) -> None:
    serve(cloud, "chat", 2)
    cloud.set_quota(QUOTA, 3)
    ((level, text),) = levels(cloud, is_update=True, Fleets=[fleet(count=2)])
    assert level == "problem"
    assert "an update launches new instances before the old ones end" in text
    assert levels(cloud, is_update=True, Fleets=[fleet(count=2, BatchSize="1")]) == []


def test_a_shadow_is_launched_beside_both_fleets(cloud: InProcessCloud) -> None:
    serve(cloud, "chat", 2)
    cloud.set_quota(QUOTA, 4)
    both = [fleet(count=2), fleet(count=1, Definition="shadow")]
    ((level, text),) = levels(cloud, is_update=True, Fleets=both)
    assert (level, text.partition(" (")[0]) == ("problem", "chat needs 3 instances")
    cloud.set_quota(QUOTA, 5)
    assert levels(cloud, is_update=True, Fleets=both) == []


def test_what_a_shell_cannot_know_of_an_update_is_advice(cloud: InProcessCloud) -> None:
    serve(cloud, "chat", 2)
    cloud.set_quota(QUOTA, 3)
    ((level, text),) = levels(cloud, Fleets=[fleet(count=2)])
    assert (level, "if this deployment changes what chat serves" in text) == ("advice", True)


def test_a_new_endpoint_needs_room_beside_one_that_may_be_updated(cloud: InProcessCloud) -> None:
    serve(cloud, "chat", 2)
    cloud.set_quota(QUOTA, 2)
    ((level, text),) = levels(cloud, Fleets=[fleet("new"), fleet("chat")])
    assert (level, text) == ("problem", f"new, chat together need 1 instance, but '{QUOTA}' is 2 with 2 in use")


def test_instances_that_are_being_launched_are_in_use(cloud: InProcessCloud) -> None:
    sagemaker = cloud.client("sagemaker")
    make_model(sagemaker, "starting")
    make_config(sagemaker, "starting", "starting", count=3)
    sagemaker.create_endpoint(EndpointName="starting", EndpointConfigName="starting")
    cloud.set_quota(QUOTA, 3)
    ((level, text),) = levels(cloud, Fleets=[fleet()])
    assert (level, "3 in use" in text) == ("problem", True)


_SERVING = "arn:aws:sagemaker:us-west-2:111122223333:endpoint"
_TIMES = {"CreationTime": dt.datetime(2026, 1, 1), "LastModifiedTime": dt.datetime(2026, 1, 1)}


def listed(status: str = "InService") -> tuple[str, Any]:
    summary = {"EndpointName": "other", "EndpointArn": f"{_SERVING}/other", "EndpointStatus": status, **_TIMES}
    return "list_endpoints", {"Endpoints": [summary]}


def described(**more: Any) -> tuple[str, Any]:
    known = {"EndpointName": "other", "EndpointArn": f"{_SERVING}/other", "EndpointStatus": "InService", **_TIMES}
    return "describe_endpoint", {**known, "EndpointConfigName": "other", **more}


def configured(*variants: dict[str, Any], shadows: Any = ()) -> tuple[str, Any]:
    arn = "arn:aws:sagemaker:us-west-2:111122223333:endpoint-config/other"
    known = {"EndpointConfigName": "other", "EndpointConfigArn": arn, "CreationTime": dt.datetime(2026, 1, 1)}
    more = {"ShadowProductionVariants": list(shadows)} if shadows else {}
    return "describe_endpoint_config", {**known, "ProductionVariants": list(variants), **more}


def variant(name: str = "AllTraffic", **more: Any) -> dict[str, Any]:
    return {"VariantName": name, **more}


POOLS = [{"InstanceType": G5, "CurrentInstanceCount": 2}, {"InstanceType": "ml.g6.12xlarge", "CurrentInstanceCount": 9}]
CONFIGURED = configured(variant(InstanceType=G5))
PENDING = {"EndpointConfigName": "next", "ProductionVariants": [variant(DesiredInstanceCount=3, InstanceType=G5)]}


@pytest.mark.parametrize(
    ("answers", "used"),
    [
        ([listed("Deleting")], 0),
        # Beyond the first 500 endpoints, none is looked at.
        (
            [("list_endpoints", {"Endpoints": [*listed("Deleting")[1]["Endpoints"] * 500, *listed()[1]["Endpoints"]]})],
            0,
        ),
        # It was deleted after it was listed.
        ([listed(), ("describe_endpoint", "ResourceNotFound")], 0),
        # It is serverless, or has no instances yet.
        ([listed(), described(ProductionVariants=[variant(CurrentInstanceCount=2)]), configured(variant())], 0),
        ([listed(), described(ProductionVariants=[variant()]), CONFIGURED], 0),
        ([listed(), described(ProductionVariants=[variant(CurrentInstanceCount=2)]), CONFIGURED], 2),
        ([listed(), described(ProductionVariants=[variant(DesiredInstanceCount=3)]), CONFIGURED], 3),
        (
            [
                listed(),
                described(ProductionVariants=[variant(CurrentInstanceCount=4, DesiredInstanceCount=1)]),
                CONFIGURED,
            ],
            4,
        ),
        ([listed(), described(ProductionVariants=[variant(InstancePools=POOLS)])], 2),
        (
            [
                listed(),
                described(
                    ProductionVariants=[variant(CurrentInstanceCount=1)],
                    ShadowProductionVariants=[variant("Shadow", CurrentInstanceCount=2)],
                ),
                configured(variant(InstanceType=G5), shadows=[variant("Shadow", InstanceType=G5)]),
            ],
            3,
        ),
        (
            [
                listed(),
                described(
                    ProductionVariants=[variant(CurrentInstanceCount=1)],
                    PendingDeploymentSummary=PENDING,
                ),
                CONFIGURED,
                configured(variant()),
            ],
            4,
        ),
    ],
)
def test_the_instances_of_all_endpoints_are_in_use(cloud: InProcessCloud, answers: list[Any], used: int) -> None:
    cloud.set_quota(QUOTA, 0)
    needs = validate(PreflightProperties, {"Fleets": [fleet()]})
    missing = ("describe_endpoint", "ResourceNotFound")
    stated = Answers(cloud, sagemaker=[missing, *answers])
    (finding,) = run(needs, stated.context()).findings
    assert stated.asked[1] == {"MaxResults": 100}
    assert finding.text == f"chat needs 1 instance, but '{QUOTA}' is 0" + (f" with {used} in use" if used else "")
    assert f"request a quota of at least {used + 1} in Service Quotas" in finding.fix


def test_the_endpoints_of_an_account_are_listed_once(cloud: InProcessCloud) -> None:
    missing = ("describe_endpoint", "ResourceNotFound")
    answers = Answers(cloud, sagemaker=[missing, ("list_endpoints", {"Endpoints": []}), missing])
    needs = {"Fleets": [fleet("one"), fleet("two", InstanceTypes=["ml.g6.12xlarge"])]}
    assert run(validate(PreflightProperties, needs), answers.context()).findings == ()


def test_an_endpoint_that_may_not_be_described_may_have_any_instances(cloud: InProcessCloud) -> None:
    cloud.set_quota(QUOTA, 0)
    needs = validate(PreflightProperties, {"Fleets": [fleet()]})
    missing, denied = ("describe_endpoint", "ResourceNotFound"), ("describe_endpoint", "AccessDeniedException")
    (finding,) = run(needs, Answers(cloud, sagemaker=[missing, listed(), denied]).context()).findings
    assert (finding.level, finding.text) == ("advice", "not checked: DescribeEndpoint is denied")


def test_an_endpoint_without_instances_needs_no_quota() -> None:
    assert run(validate(PreflightProperties, {"Fleets": [fleet(count=0)]}), Answers().context()).findings == ()


def test_the_fix_of_a_full_quota_is_another_way_to_update_or_another_fleet(cloud: InProcessCloud) -> None:
    serve(cloud, "chat", 2)
    cloud.set_quota(QUOTA, 3)
    needs = validate(PreflightProperties, {"Fleets": [fleet(count=2)]})
    (update,) = run(needs, Answers(cloud).context(is_update=True)).findings
    assert update.fix == "request a quota of at least 4 in Service Quotas, or use UpdatePolicy.rolling(...)"
    needs = validate(PreflightProperties, {"Fleets": [fleet("new", 2)]})
    (creation,) = run(needs, Answers(cloud).context()).findings
    assert creation.fix == (
        "request a quota of at least 4 in Service Quotas, or use another instance type or fewer instances"
    )


@pytest.mark.parametrize("status", ["Failed", "Deleting"])
def test_an_endpoint_without_instances_is_created_anew(cloud: InProcessCloud, status: str) -> None:
    """Its update would need a batch only."""
    cloud.set_quota(QUOTA, 1)
    needs = validate(PreflightProperties, {"Fleets": [fleet(count=2, BatchSize="1")]})
    sagemaker = [described(EndpointStatus=status), ("list_endpoints", {"Endpoints": []})]
    (finding,) = run(needs, Answers(cloud, sagemaker=sagemaker).context(is_update=True)).findings
    assert finding.text == f"chat needs 2 instances, but '{QUOTA}' is 1"


def test_an_update_without_a_batch_needs_no_room(cloud: InProcessCloud) -> None:
    serve(cloud, "chat", 2)
    cloud.set_quota(QUOTA, 0)
    assert levels(cloud, is_update=True, Fleets=[fleet(count=2, BatchSize="0")]) == []


def test_of_pools_one_with_room_is_enough(cloud: InProcessCloud) -> None:
    cloud.set_quota(QUOTA, 0)
    pools = [fleet(InstanceTypes=[G5, "ml.p4d.24xlarge"])]
    ((level, text),) = levels(cloud, Fleets=pools)
    assert (level, "only ml.p4d.24xlarge has room" in text) == ("advice", True)
    cloud.set_quota("ml.p4d.24xlarge for endpoint usage", 0)
    ((level, _),) = levels(cloud, Fleets=pools)
    assert level == "problem"


def training(**changed: Any) -> dict[str, Any]:
    return {"ArtifactKey": "0" * 64, "Bucket": "store", "InstanceType": G5, "InstanceCount": "2", **changed}


def test_a_training_job_beyond_the_quota_is_a_problem_where_its_artifact_is_not_there(cloud: InProcessCloud) -> None:
    cloud.set_quota(TRAINING, 1)
    there = [("list_objects_v2", {"Contents": [{"Key": f"artifacts/{'0' * 64}/manifest.json"}]})]
    expected = f"a training job needs 2 instances, but '{TRAINING}' is 1"
    assert levels(cloud, s3=NONE, Trainings=[training()]) == [("problem", expected)]
    assert levels(cloud, s3=there, Trainings=[training()]) == []
    unknown = training()
    del unknown["ArtifactKey"]
    assert levels(cloud, s3=[], Trainings=[unknown]) == [("advice", expected)]
    cloud.set_quota(TRAINING, 0)
    assert [level for level, _ in levels(cloud, s3=[], Trainings=[unknown])] == ["advice"]


@pytest.mark.parametrize(
    ("needed", "name", "expected"),
    [
        (
            {"MaxRuntimeInSeconds": "432001"},
            "Longest run time for a training job",
            "a training job needs 432,001 seconds, but 'Longest run time for a training job' is 432,000",
        ),
        (
            {"VolumeSizeInGB": "1025"},
            "Size of EBS volume for a training job instance",
            "a training job needs 1,025 GB, but 'Size of EBS volume for a training job instance' is 1,024",
        ),
        (
            {"InstanceCount": "21"},
            "Maximum number of instances per training job",
            "a training job needs 21 instances, but 'Maximum number of instances per training job' is 20",
        ),
    ],
)
def test_the_numbers_of_a_training_job_have_quotas(
    cloud: InProcessCloud, needed: dict[str, str], name: str, expected: str
) -> None:
    cloud.set_quota(TRAINING, 100)
    fits = {"MaxRuntimeInSeconds": "432000", "VolumeSizeInGB": "1024", "InstanceCount": "20"}
    assert levels(cloud, s3=NONE, Trainings=[training(**fits)]) == []
    ((level, text),) = levels(cloud, s3=NONE, Trainings=[training(**fits | needed)])
    assert (level, text) == ("problem", expected)
    unknown = training(**fits | needed)
    del unknown["ArtifactKey"]
    assert levels(cloud, s3=[], Trainings=[unknown]) == [("advice", text)]
    cloud.set_quota(name, 500_000)
    assert levels(cloud, s3=NONE, Trainings=[training(**fits | needed)]) == []


def test_a_quota_of_a_jobs_number_that_is_not_listed_limits_nothing(cloud: InProcessCloud) -> None:
    listed = [{"QuotaName": TRAINING, "Value": 100.0}]
    answers: Any = [
        ("list_service_quotas", {"Quotas": listed}),
        ("list_aws_default_service_quotas", {"Quotas": listed}),
    ]
    context = Answers(cloud, s3=NONE, service_quotas=answers).context()
    needs = {"Trainings": [training(MaxRuntimeInSeconds="900000")]}
    assert run(validate(PreflightProperties, needs), context).findings == ()


def test_spot_instances_have_a_quota_of_their_own(cloud: InProcessCloud) -> None:
    cloud.set_quota(TRAINING, 0)
    assert levels(cloud, s3=NONE, Trainings=[training(Spot="true")]) == []
    cloud.set_quota(f"{G5} for spot training job usage", 0)
    ((level, _),) = levels(cloud, s3=NONE, Trainings=[training(Spot="true")])
    assert level == "problem"


def running(name: str, count: int, **more: Any) -> dict[str, Any]:
    resources = {"InstanceType": G5, "InstanceCount": count, "VolumeSizeInGB": 1, **more.pop("resources", {})}
    described = {
        "TrainingJobName": name,
        "TrainingJobArn": f"arn:aws:sagemaker:us-west-2:111122223333:training-job/{name}",
        "ModelArtifacts": {"S3ModelArtifacts": "s3://store/output"},
        "TrainingJobStatus": "InProgress",
        "SecondaryStatus": "Training",
        "StoppingCondition": {"MaxRuntimeInSeconds": 60},
        "CreationTime": dt.datetime(2026, 1, 1),
    }
    return {**described, "ResourceConfig": resources, **more}


@pytest.mark.parametrize(
    ("jobs", "used"),
    [
        ([], None),
        ([running("a", 1)], None),
        ([running("a", 2)], 2),
        ([running("a", 1), running("b", 1)], 2),
        # Another instance type, spot instances and reserved ones count against other quotas.
        ([running("a", 9, resources={"InstanceType": "ml.p5.48xlarge"})], None),
        ([running("a", 9, EnableManagedSpotTraining=True)], None),
        ([running("a", 9, resources={"TrainingPlanArn": f"{PLAN}/plan"})], None),
    ],
)
def test_running_jobs_may_end_before_a_training_job_starts(
    cloud: InProcessCloud, jobs: list[dict[str, Any]], used: int | None
) -> None:
    cloud.set_quota(TRAINING, 3)
    names = ("TrainingJobName", "TrainingJobArn", "TrainingJobStatus", "CreationTime")
    listed = {"TrainingJobSummaries": [{name: job[name] for name in names} for job in jobs]}
    # The jobs are described in threads, in any order.
    listing = Answers(sagemaker=[("list_training_jobs", listed)])
    sagemaker = listing.client("sagemaker")
    sagemaker.describe_training_job = lambda TrainingJobName: next(  # noqa: N803 - the API's name
        job for job in jobs if job["TrainingJobName"] == TrainingJobName
    )
    clients = {"sagemaker": sagemaker, "s3": Answers(s3=NONE).client("s3")}
    context = Context(lambda service: clients.get(service) or cloud.client(service), "us-west-2")
    findings = run(validate(PreflightProperties, {"Trainings": [training()]}), context).findings
    assert listing.asked == [{"StatusEquals": "InProgress", "MaxResults": 100}]
    assert [(each.level, each.text) for each in findings] == (
        [("advice", f"a training job needs 2 instances, but '{TRAINING}' is 3 with {used} in use by running jobs")]
        if used
        else []
    )


def test_jobs_of_a_chain_run_one_after_another(cloud: InProcessCloud) -> None:
    cloud.set_quota(TRAINING, 2)
    assert levels(cloud, s3=NONE, Trainings=[training(), training(ArtifactKey="1" * 64)]) == []


def test_quotas_that_may_not_be_asked_for_and_optimization_jobs_are_advice(cloud: InProcessCloud) -> None:
    answers = Answers(cloud, service_quotas=[("list_service_quotas", "AccessDeniedException")])
    report = run(
        validate(PreflightProperties, {"Fleets": [fleet()], "OptimizationJobs": ["a63320d1"]}), answers.context()
    )
    assert [finding.level for finding in report.findings] == ["advice", "advice"]
    assert "ListServiceQuotas is denied" in report.findings[0].text
    text = report.findings[1].text
    assert "AWS does not document which quota an optimization job counts against" in text
    assert levels(cloud, OptimizationJobs=["a63320d1", "b63320d1"]) == [
        ("advice", text.replace("an optimization job counts", "optimization jobs count"))
    ]
    assert report.is_early


def test_a_quota_without_a_value_of_its_own_has_awss_default(cloud: InProcessCloud) -> None:
    quota = {"QuotaName": QUOTA, "Value": 0.0}
    answers = Answers(
        cloud,
        service_quotas=[
            ("list_service_quotas", {"Quotas": [{"QuotaName": "another", "Value": 9.0}, {"QuotaName": QUOTA}]}),
            ("list_aws_default_service_quotas", {"Quotas": [quota]}),
        ],
    )
    report = run(validate(PreflightProperties, {"Fleets": [fleet()]}), answers.context())
    assert [finding.level for finding in report.findings] == ["problem"]


def test_no_defaults_are_asked_for_where_the_account_has_values_of_its_own(cloud: InProcessCloud) -> None:
    answers = Answers(cloud, service_quotas=[("list_service_quotas", {"Quotas": [{"QuotaName": QUOTA, "Value": 0.0}]})])
    report = run(validate(PreflightProperties, {"Fleets": [fleet()]}), answers.context())
    assert [finding.text for finding in report.findings] == [f"chat needs 1 instance, but '{QUOTA}' is 0"]
