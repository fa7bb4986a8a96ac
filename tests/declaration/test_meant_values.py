"""Values of a file that look right and are not: prefixes, IDs, references, and names that are meant."""

from __future__ import annotations

import json
from typing import Any

import pytest

from constructs_optim.constructs.declaration.document import DeclarationError, Document
from constructs_optim.constructs.declared_stack.stack_file import DeclaredStack

_PLAIN: dict[str, Any] = {"model": "s3://models-of-mine/chat/", "instance_type": "ml.g6e.12xlarge"}
_VPC: dict[str, Any] = {"vpc_id": "vpc-0123456789abcdef0", "subnet_ids": ["subnet-01234567"]}


def _made(endpoint: dict[str, Any], **of_stack: Any) -> DeclaredStack:
    content = {"stack": "Chat", "endpoints": {"Chat": {**_PLAIN, **endpoint}}, **of_stack}
    return DeclaredStack(Document.parsed(json.dumps(content), "endpoint.json"))


@pytest.mark.parametrize(
    ("endpoint", "place", "reason", "fix"),
    [
        ({"data_capture": {"bucket": "captures", "prefix": "s3://b/x/"}}, "data_capture.prefix", "a URI", "use 'x'"),
        ({"async_inference": {"bucket": "answers", "prefix": "s3://b"}}, "prefix", "a URI", "use 'captures'"),
        (
            {"data_capture": {"bucket": "captures", "json_content_types": ["json"]}},
            "json_content_types[0]",
            "not a content type",
            "use 'application/json'",
        ),
        (
            {"data_capture": {"bucket": "captures", "json_content_types": ["a b"]}},
            "json_content_types[0]",
            "not a content type",
            "use one such as 'application/json'",
        ),
        (
            {"network": {"vpc": {**_VPC, "vpc_id": "vpc-123"}}},
            "vpc.vpc_id",
            "8 or 17 hexadecimal",
            "vpc-0123456789abcdef0",
        ),
        (
            {"network": {"vpc": {**_VPC, "subnet_ids": ["subnet-1"]}}},
            "subnet_ids",
            "'subnet-1'",
            "subnet-0123456789abcdef0",
        ),
        ({"network": {"vpc": {**_VPC, "subnet_ids": []}}}, "subnet_ids", "is empty", "[subnet-0123456789abcdef0]"),
        (
            {"network": {"vpc": _VPC, "security_groups": ["default"]}},
            "security_groups[0]",
            "not the ID of a security group",
            "sg-0123456789abcdef0",
        ),
        (
            {"scaling": {"max_capacity": 2, "on_schedule": {"Day": {"schedule": "rate(1 day)"}}}},
            "scaling.on_schedule.Day",
            "this schedule has no capacity, and changes nothing",
            "also min_capacity: ..., max_capacity: ..., or both",
        ),
        (
            {"scaling": {"max_capacity": 2, "on_metric": {"Busy": {"metric": "gpu", "target": 3}}}},
            "on_metric.Busy.metric",
            "there is no metric 'gpu'",
            "did you mean gpu_utilization",
        ),
        ({"jobs": {"timeout": "0s"}}, "jobs.timeout", "would fail before a job ends", "12h, for instance"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused_where_it_is(
    endpoint: dict[str, Any], place: str, reason: str, fix: str
) -> None:
    with pytest.raises(DeclarationError) as refused:
        _made({"techniques": [{"quantization": "awq"}], **endpoint} if "jobs" in endpoint else endpoint)
    found = refused.value.violations[-1]
    assert found.location.endswith(place)
    assert reason in found.reason
    assert fix in found.suggestion


def test_ids_of_ec2_may_be_short_long_or_parameters() -> None:
    ids = {"vpc_id": "${Vpc}", "subnet_ids": ["subnet-01234567", "subnet-0123456789abcdef0", "${Subnet}"]}
    groups = ["sg-01234567", "${Group}"]
    _made({"network": {"vpc": ids, "security_groups": groups}}, parameters={"Vpc": {}, "Subnet": {}, "Group": {}})


def test_ids_of_ec2_may_be_dynamic_references() -> None:
    ids = {"vpc_id": "{{resolve:ssm:/net/vpc}}", "subnet_ids": ["{{resolve:ssm:/net/subnet}}"]}
    _made({"network": {"vpc": ids, "security_groups": ["{{resolve:ssm:/net/group}}"]}})


def test_a_misspelled_attribute_is_answered_with_one_that_has_a_value() -> None:
    with pytest.raises(DeclarationError) as refused:
        _made({}, outputs={"Name": "${Chat.name}"})
    (found,) = refused.value.violations
    assert "endpoint_name" in found.suggestion
    assert "inference_component_name" not in found.suggestion


@pytest.mark.parametrize("text", ["$(Chat.endpoint_name)", "{Chat.endpoint_name}", "{{ Chat.endpoint_name }}"])
def test_a_reference_of_another_language_is_advised_on(text: str) -> None:
    stack = _made({}, outputs={"Name": text})
    (found,) = [str(entry.data) for entry in stack.node.metadata if "warning" in entry.type]
    assert "Did you mean ${Chat.endpoint_name}?" in found
    assert "[ack: constructs-optim:UnreadReference]" in found


@pytest.mark.parametrize("text", ["${Chat.endpoint_name}", "$${Chat.endpoint_name}", "(see Chat.py)", "{Other.name}"])
def test_references_and_other_text_have_no_advice(text: str) -> None:
    stack = _made({}, outputs={"Name": text})
    assert not [entry for entry in stack.node.metadata if "warning" in entry.type]
