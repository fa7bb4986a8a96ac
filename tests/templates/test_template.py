"""The resources of a template."""

from __future__ import annotations

from constructs_optim.templates.template import Resource, Template

TEMPLATE = Template(
    {
        "Resources": {
            "Queue": {"Type": "AWS::SQS::Queue", "DeletionPolicy": "Retain"},
            "Topic": {
                "Type": "AWS::SNS::Topic",
                "Properties": {"TopicName": {"Fn::Sub": "${Queue.QueueName}-${AWS::Region}"}},
                "Metadata": {"aws:cdk:path": "Chat/Alarms/Topic/Resource", "constructs-optim": {"Recipe": "none"}},
                "DependsOn": "Queue",
            },
            "Broken": "no object",
        }
    }
)


def test_resources_are_listed_by_type() -> None:
    assert list(TEMPLATE.resources) == ["Queue", "Topic"]
    assert [resource.logical_id for resource in TEMPLATE.of_type("AWS::SNS::Topic")] == ["Topic"]
    assert TEMPLATE.section("Parameters") == {}


def test_references_between_resources_are_followed() -> None:
    queue, topic = TEMPLATE.resources.values()
    assert topic.references == {"Queue", "AWS::Region"}
    assert topic.depends_on == ("Queue",)
    assert TEMPLATE.referred(topic.properties, "AWS::SQS::Queue") == [queue]
    assert TEMPLATE.referred(topic.properties, "AWS::SNS::Topic") == []


def test_a_resource_has_its_path_metadata_and_policies() -> None:
    queue, topic = TEMPLATE.resources.values()
    assert queue.is_retained
    assert not topic.is_retained
    assert topic.label == "Alarms/Topic"
    assert Resource("Llama70B9E83F470", {}).label == "Llama70B"
    assert topic.recipe == {"Recipe": "none"}
    assert topic.get("TopicName", "Fn::Sub") == "${Queue.QueueName}-${AWS::Region}"
    assert topic.get("TopicName", "Missing", "Deeper") is None
