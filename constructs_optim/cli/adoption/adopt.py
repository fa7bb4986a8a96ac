"""``constructs-optim adopt``: the declaration of an existing endpoint, and the files that import it."""

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
from ..output_files import writing
from ..presentation import OUTPUT_PANEL, JsonOption, print_json, say, working
from .adopter import Adopter, Adoption, AdoptionError

_APP, _MAPPING, _CDK = "app.py", "import.json", "cdk.json"
_SYNTHESIS_SECONDS = 300


def adopt_command(
    endpoint: Annotated[str, typer.Argument(help="Name of the endpoint.")],
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Directory to write to. Default: the endpoint's name.", rich_help_panel=OUTPUT_PANEL
        ),
    ] = None,
    stack_name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the stack. Default: the endpoint's, in camel case.")
    ] = None,
    model_version: Annotated[
        str | None,
        typer.Option(metavar="COMMIT", help="Commit of a model that the container downloads from Hugging Face."),
    ] = None,
    region: Region = None,
    profile: Profile = None,
    as_json: JsonOption = False,
) -> None:
    """Declare an existing endpoint, for `cdk import` to import it.

    Writes an app and a resource mapping. Changes nothing in the account. Exits with status 2 and writes no file if
    the endpoint cannot be declared.

    Examples:
        constructs-optim adopt chat-prod --output chat
    """
    folder = output or Path(endpoint)
    if existing := [name for name in (_APP, _MAPPING, _CDK) if (folder / name).exists()]:
        raise failed(f"{folder} already contains {' and '.join(existing)}. Choose another directory with --output.")
    account = Account(profile, region)
    adopter = Adopter(
        account.sagemaker(), account.client("application-autoscaling"), account.client("ec2"), revision=model_version
    )
    try:
        with working(f"Describing {endpoint}"):
            adoption = adopter.adopt(endpoint, stack_name=stack_name)
    except AdoptionError as error:
        raise failed(str(error)) from None
    with tempfile.TemporaryDirectory() as scratch:
        with working("Synthesizing the declaration"):
            template = _synthesized(adoption, Path(scratch))
        logical_ids = _logical_ids(adoption, template)
        _check_importable(account.client("cloudformation"), template, list(logical_ids.values()))
        mapping = {logical_ids[path]: identifier for path, identifier in adoption.identifiers.items()}
        (Path(scratch) / _MAPPING).write_text(json.dumps(mapping, indent=2) + "\n", encoding="utf-8")
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            for name in (_APP, _MAPPING, _CDK):
                shutil.copyfile(Path(scratch) / name, folder / name)
    if as_json:
        files = [str(folder / name) for name in (_APP, _MAPPING, _CDK)]
        print_json({"files": files, "imports": mapping, "changes": adoption.changes})
        return
    for line in _report(adoption, template, mapping, folder):
        say(line)


def _synthesized(adoption: Adoption, folder: Path) -> dict[str, Any]:
    """Return the declaration's template; synthesis proves that the declaration is valid."""
    (folder / _APP).write_text(adoption.source, encoding="utf-8")
    (folder / _CDK).write_text(json.dumps({"app": f"python {_APP}"}, indent=2) + "\n", encoding="utf-8")
    # The CDK CLI sets it as well. The paths identify the logical IDs.
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
        raise failed(f"The declaration does not synthesize, so no file was written: {_message(process.stderr)}")
    (template,) = (folder / "cdk.out").glob("*.template.json")
    return json.loads(template.read_text(encoding="utf-8"))


def _message(traceback: str) -> str:
    """Return the message of a traceback's exception, which may have several lines."""
    *_, message = re.split(r"^[A-Za-z_][\w.]*: ", traceback.strip(), flags=re.MULTILINE)
    return message


def _logical_ids(adoption: Adoption, template: Mapping[str, Any]) -> dict[str, str]:
    """Return the logical IDs of the imported resources, by construct path."""
    by_path = {
        resource.get("Metadata", {}).get("aws:cdk:path"): logical_id
        for logical_id, resource in template["Resources"].items()
    }
    return {path: by_path[path] for path in adoption.identifiers}


def _check_importable(cloudformation: Any, template: Mapping[str, Any], logical_ids: list[str]) -> None:
    """End the command if CloudFormation cannot import a type (GetTemplateSummary, ResourceIdentifierSummaries)."""
    resources = {
        logical_id: {"Type": template["Resources"][logical_id]["Type"], "Properties": {}} for logical_id in logical_ids
    }
    summary = cloudformation.get_template_summary(TemplateBody=json.dumps({"Resources": resources}))
    importable = {each["ResourceType"] for each in summary.get("ResourceIdentifierSummaries", [])}
    if missing := sorted({resource["Type"] for resource in resources.values()} - importable):
        raise failed(
            f"CloudFormation does not import {' and '.join(missing)} in this Region (GetTemplateSummary), so no file "
            "was written. Refer to the endpoint with OptimizedEndpoint.from_endpoint_name(...), or deploy another "
            "endpoint and move the callers."
        )


def _report(adoption: Adoption, template: Mapping[str, Any], mapping: Mapping[str, Any], folder: Path) -> Iterator[str]:
    yield f"{folder / _APP} declares the endpoint. {folder / _MAPPING} lists the resources to import:"
    for path, identifier in adoption.identifiers.items():
        yield f"  {adoption.types[path]}  {' '.join(identifier.values())}"
    yield "The import changes nothing. The next deployment adds these resources, and changes none of those above:"
    added = Counter(
        resource["Type"]
        for logical_id, resource in template["Resources"].items()
        if logical_id not in mapping and resource["Type"] != "AWS::CDK::Metadata"
    )
    for type_name, count in sorted(added.items()):
        yield f"  {type_name}  {count}"
    yield (
        "When you remove existing_configuration= (and existing_model=), the next deployment updates the endpoint by "
        "its update policy:"
    )
    for change in adoption.changes or [
        "The declared model and configuration replace the existing ones, with the same image and environment."
    ]:
        yield f"  {change}"
    yield "Next:"
    yield f"  cd {folder}"
    yield f"  cdk import --resource-mapping {_MAPPING}"
    yield "  cdk diff"
    yield "  cdk deploy"
