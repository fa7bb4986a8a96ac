"""Service Quotas, and what SageMaker refuses where a quota that was set would be exceeded."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from constructs_optim_local.api.error import ApiError
from constructs_optim_local.cloud import LocalCloud
from constructs_optim_local.sagemaker.quotas import SPOT, TRAINING, Quotas

from ..support.hosting import make_config, make_model
from ..support.in_process import InProcessCloud

NAME = "ml.g5.12xlarge for endpoint usage"


@pytest.fixture
def own_cloud() -> InProcessCloud:
    return InProcessCloud()


@pytest.fixture
def sagemaker(own_cloud: InProcessCloud) -> Any:
    return own_cloud.client("sagemaker")


def listed(cloud: InProcessCloud, operation: str = "list_service_quotas") -> dict[str, float]:
    pages = cloud.client("service-quotas").get_paginator(operation).paginate(ServiceCode="sagemaker")
    return {quota["QuotaName"]: quota["Value"] for page in pages for quota in page["Quotas"]}


def test_quotas_are_listed_in_pages_with_the_values_that_were_set(own_cloud: InProcessCloud) -> None:
    own_cloud.set_quota(NAME, 3)
    quotas = listed(own_cloud)
    assert quotas[NAME] == 3
    assert quotas["ml.p4d.24xlarge for training job usage"] == 20
    assert quotas["ml.p4d.24xlarge for spot training job usage"] == 20
    assert len(quotas) > 100, "more than a page"
    assert listed(own_cloud, "list_aws_default_service_quotas")[NAME] == 20


def test_a_quota_is_found_by_its_code(own_cloud: InProcessCloud) -> None:
    client = own_cloud.client("service-quotas")
    first = client.list_service_quotas(ServiceCode="sagemaker", MaxResults=1)["Quotas"][0]
    assert client.get_service_quota(ServiceCode="sagemaker", QuotaCode=first["QuotaCode"])["Quota"] == first
    with pytest.raises(ClientError, match="NoSuchResourceException"):
        client.get_service_quota(ServiceCode="sagemaker", QuotaCode="L-00000000")
    with pytest.raises(ClientError, match="NoSuchResourceException"):
        client.list_service_quotas(ServiceCode="ec2")


def test_an_endpoint_beyond_the_quota_is_refused_in_the_words_of_the_service(
    own_cloud: InProcessCloud, sagemaker: Any
) -> None:
    own_cloud.set_quota(NAME, 1)
    make_model(sagemaker, "many")
    make_config(sagemaker, "many", "many", count=2)
    with pytest.raises(ClientError) as refused:
        sagemaker.create_endpoint(EndpointName="many", EndpointConfigName="many")
    assert refused.value.response["Error"]["Code"] == "ResourceLimitExceeded"
    assert (
        "service limit 'ml.g5.12xlarge for endpoint usage' is 1 Instances, with current utilization of 0 Instances "
        "and a request delta of 2 Instances" in str(refused.value)
    )
    assert sagemaker.list_endpoints()["Endpoints"] == []


def test_an_update_needs_room_for_both_fleets_and_a_rolling_one_for_a_batch(
    own_cloud: InProcessCloud, sagemaker: Any
) -> None:
    make_model(sagemaker, "both")
    make_config(sagemaker, "both", "both", count=2)
    sagemaker.create_endpoint(EndpointName="both", EndpointConfigName="both")
    until_in_service(own_cloud, sagemaker, "both")
    make_config(sagemaker, "both-2", "both", count=2)
    own_cloud.set_quota(NAME, 3)
    with pytest.raises(ClientError, match="utilization of 2 Instances and a request delta of 2 Instances"):
        sagemaker.update_endpoint(EndpointName="both", EndpointConfigName="both-2")
    rolling = {"MaximumBatchSize": {"Type": "CAPACITY_PERCENT", "Value": 50}, "WaitIntervalInSeconds": 0}
    sagemaker.update_endpoint(
        EndpointName="both", EndpointConfigName="both-2", DeploymentConfig={"RollingUpdatePolicy": rolling}
    )


def test_scaling_beyond_the_quota_is_refused(own_cloud: InProcessCloud, sagemaker: Any) -> None:
    make_model(sagemaker, "scaled")
    make_config(sagemaker, "scaled", "scaled")
    sagemaker.create_endpoint(EndpointName="scaled", EndpointConfigName="scaled")
    until_in_service(own_cloud, sagemaker, "scaled")
    own_cloud.set_quota(NAME, 2)
    desired = [{"VariantName": "AllTraffic", "DesiredInstanceCount": 3}]
    with pytest.raises(ClientError, match="ResourceLimitExceeded"):
        sagemaker.update_endpoint_weights_and_capacities(EndpointName="scaled", DesiredWeightsAndCapacities=desired)


def until_in_service(cloud: InProcessCloud, sagemaker: Any, name: str) -> None:
    cloud.advance(3600)
    assert sagemaker.describe_endpoint(EndpointName=name)["EndpointStatus"] == "InService"


def test_instances_that_are_being_launched_count() -> None:
    quotas = Quotas()
    quotas.set("ml.g5.2xlarge for training job usage", 2)
    quotas.check("ml.g5.2xlarge", TRAINING, used=1, more=1)
    quotas.check("ml.g5.2xlarge", SPOT, used=9, more=1)
    with pytest.raises(ApiError, match="utilization of 1 Instances and a request delta of 2"):
        quotas.check("ml.g5.2xlarge", TRAINING, used=1, more=2)


@pytest.mark.local
def test_a_running_local_cloud_has_quotas_and_the_registries_of_aws(cloud: LocalCloud) -> None:
    sagemaker = cloud.client("sagemaker")
    cloud.set_quota(NAME, 0)
    try:
        make_model(sagemaker, "none")
        make_config(sagemaker, "none", "none")
        with pytest.raises(ClientError, match="ResourceLimitExceeded"):
            sagemaker.create_endpoint(EndpointName="none", EndpointConfigName="none")
        assert cloud.quotas() == {NAME: 0}
        (quota,) = [
            quota
            for page in cloud.client("service-quotas")
            .get_paginator("list_service_quotas")
            .paginate(ServiceCode="sagemaker")
            for quota in page["Quotas"]
            if quota["QuotaName"] == NAME
        ]
        assert quota["Value"] == 0
    finally:
        cloud.clear_quotas()
    sagemaker.create_endpoint(EndpointName="none", EndpointConfigName="none")

    ecr = cloud.client("ecr")
    tag = "0.36.0-lmi27.0.0-cu130"
    images = {"registryId": "763104351884", "repositoryName": "djl-inference"}
    assert ecr.describe_images(**images, imageIds=[{"imageTag": tag}])["imageDetails"]
    with pytest.raises(ClientError, match="ImageNotFoundException"):
        ecr.describe_images(**images, imageIds=[{"imageTag": "0.0.1"}])
    with pytest.raises(ClientError, match="RepositoryNotFoundException"):
        ecr.describe_images(registryId="763104351884", repositoryName="none", imageIds=[{"imageTag": tag}])
    ecr.create_repository(repositoryName="own")
    with pytest.raises(ClientError, match="ImageNotFoundException"):
        ecr.describe_images(repositoryName="own", imageIds=[{"imageTag": tag}])
