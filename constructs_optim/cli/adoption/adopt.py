"""``constructs-optim adopt``: the declaration of an endpoint that exists, and what imports it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from ..aws import Account, Profile, Region, failed
from ..presentation import say
from .adopter import Adopter, Adoption, AdoptionError

_APP, _MAPPING, _CDK = "app.py", "import.json", "cdk.json"
_SYNTHESIS_SECONDS = 300


def adopt_command(
    endpoint: Annotated[str, typer.Argument(help="The endpoint's name.")],
    output: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The folder that is written to; the endpoint's name by default.")
    ] = None,
    stack: Annotated[
        str | None, typer.Option(metavar="NAME", help="The stack's name; by default made from the endpoint's.")
    ] = None,
    revision: Annotated[
        str | None, typer.Option(metavar="COMMIT", help="The commit of a model that is downloaded from Hugging Face.")
    ] = None,
    region: Region = None,
    profile: Profile = None,
) -> None:
    """Write the declaration of an existing endpoint, and the mapping that `cdk import` imports it with.

    Changes nothing in the account. Exit status 2, and no file, for an endpoint that cannot be declared.
    """
    folder = output or Path(endpoint)
    if existing := [name for name in (_APP, _MAPPING, _CDK) if (folder / name).exists()]:
        raise failed(f"{folder} has {' and '.join(existing)} already: choose another folder with --output.")
    account = Account(profile, region)
    adopter = Adopter(
        account.sagemaker(), account.client("application-autoscaling"), account.client("ec2"), revision=revision
    )
    try:
        adoption = adopter.adopt(endpoint, stack_name=stack)
    except AdoptionError as error:
        raise failed(str(error)) from None
    with tempfile.TemporaryDirectory() as scratch:
        template = _synthesized(adoption, Path(scratch))
        logical_ids = _logical_ids(adoption, template)
        _check_importable(account.client("cloudformation"), template, list(logical_ids.values()))
        mapping = {logical_ids[path]: identifier for path, identifier in adoption.identifiers.items()}
        (Path(scratch) / _MAPPING).write_text(json.dumps(mapping, indent=2) + "\n", encoding="utf-8")
        folder.mkdir(parents=True, exist_ok=True)
        for name in (_APP, _MAPPING, _CDK):
            shutil.copyfile(Path(scratch) / name, folder / name)
    for line in _report(adoption, template, mapping, folder):
        say(line)


def _synthesized(adoption: Adoption, folder: Path) -> dict[str, Any]:
    """The template of the declaration, which shows that it is a valid one."""
    (folder / _APP).write_text(adoption.source, encoding="utf-8")
    (folder / _CDK).write_text(json.dumps({"app": f"python {_APP}"}, indent=2) + "\n", encoding="utf-8")
    # The CDK CLI sets it as well; logical ids are found by the paths.
    context = json.dumps({"aws:cdk:enable-path-metadata": True})
    environment = {**os.environ, "CDK_OUTDIR": str(folder / "cdk.out"), "CDK_CONTEXT_JSON": context}
    process = subprocess.run(
        [sys.executable, _APP],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=_SYNTHESIS_SECONDS,
        check=False,
    )
    if process.returncode != 0:
        raise failed(f"The declaration does not synthesize, and nothing was written: {_message(process.stderr)}")
    (template,) = (folder / "cdk.out").glob("*.template.json")
    return json.loads(template.read_text(encoding="utf-8"))


def _message(traceback: str) -> str:
    """The message of the exception that a traceback ends in, which may have several lines."""
    *_, message = re.split(r"^[A-Za-z_][\w.]*: ", traceback.strip(), flags=re.MULTILINE)
    return message


def _logical_ids(adoption: Adoption, template: Mapping[str, Any]) -> dict[str, str]:
    """The logical ids of what is imported, by construct path."""
    by_path = {
        resource.get("Metadata", {}).get("aws:cdk:path"): logical_id
        for logical_id, resource in template["Resources"].items()
    }
    return {path: by_path[path] for path in adoption.identifiers}


def _check_importable(cloudformation: Any, template: Mapping[str, Any], logical_ids: list[str]) -> None:
    """Ask CloudFormation which of the types it imports (GetTemplateSummary, ResourceIdentifierSummaries)."""
    resources = {
        logical_id: {"Type": template["Resources"][logical_id]["Type"], "Properties": {}} for logical_id in logical_ids
    }
    summary = cloudformation.get_template_summary(TemplateBody=json.dumps({"Resources": resources}))
    importable = {each["ResourceType"] for each in summary.get("ResourceIdentifierSummaries", [])}
    if missing := sorted({resource["Type"] for resource in resources.values()} - importable):
        raise failed(
            f"CloudFormation does not import {' and '.join(missing)} in this region (GetTemplateSummary), and nothing "
            "was written. Refer to the endpoint with OptimizedEndpoint.from_endpoint_name(...), or deploy another one "
            "beside it and move its callers."
        )


def _report(adoption: Adoption, template: Mapping[str, Any], mapping: Mapping[str, Any], folder: Path) -> Iterator[str]:
    yield f"{folder / _APP} declares the endpoint, and {folder / _MAPPING} says what is imported:"
    for path, identifier in adoption.identifiers.items():
        yield f"  {adoption.types[path]}  {' '.join(identifier.values())}"
    yield "The import changes nothing. The deployment after it adds, and changes none of the above:"
    added = Counter(
        resource["Type"]
        for logical_id, resource in template["Resources"].items()
        if logical_id not in mapping and resource["Type"] != "AWS::CDK::Metadata"
    )
    for type_name, count in sorted(added.items()):
        yield f"  {type_name}  {count}"
    yield (
        "When existing_configuration= (and existing_model=) is removed, the next deployment moves the endpoint over as "
        "its update policy says:"
    )
    for change in adoption.changes or ["To the declared model and configuration, with the same image and environment."]:
        yield f"  {change}"
    yield "Next:"
    yield f"  cd {folder}"
    yield f"  cdk import --resource-mapping {_MAPPING}"
    yield "  cdk diff"
    yield "  cdk deploy"
