"""What a topic of the local cloud is told, seen by a queue that subscribes to it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from constructs_optim_local.cloud import LocalCloud


@dataclass(frozen=True)
class Notifications:
    """A queue that subscribes to a topic."""

    cloud: LocalCloud
    queue_url: str

    @classmethod
    def of(cls, cloud: LocalCloud, topic_arn: str) -> Notifications:
        sqs = cloud.client("sqs")
        queue_url = sqs.create_queue(QueueName=f"notifications-{topic_arn.rpartition(':')[2]}")["QueueUrl"]
        queue_arn = sqs.get_queue_attributes(QueueUrl=queue_url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        allow = {
            "Effect": "Allow",
            "Principal": {"Service": "sns.amazonaws.com"},
            "Action": "sqs:SendMessage",
            "Resource": queue_arn,
        }
        policy = {"Version": "2012-10-17", "Statement": [allow]}
        sqs.set_queue_attributes(QueueUrl=queue_url, Attributes={"Policy": json.dumps(policy)})
        cloud.client("sns").subscribe(TopicArn=topic_arn, Protocol="sqs", Endpoint=queue_arn)
        return cls(cloud, queue_url)

    def received(self) -> list[dict[str, Any]]:
        """The notifications that came since the last call."""
        received: list[dict[str, Any]] = []
        sqs = self.cloud.client("sqs")
        while messages := sqs.receive_message(QueueUrl=self.queue_url, MaxNumberOfMessages=10).get("Messages"):
            for message in messages:
                received.append(json.loads(message["Body"]))
                sqs.delete_message(QueueUrl=self.queue_url, ReceiptHandle=message["ReceiptHandle"])
        return received
