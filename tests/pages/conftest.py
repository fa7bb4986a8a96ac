from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from constructs_optim_local.cloud import LocalCloud
from constructs_optim_local.sagemaker.optimization.artifacts import safetensors
from tests.support.documents import CHECKOUT
from tests.support.made_once import folder_of_run
from tests.support.model_hub import HubModel, serving
from tests.support.terraform_providers import environment_of_providers

from .environments import made_by, of_a_fresh_machine

_HERE = str(Path(sys.executable).parent)


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A fresh machine's variables: Python, Node.js and npm are there, and nothing of the checkout is installed."""
    programs = tmp_path_factory.mktemp("programs")
    (programs / "python3").write_text(f'#!/bin/sh\nexec "{Path(sys.base_prefix, "bin", "python3")}" "$@"\n')
    (programs / "python3").chmod(0o755)
    for name in ("node", "npm", "npx"):
        (programs / name).symlink_to(CHECKOUT / ".venv" / "bin" / name)
    path = [each for each in os.environ["PATH"].split(":") if each != _HERE and "node_modules" not in each]
    return {
        **of_a_fresh_machine(os.environ),
        "PATH": ":".join([str(programs), *path]),
        "NO_COLOR": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        # What is imported is compiled then. (In PIP_NO_COMPILE, 1 would mean to compile.)
        "PIP_COMPILE": "0",
        "NPM_CONFIG_UPDATE_NOTIFIER": "false",
        # The reader answers the CDK CLI's question about permissions with yes: it asks only in a real terminal.
        "CDK_REQUIRE_APPROVAL": "never",
        "CDK_DISABLE_CLI_TELEMETRY": "true",
        "CDK_DISABLE_VERSION_CHECK": "1",
        # The CDK's own validation takes longer than synthesis. tests/constructs/test_examples.py has it validate the
        # README's app, and in make nightly all examples.
        "CDK_VALIDATION": os.environ["CDK_VALIDATION"],
    }


@pytest.fixture(scope="session")
def aws(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the AWS CLI, which a reader has."""
    lines = ("python3 -m venv .venv && source .venv/bin/activate", "pip install awscli")
    return made_by(lines, folder_of_run(tmp_path_factory) / "environments", environment) / ".venv" / "bin"


@pytest.fixture(scope="session")
def terraform(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The variables with which Terraform finds its providers."""
    if shutil.which("terraform") is None:
        pytest.skip("there is no terraform on the PATH")
    return environment_of_providers(tmp_path_factory.mktemp("terraform"))


@pytest.fixture(scope="session")
def hub() -> Iterator[str]:
    """Stands for Hugging Face: the models whose commits the pages look up, with small files."""
    config = json.dumps({"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "torch_dtype": "bfloat16"})
    files = {"config.json": config.encode(), "model.safetensors": safetensors({"model.embed_tokens.weight": [16, 8]})}
    names = ("Qwen/Qwen3-32B", "Qwen/Qwen3-32B-FP8", "RedHatAI/Qwen3-32B-speculator.eagle3")
    models = {name: HubModel("c" * 40, files) for name in names}
    # The README's app pins this commit; its preflight asks the hub for it.
    pinned = HubModel("707f0a3b8a3c7ad586ed01e27eafbad8a27dd0f7", files)
    with serving({**models, "google/gemma-4-12B-it": pinned}) as running:
        yield running.url


@pytest.fixture(scope="session")
def cloud() -> Iterator[LocalCloud]:
    """Stands for the accounts of readers whose page does not start a local cloud."""
    with LocalCloud(simulate_training=True, endpoint_seconds=0.2) as running:
        yield running
