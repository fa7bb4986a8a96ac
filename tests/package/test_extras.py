"""The extras, each installed with its dependencies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from .environments import UV, Environment, interpreter, run


def test_the_command_works_with_the_cli_extra_and_names_missing_extras(
    wheel: Path, environment: Callable[[str], Environment], tmp_path: Path
) -> None:
    clean = environment("3.12")
    clean.install(f"{wheel}[cli]")
    planned = clean.run(
        "constructs-optim", "plan", "--model", "meta-textgeneration-llama-3-70b-instruct", "--model-version", "2.25.0",
        "--accept-eula", "--instance-type", "ml.g5.12xlarge", "--technique", "quantization=awq", cwd=tmp_path,
    )  # fmt: skip
    assert "AWQ INT4" in planned.stdout
    for command, extra in (
        (["local", "start"], "local"),
        (["evaluate", "chat"], "evaluate"),
        (["mcp"], "mcp"),
        (["medusa", "verify", "--heads", ".", "--data", "."], "medusa"),
    ):
        refused = clean.run("constructs-optim", *command, cwd=tmp_path, check=False)
        assert refused.returncode == 2
        assert refused.stderr.splitlines()[-1].endswith(f'pip install "constructs-optim[{extra}]"'), refused.stderr


def test_the_local_and_evaluate_extras_enable_their_commands(
    wheel: Path, local_wheel: Path, environment: Callable[[str], Environment], tmp_path: Path
) -> None:
    clean = environment("3.13")
    clean.install(f"{wheel}[local,evaluate]", local_wheel)
    ran = clean.run(
        "constructs-optim", "local", "run", "--", clean.python, "-c",
        "import boto3; print(boto3.client('sagemaker').list_endpoints()['Endpoints'])", cwd=tmp_path,
    )  # fmt: skip
    assert "[]" in ran.stdout
    refused = clean.run("constructs-optim", "evaluate", "chat", cwd=tmp_path, check=False)
    assert refused.returncode == 2
    assert "is an extra" not in refused.stderr, "the extra is installed, and only the prompts are missing"


def test_the_mcp_extra_serves_tools(wheel: Path, environment: Callable[[str], Environment], tmp_path: Path) -> None:
    clean = environment("3.11")
    clean.install(f"{wheel}[mcp]")
    program = (
        "import anyio\n"
        "from mcp import Client, StdioServerParameters, stdio_client\n"
        "async def main():\n"
        "    server = stdio_client(StdioServerParameters(command='constructs-optim', args=['mcp']))\n"
        "    async with Client(server) as client:\n"
        "        print((await client.call_tool('rules', {'ids': ['OPT023']})).structured_content['result'][0]['id'])\n"
        "anyio.run(main)"
    )
    assert clean.run(clean.python, "-c", program, cwd=tmp_path).stdout == "OPT023\n"


def test_the_local_cloud_runs_without_the_library(
    local_wheel: Path, environment: Callable[[str], Environment], tmp_path: Path
) -> None:
    clean = environment("3.12")
    clean.install(local_wheel)
    assert "constructs-optim" not in clean.distributions
    program = (
        "import constructs_optim_local.light_server.application\n"
        "from constructs_optim_local.cloud import LocalCloud\n"
        "with LocalCloud() as cloud: print(cloud.client('sagemaker').list_endpoints()['Endpoints'])"
    )
    assert clean.run(clean.python, "-c", program, cwd=tmp_path).stdout == "[]\n"


def test_the_medusa_extra_resolves_its_training_dependencies(wheel: Path, tmp_path: Path) -> None:
    run(UV, "venv", "--quiet", "--python", interpreter("3.12"), tmp_path / "trains", cwd=tmp_path)
    resolved = run(
        UV, "pip", "install", "--dry-run", "--python", tmp_path / "trains" / "bin" / "python", f"{wheel}[medusa]",
        cwd=tmp_path,
    )  # fmt: skip
    assert all(f"+ {package}==" in resolved.stderr for package in ("torch", "transformers", "trl", "typer"))
