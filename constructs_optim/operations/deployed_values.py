"""The values of a template in its stack: parameters, pseudo parameters, and resources' names and ARNs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from botocore.session import get_session

from constructs_optim.templates.references import Reference
from constructs_optim.templates.resolution import Resolver
from constructs_optim.templates.template import Template

# The defaults of parameters with this type are names of others (CloudFormation user guide, "Parameters").
_NAMED_ELSEWHERE = "AWS::SSM::Parameter::Value<"
# The ARNs of resources whose physical IDs are names.
_ARNS = {
    "AWS::CloudWatch::Alarm": "cloudwatch:{region}:{account}:alarm:{name}",
    "AWS::CloudWatch::CompositeAlarm": "cloudwatch:{region}:{account}:alarm:{name}",
    "AWS::IAM::Role": "iam::{account}:role{path}{name}",
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
    parameters: Mapping[str, str] | None = None,
) -> Resolver:
    """Return a resolver for the template of a stack, whose resources ``physical_id`` finds by logical ID.

    ``parameters`` are the deployed values of its parameters. Default: those that a deployment has by default.
    """
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
        if parameter is not None and parameters is not None:
            return parameters.get(reference.target)
        if parameter is not None:
            return parameter.get("Default") if not str(parameter.get("Type")).startswith(_NAMED_ELSEWHERE) else None
        resource = template.resources.get(reference.target)
        form = _ARNS.get(resource.type) if resource is not None else None
        if resource is None or (reference.attribute is not None and (reference.attribute != "Arn" or form is None)):
            return None
        name = physical_id(reference.target)
        if name is None or reference.attribute is None or form is None:
            return name
        path = resource.get("Path") or "/"
        if not isinstance(path, str):
            return None
        return f"arn:{partition}:{form.format(account=account, region=region, name=name, path=path)}"

    return Resolver(template.content, look_up, exported)
