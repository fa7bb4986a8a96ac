"""The private names of ministack that the modules beside this one replace or add to, each with the reason.

ministack does not promise to keep them. So the local cloud starts with the release alone that they were read in, and
with the very functions: :func:`check_ministack` compares the source of each with the digest it has here. To move to
another release, read what changed in the functions that the check names, and write the new digests down.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

TESTED_VERSION = "1.5.33"
"""The release of ministack that every name below was read in."""


class UntestedMinistack(RuntimeError):
    """Another ministack than the one whose private names the local cloud was written against."""


@dataclass(frozen=True)
class Patch:
    """A function of ministack that is replaced.

    Attributes:
        digest: the first 12 digits of the SHA-256 of its source.
        reason: what ministack does otherwise than AWS, or what the local cloud has to know.
    """

    digest: str
    reason: str


PATCHES: Mapping[str, Patch] = {
    "core.iam_evaluator.evaluate_resource_policy": Patch(
        "e8cb17da8ae5",
        "Variables in a resource's policy are filled in; a caller of another account is not the root of its account.",
    ),
    "core.iam_evaluator.combine_resource_policy": Patch(
        "6bb090b9e3dd",
        "Tells a denial by a resource's policy from one by the caller's own policies.",
    ),
    "core.iam_evaluator.evaluate": Patch(
        "71e50e8a8d48",
        "Each evaluation of policies is recorded.",
    ),
    "core.iam_evaluator.enforce": Patch(
        "26e20a7859d3",
        "Each decision is recorded with the statement that made it.",
    ),
    "core.iam_evaluator.pin_request_origin": Patch(
        "6bbadae61130",
        "Loopback counts as TLS, which bucket policies ask for.",
    ),
    "core.iam_actions.access_denied_response": Patch(
        "93704ca254f7",
        "S3 gives no reason to those of another account.",
    ),
    "core.iam_actions.extract_resource_arn": Patch(
        "4f721b00d35d",
        "Calls about alarms are held to the alarms that they name; a repository is of the registry that is named, "
        "which may be AWS's; a simulation is of a principal.",
    ),
    "core.iam_actions.request_tag_context": Patch(
        "0ccb59060f0b",
        "Condition keys: the namespace of metric data, and the tags of a role that is to be assumed.",
    ),
    "core.lambda_runtime.execution_credentials": Patch(
        "958ceba5b7f8",
        "A function's role has to trust Lambda, and its session's secret is not to be guessed.",
    ),
    "core.responses.now_iso": Patch(
        "1f6b7db9f074",
        "Every stack event has a time of its own: clients sort by it.",
    ),
    "services.s3.bucket_policy_for_arn": Patch(
        "75d9104d07cb",
        "Finds the policy of a bucket of another account.",
    ),
    "services.kms._resolve_key": Patch(
        "2c0f859509c0",
        'A key of another account is found by its ARN (AWS KMS API reference, DescribeKey, "Cross-account use").',
    ),
    "services.kms.key_policy_for_arn": Patch(
        "baeefa7c6488",
        "Finds the policy of a key of another account.",
    ),
    "services.s3._put_bucket_policy": Patch(
        "4576523c7911",
        "Refuses a bucket policy of more than 20 KB.",
    ),
    "services.lambda_svc._execute_function_with_config_scope": Patch(
        "107edbd18b14",
        "CloudFormation invokes the function of a custom resource asynchronously, with retries.",
    ),
    "services.lambda_svc._execute_function": Patch(
        "da9866f365b8",
        "Counts a stack's running functions: what follows a response waits for the function's end.",
    ),
    "services.lambda_svc._presigned_code_url": Patch(
        "84573ca27ff7",
        "The link to a function's code is signed, as every request has to be.",
    ),
    "services.lambda_svc._layer_content_url": Patch(
        "4a98d637b506",
        "The link to a layer's code is signed, as every request has to be.",
    ),
    "services.eventbridge._invoke_target": Patch(
        "56075a7de85a",
        "The role of a rule's target has to trust EventBridge, and may start what the target is.",
    ),
    "services.cloudformation.custom_resource.invoke_custom_resource": Patch(
        "640560d12c3a",
        "Waits for the end of the function, and records creations that failed.",
    ),
    "services.cloudformation.custom_resource.deliver_response": Patch(
        "083b967778b4",
        "Records the physical id that a failed creation responded with.",
    ),
    "services.cloudformation.custom_resource._response_url": Patch(
        "e774d9d594ba",
        "A response URL is pre-signed: it has a date. The creation that waits for it can be cancelled.",
    ),
    "services.cloudformation.stacks._roll_back_operation": Patch(
        "7408fa7576d8",
        "A rollback deletes custom resources whose creation failed, and keeps what a failed deletion needs.",
    ),
    "services.cloudformation.stacks._delete_stack_async": Patch(
        "617ce2d66a8d",
        "The deletion of a stack cancels its creation, and keeps what a resource that could not be deleted depends on.",
    ),
    "services.cloudformation.stacks._deploy_stack_async": Patch(
        "770fbcffa0ef",
        "The deletion of a stack follows the end of its deployment.",
    ),
    "services.cloudformation.stacks._provision_keeping_seed": Patch(
        "85c2ada48d8d",
        "A deployment whose stack is deleted creates nothing more.",
    ),
    "services.cloudformation.stacks._runs_on_worker_thread": Patch(
        "dfb97ed924da",
        "Resources of SageMaker take time: waiting for them must not hold the event loop up.",
    ),
    "services.cloudformation.stacks._sends_back_failed_update": Patch(
        "21d2af1fa496",
        "A resource whose update failed after it began is sent back.",
    ),
    "services.cloudformation.stacks._diff_resources": Patch(
        "489f812e1c83",
        "Refuses a change set that gives a logical id another resource type; what drifted may be a change of its own.",
    ),
    "services.cloudformation.handlers._stack_has_no_updates": Patch(
        "57496024a55c",
        "Refuses an update that gives a logical id another resource type.",
    ),
    "services.cloudformation.engine.validate_template_support": Patch(
        "d064bc7372c2",
        "Refuses resource types that CloudFormation does not have in the stack's region.",
    ),
    "services.cloudformation.changesets._import_owner": Patch(
        "03443b6a5483",
        "A resource of an added type that is imported belongs to no other stack.",
    ),
    "services.cloudformation.changesets._import_change": Patch(
        "4bdd255fff26",
        "The physical id of an added type is not the last member of its identifier.",
    ),
    "services.cloudformation.provisioners._delete_resource": Patch(
        "7826b054e390",
        "Keeps what a resource that could not be deleted depends on.",
    ),
    "services.cloudformation.provisioners._lambda_delete": Patch(
        "f6babef7cccf",
        "The process of a deleted function ends, once it does not run any more.",
    ),
    "services.cloudformation.provisioners._cw_metric_alarm_record": Patch(
        "dda9f52b8669",
        "An alarm of a template may be about several metrics and expressions.",
    ),
    "services.cloudwatch._put_metric_alarm": Patch(
        "d25e798cda7c",
        "An alarm may be about several metrics and expressions.",
    ),
    "services.cloudwatch._evaluate_alarm": Patch(
        "cd059e91ab69",
        "An alarm is about a metric with its dimensions, M out of N, with its treatment of missing data.",
    ),
    "services.cloudwatch._record_history": Patch(
        "286ad2f5c1d3",
        "Services ask whether an alarm was in ALARM between two moments.",
    ),
    "services.cloudwatch._dispatch_alarm_actions": Patch(
        "d41eee474c36",
        "An alarm runs scaling policies.",
    ),
    "services.stepfunctions._add_event": Patch(
        "03bc3d016311",
        "The history of an execution has at most 25,000 events.",
    ),
    "services.stepfunctions._run_execution": Patch(
        "b4dd9fb10412",
        "The functions of an execution are invoked under the role of its state machine.",
    ),
    "services.stepfunctions._call_lambda": Patch(
        "e1ec0ee322c5",
        "A state machine's role has to be trusted and allowed to invoke the function.",
    ),
    "services.scheduler._create_schedule": Patch(
        "6ee8a75e2e79",
        "Refuses an invalid schedule expression or time zone.",
    ),
    "services.scheduler._update_schedule": Patch(
        "5000ed4382da",
        "Refuses an invalid schedule expression or time zone.",
    ),
    "services.scheduler.start_scheduler": Patch(
        "e5a4ee5f8299",
        "Schedules run at the local cloud's pace, under their roles, with time zones, start and end.",
    ),
    "app._handle_post_body_shortcuts": Patch(
        "a5693fc99c07",
        "Refuses responses of custom resources and signals of more than 4,096 bytes.",
    ),
}
"""The functions that are replaced, by where ministack defines them."""

TABLES: Mapping[str, str] = {
    "app.SERVICE_HANDLERS": (
        "SageMaker, Application Auto Scaling, Service Quotas and the Price List are added; S3 is checked for more "
        "permissions; ECR has AWS's registries."
    ),
    "core.router.SERVICE_PATTERNS": ("The added services are found by their targets."),
    "services.cloudformation.provisioners._RESOURCE_HANDLERS": (
        "Resource types are added; properties that ministack drops are kept; policies have their limits."
    ),
    "services.cloudformation.provisioners._REPLACING_PROPERTIES": ("What replaces a resource of an added type."),
    "services.cloudformation.changesets._IMPORT_LOOKUPS": ("Resources of added types are imported."),
    "services.cloudformation.drift._DRIFT_READERS": ("Drift of added types is found."),
    "services.cloudformation.handlers._ACTION_HANDLERS": (
        "An update that is refused is a ValidationError; GetTemplateSummary tells what resources are imported by; "
        "change sets may revert drift."
    ),
    "services.iam._IAM_HANDLERS": ("Refuses policies that are too large or too many."),
}
"""The tables of ministack that get entries of the local cloud, each with the reason."""


@functools.cache
def check_ministack() -> None:
    """Refuse the installed ministack unless it is the one that this package was written against.

    Raises:
        UntestedMinistack: with what differs, and what to install.
    """
    spec = importlib.util.find_spec("ministack")
    refuse_untested(version("ministack"), Path(str(spec.origin if spec else "")).parent)


def refuse_untested(installed: str, folder: Path) -> None:
    """Refuse a ministack of another version, or of the same version with other functions.

    Args:
        installed: its version.
        folder: its package.

    Raises:
        UntestedMinistack: with what differs, and what to install.
    """
    fix = f'pip install --force-reinstall "ministack=={TESTED_VERSION}"'
    if installed != TESTED_VERSION:
        raise UntestedMinistack(
            f"ministack {installed} is installed, and the local cloud replaces private names of {TESTED_VERSION}: {fix}"
        )
    changed = [name for name, patch in PATCHES.items() if _digest(folder, name) != patch.digest]
    changed += [name for name in TABLES if not _defines_table(folder, name)]
    if changed:
        raise UntestedMinistack(
            f"the installed ministack {installed} is not the published one: the local cloud replaces "
            f"{', '.join(changed)}, and their source is another one: {fix}"
        )


def replace(name: str, replacement: Any, *holders: ModuleType) -> None:
    """Put a replacement in the place of a function of ministack.

    Args:
        name: where ministack defines the function, an entry of :data:`PATCHES`.
        replacement: the function instead.
        holders: the modules that shall have it, which import the function by its name. Default: the one that defines
            it.
    """
    if name not in PATCHES:
        raise LookupError(f"{name} is not in the table of patches")
    module, _, function = name.rpartition(".")
    for holder in holders or (importlib.import_module(f"ministack.{module}"),):
        setattr(holder, function, replacement)


def table(name: str) -> dict[str, Any]:
    """A table of ministack that may be changed, an entry of :data:`TABLES`."""
    if name not in TABLES:
        raise LookupError(f"{name} is not in the table of tables")
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(f"ministack.{module}"), attribute)


def _digest(folder: Path, name: str) -> str:
    """The digest of a function's source, which is read rather than imported; empty where there is none."""
    module, _, function = name.rpartition(".")
    source = re.search(
        rf"^(?:async )?def {re.escape(function)}\(.*?(?=^[^\s)#]|\Z)", _source(folder, module), re.MULTILINE | re.DOTALL
    )
    return hashlib.sha256(source[0].rstrip().encode()).hexdigest()[:12] if source is not None else ""


def _defines_table(folder: Path, name: str) -> bool:
    module, _, attribute = name.rpartition(".")
    return re.search(rf"^{re.escape(attribute)}\b", _source(folder, module), re.MULTILINE) is not None


def _source(folder: Path, module: str) -> str:
    path = folder.joinpath(*module.split("."))
    files = [file for file in (path.with_suffix(".py"), path / "__init__.py") if file.exists()]
    return files[0].read_text(encoding="utf-8") if files else ""
