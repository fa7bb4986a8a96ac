"""What ministack's CloudFormation drops of the resources that it makes, kept: a role's boundary, a bucket's key.

Like :mod:`.ministack_bridge`, this uses names that ministack does not promise to keep.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from typing import Any

Properties = dict[str, Any]
Made = tuple[str, Any]


def keep_properties() -> None:
    """Have CloudFormation apply them, once, before the first request is served."""
    _after("AWS::IAM::Role", _bound)
    _after("AWS::S3::Bucket", _encrypt)


def _after(type_name: str, apply: Callable[[str, Properties], None]) -> None:
    from ministack.services.cloudformation import provisioners

    handlers = provisioners._RESOURCE_HANDLERS[type_name]
    create, update = handlers["create"], handlers["update"]

    def created(logical_id: str, properties: Properties, stack_name: str) -> Made:
        made = create(logical_id, properties, stack_name)
        apply(made[0], properties)
        return made

    def updated(physical_id: str, old: Properties, new: Properties, *rest: Any, **named: Any) -> Made:
        made = update(physical_id, old, new, *rest, **named)
        apply(made[0], new)
        return made

    handlers |= {"create": created, "update": updated}


def _bound(role: str, properties: Properties) -> None:
    from ministack.services import iam

    iam._roles[role]["PermissionsBoundary"] = properties.get("PermissionsBoundary")


def _encrypt(bucket: str, properties: Properties) -> None:
    from ministack.services import s3

    rules = properties.get("BucketEncryption", {}).get("ServerSideEncryptionConfiguration", [])
    # ministack has no key of AWS's own, aws/s3, for buckets that name none.
    if not any("KMSMasterKeyID" in rule.get("ServerSideEncryptionByDefault", {}) for rule in rules):
        s3._delete_bucket_encryption(bucket)
        return
    status, _, answer = s3._put_bucket_encryption(bucket, _encryption(rules))
    if status != 200:
        raise ValueError(f"AWS::S3::Bucket Properties.BucketEncryption: {answer.decode()}")


def _encryption(rules: list[Properties]) -> bytes:
    """The body of PutBucketEncryption, which names the default otherwise than templates do."""
    root = ET.Element("ServerSideEncryptionConfiguration")
    for rule in rules:
        written = ET.SubElement(root, "Rule")
        by_default = ET.SubElement(written, "ApplyServerSideEncryptionByDefault")
        for name, value in rule.get("ServerSideEncryptionByDefault", {}).items():
            ET.SubElement(by_default, name).text = str(value)
        ET.SubElement(written, "BucketKeyEnabled").text = str(rule.get("BucketKeyEnabled", False)).lower()
    return ET.tostring(root)
