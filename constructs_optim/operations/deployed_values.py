"""The values of a deployed template: pseudo parameters, parameters' defaults, and resources' names and ARNs."""

from __future__ import annotations

from collections.abc import Callable

from botocore.session import get_session

from constructs_optim.templates.references import Reference
from constructs_optim.templates.resolution import Resolver
from constructs_optim.templates.template import Template

# The ARNs of resources whose physical IDs are names.
_ARNS = {
    "AWS::IAM::Role": "iam::{account}:role/{name}",
    "AWS::KMS::Key": "kms:{region}:{account}:key/{name}",
    "AWS::Lambda::Function": "lambda:{region}:{account}:function:{name}",
    "AWS::Logs::LogGroup": "logs:{region}:{account}:log-group:{name}:*",
    "AWS::S3::Bucket": "s3:::{name}",
}


def resolver_of(
    template: Template,
    *,
    stack_name: str,
    account: str,
    region: str,
    physical_id: Callable[[str], str | None],
    exported: Callable[[str], str | None],
) -> Resolver:
    """Return a resolver for the template of a stack, whose resources ``physical_id`` finds by logical ID."""
    partition = get_session().get_partition_for_region(region)
    pseudo = {
        "AWS::AccountId": account,
        "AWS::Partition": partition,
        "AWS::Region": region,
        "AWS::StackName": stack_name,
        "AWS::URLSuffix": "amazonaws.com.cn" if partition == "aws-cn" else "amazonaws.com",
    }

    def look_up(reference: Reference) -> str | None:
        if reference.target in pseudo:
            return pseudo[reference.target]
        parameter = template.section("Parameters").get(reference.target)
        if parameter is not None:
            return parameter.get("Default")
        resource = template.resources.get(reference.target)
        form = _ARNS.get(resource.type) if resource is not None else None
        if resource is None or (reference.attribute is not None and (reference.attribute != "Arn" or form is None)):
            return None
        name = physical_id(reference.target)
        if name is None or reference.attribute is None or form is None:
            return name
        return f"arn:{partition}:{form.format(account=account, region=region, name=name)}"

    return Resolver(template.content, look_up, exported)
