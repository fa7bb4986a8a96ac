"""examples/pipeline.py: the commands of its synth step, run in a copy of the repository that it describes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from ..support.construct_stacks import resource

CHECKOUT = Path(__file__).parent.parent.parent
EXAMPLE = CHECKOUT / "examples" / "pipeline.py"
CDK = CHECKOUT / "node_modules" / ".bin" / "cdk"
PROGRAMS = Path(sys.executable).parent
# `npm ci` asks no registry for a package of the repository itself.
CLI = "tools/aws-cdk"
# Packages come from this environment instead of a registry; the rest is as on a build machine.
BUILD_ENVIRONMENT = {
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_REGION": "us-west-2",
    "CDK_DISABLE_CLI_TELEMETRY": "true",
    "CDK_DISABLE_VERSION_CHECK": "true",
    "CI": "true",
    "PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INDEX": "1",
    "npm_config_offline": "true",
    "npm_config_update_notifier": "false",
}


def test_the_synth_step_produces_the_stacks_that_the_pipeline_deploys(tmp_path: Path) -> None:
    build_spec = synth_build_spec(synthesized(tmp_path / "synthesized"))
    repository = tmp_path / "chat"
    write_repository(repository)
    commands = [command for phase in build_spec["phases"].values() for command in phase["commands"]]
    assert "npx cdk synth" in commands
    # CodeBuild runs the commands of a build spec of version 0.2 in one shell.
    built = subprocess.run(
        ["sh", "-e", "-c", "\n".join(commands)],
        cwd=repository,
        env={name: value for name, value in os.environ.items() if not name.startswith("AWS_")} | BUILD_ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    assert built.returncode == 0, built.stdout
    output = repository / build_spec["artifacts"]["base-directory"]
    assert stacks_in(output) == {"Artifacts", "Pipeline", "Staging-Chat", "Production-Chat"}
    templates = deployed_templates(json.loads((output / "Pipeline.template.json").read_text()))
    assert set(templates) == {"Staging-Chat", "Production-Chat"}
    for path in templates.values():
        assert resource(json.loads((output / path).read_text()), "AWS::SageMaker::Endpoint")


def synthesized(output: Path) -> dict[str, Any]:
    """The template of the example's pipeline."""
    subprocess.run([sys.executable, EXAMPLE], env={**os.environ, "CDK_OUTDIR": str(output)}, check=True, timeout=120)
    return json.loads((output / "Pipeline.template.json").read_text())


def synth_build_spec(template: dict[str, Any]) -> dict[str, Any]:
    """The build spec of the project that the pipeline's synth step starts."""
    (project,) = (action["Configuration"]["ProjectName"]["Ref"] for action in actions(template, "Build"))
    return json.loads(template["Resources"][project]["Properties"]["Source"]["BuildSpec"])


def stacks_in(assembly: Path) -> set[str]:
    """The names of the stacks of a cloud assembly, those of its stages included."""
    manifests = [json.loads(path.read_text()) for path in assembly.rglob("manifest.json")]
    artifacts = [item for manifest in manifests for item in manifest["artifacts"].items()]
    return {
        artifact["properties"].get("stackName", name)
        for name, artifact in artifacts
        if artifact["type"] == "aws:cloudformation:stack"
    }


def deployed_templates(template: dict[str, Any]) -> dict[str, str]:
    """The templates that the pipeline deploys, as paths in the synth step's output, by the names of their stacks."""
    deploying = [action for stage in ("Staging", "Production") for action in actions(template, stage)]
    configurations = [action["Configuration"] for action in deploying]
    return {
        configuration["StackName"]: configuration["TemplatePath"].partition("::")[2]
        for configuration in configurations
        if "TemplatePath" in configuration
    }


def actions(template: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """The actions of a stage of the pipeline."""
    stages = resource(template, "AWS::CodePipeline::Pipeline")["Stages"]
    return next(stage["Actions"] for stage in stages if stage["Name"] == name)


def write_repository(folder: Path) -> None:
    """Lay out the repository that the example describes, with the CDK CLI of this checkout."""
    settings = json.loads((CHECKOUT / "cdk.json").read_text())
    cli = {"name": "aws-cdk", "version": "2.0.0", "bin": {"cdk": "cdk"}}
    package = {"name": "chat", "private": True, "devDependencies": {"aws-cdk": f"file:{CLI}"}}
    lock = {
        "name": "chat",
        "lockfileVersion": 3,
        "requires": True,
        "packages": {
            "": {"name": "chat", "devDependencies": package["devDependencies"]},
            "node_modules/aws-cdk": {"resolved": CLI, "link": True},
            CLI: {**cli, "dev": True},
        },
    }
    files = {
        "app.py": EXAMPLE.read_text(),
        "cdk.json": json.dumps({**settings, "app": "python app.py"}),
        "requirements.txt": "aws-cdk-lib\nconstructs-optim\n",
        "package.json": json.dumps(package),
        "package-lock.json": json.dumps(lock),
        f"{CLI}/package.json": json.dumps(cli),
        f"{CLI}/cdk": f'#!/usr/bin/env node\nrequire("{CDK.resolve()}")\n',
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / CLI / "cdk").chmod(0o755)
