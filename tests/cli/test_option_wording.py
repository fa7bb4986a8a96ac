"""What rules say about a recipe that a command's options declare."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from constructs_optim.cli.main import app
from constructs_optim.cli.recipes.option_wording import in_options

LLAMA = "meta-textgeneration-llama-3-8b-instruct"


@pytest.mark.parametrize(
    ("python", "options"),
    [
        ("Quantization.awq()", "--technique quantization=awq"),
        ("Quantization.awq(group_size=64)", "--technique quantization=awq,group_size=64"),
        ("use SpeculativeDecoding.ngram(), then", "use --technique speculative_decoding=ngram, then"),
        (
            "Use Quantization.fp8(checkpoint=Model.huggingface(...)) with Qwen/Qwen3-32B-FP8",
            "Use --technique quantization=fp8,checkpoint=<owner>/<name> with Qwen/Qwen3-32B-FP8",
        ),
        ("Server.vllm(context_length=8192)", "--server vllm,context_length=8192"),
        ("Server.vllm()", "--server vllm"),
        ("Server.vllm(adapters=Adapters(max_loaded=4))", "Server.vllm(adapters=Adapters(max_loaded=4))"),
        ('Model.jumpstart("llama", accept_eula=True)', "--model llama --accept-eula"),
        ('Model.jumpstart("llama", version="2.1")', "--model llama --model-version 2.1"),
        (
            "Model.huggingface(..., token_secret_arn=secret.arn)",
            "--model <owner>/<name> --token-secret-arn <token_secret_arn>",
        ),
        ('Model.huggingface("a/b", allow_code=True)', 'Model.huggingface("a/b", allow_code=True)'),
        ('Model.s3("s3://bucket/prefix/")', "--model-s3 s3://bucket/prefix/"),
        ("or accept_eula=True", "or --accept-eula"),
        ("pass token_secret_arn=secret.secret_arn", "pass --token-secret-arn ARN"),
        ("did you mean quantization=awq? In Python: Quantization.awq()", "did you mean quantization=awq?"),
        ("32, 64 or 128, as a number and not as text", "32, 64 or 128"),
        ("Other.thing(1) and Quantization.awq(", "Other.thing(1) and Quantization.awq("),
    ],
)
def test_python_calls_are_options(python: str, options: str) -> None:
    assert in_options(python) == options


def plan(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["plan", *arguments])


def test_a_refused_license_names_the_option_that_accepts_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = ["--model", LLAMA, "--instance-type", "ml.g5.12xlarge"]
    refused = plan(*given)
    assert refused.exit_code == 2
    (remedy,) = re.findall(r"accept it with (--.*)", refused.stderr)
    accepted = plan("--instance-type", "ml.g5.12xlarge", *shlex.split(remedy))
    assert accepted.exit_code == 0, accepted.stderr
    assert "Model." not in refused.stderr


def test_a_published_checkpoint_is_named_as_an_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = ["--model", "Qwen/Qwen3-32B", "--instance-type", "ml.g6e.12xlarge"]
    advised = plan(*given, "--technique", "quantization=fp8")
    (technique, checkpoint) = re.findall(r"Use --technique (\S+) with (\S+)", advised.stdout)[0]
    followed = plan(*given, "--technique", technique.replace("<owner>/<name>", checkpoint))
    assert followed.exit_code == 0, followed.stderr
    assert "OPT027" not in followed.stdout
