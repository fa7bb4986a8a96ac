"""Copies of models, with huggingface_hub's own client and a hub on loopback."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import boto3
import pytest
from botocore.exceptions import (
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    ReadTimeoutError,
)
from httpx2 import ConnectError, ReadTimeout, RemoteProtocolError, Request, Response
from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

from constructs_optim.training import copying
from constructs_optim.training.copying import token_in
from constructs_optim.training.environment import TrainingEnvironment
from constructs_optim.training.errors import TEMPORARY, CopyError, Unavailable
from constructs_optim.training.settings import CopySettings

from ..support.model_hub import HubModel, ModelHub, serving

COMMIT, SECRET = "c" * 40, "arn:aws:secretsmanager:us-west-2:111122223333:secret:hub-AbCdEf"
PACKAGE = Path(__file__).parents[2] / "constructs_optim"
WEIGHTS = bytes(range(256)) * 273
FILES = {
    "config.json": b'{"model_type": "llama"}',
    "tokenizer/vocabulary.json": b"{}",
    "model[1].safetensors": WEIGHTS,
    "consolidated.safetensors": b"the same weights in another layout",
    "pytorch_model.bin": b"a pickle",
    "modeling_own.py": b"print('code')",
    "original/consolidated.00.pth": b"a pickle",
    "model.gguf": b"for another engine",
    ".gitattributes": b"",
}


@pytest.fixture
def hub() -> Iterator[ModelHub]:
    with serving({"acme/llama": HubModel(COMMIT, FILES)}) as running:
        yield running


@dataclass(frozen=True)
class Copy:
    """A copying job's container: what it wrote, and the reason of its failure."""

    status: int
    files: dict[str, bytes]
    failure: str
    log: list[str]


def copied(
    hub: ModelHub, root: Path, *, code: Path = PACKAGE, environment: dict[str, str] | None = None, **settings: str
) -> Copy:
    """Run the job's program in a folder that stands for ``/opt/ml``."""
    configuration = root / "input" / "config"
    configuration.mkdir(parents=True)
    (root / "model").mkdir()
    hyperparameters = {"model_id": "acme/llama", "revision": COMMIT, **settings}
    (configuration / "hyperparameters.json").write_text(json.dumps(hyperparameters))
    variables = {
        "PATH": os.environ["PATH"],
        "HOME": str(root),
        "HF_ENDPOINT": hub.url,
        "SAGEMAKER_BASE_DIR": str(root),
        **(environment or {}),
    }
    program = [sys.executable, str(code / "training" / "copy_model.py")]
    ended = subprocess.run(program, env=variables, capture_output=True, text=True, timeout=120, check=False)
    failure = root / "output" / "failure"
    written = {
        str(path.relative_to(root / "model")): path.read_bytes()
        for path in sorted((root / "model").rglob("*"))
        if path.is_file()
    }
    reason = failure.read_text() if failure.exists() else ""
    return Copy(ended.returncode, written, reason, ended.stdout.splitlines())


def test_what_an_engine_reads_is_copied_with_its_hashes(hub: ModelHub, tmp_path: Path) -> None:
    copy = copied(hub, tmp_path)
    assert copy.failure == ""
    source = json.loads(copy.files.pop("source.json"))
    kept = ("config.json", "model[1].safetensors", "tokenizer/vocabulary.json")
    assert copy.files == {name: FILES[name] for name in kept}
    hashes = {name: hashlib.sha256(FILES[name]).hexdigest() for name in kept}
    assert source == {"model_id": "acme/llama", "revision": COMMIT, "sha256": hashes}
    assert sorted(hub.downloads) == sorted(f"acme/llama/{name}" for name in kept)


def test_the_code_that_a_stack_uploads_copies_a_model(hub: ModelHub, tmp_path: Path) -> None:
    # The environment in which training is tested has no CDK.
    pytest.importorskip("aws_cdk")
    from aws_cdk import App, Stack

    from constructs_optim.constructs.artifacts.optimization_service import TrainingCode

    app = App(post_cli_context={"aws:cdk:disable-asset-staging": False}, outdir=str(tmp_path / "cdk.out"))
    TrainingCode(Stack(app, "S"), "Code")
    app.synth()
    (code,) = (folder.parent for folder in (tmp_path / "cdk.out").glob("asset.*/training"))
    copy = copied(hub, tmp_path / "job", code=code)
    assert copy.failure == ""
    assert "model[1].safetensors" in copy.files


def test_pickles_and_code_are_copied_where_they_are_allowed(hub: ModelHub, tmp_path: Path) -> None:
    copy = copied(hub, tmp_path, allow_pickle="true", allow_code="true")
    assert {"pytorch_model.bin", "modeling_own.py"} <= copy.files.keys()
    assert "original/consolidated.00.pth" not in copy.files


UNREAD = (
    "PYTORCH_MODEL.BIN", "weights.PT", "a.npz", "a.npy", "a.dill", "a.pkl.gz", "a.pt2", "a.nemo", "a.tar", "code.so",
    "code.pyc", "CODE.PY", "license.bin", "a.model.v3.pt", "sub/.hidden.json", "requirements.txt", "source.json",
)  # fmt: skip
READ = (
    "tokenizer.model", "tokenizer.model.v3", "tokenizer.model.v7m1", "qwen.tiktoken", "chat_template.jinja",
    "merges.txt", "LICENSE", "README.md", "Model-2.SafeTensors", "templates/tools.jinja",
)  # fmt: skip


def test_what_no_server_reads_is_left_behind_and_named(hub: ModelHub, tmp_path: Path) -> None:
    kept = {"config.json": b"{}", "model.safetensors": WEIGHTS}
    content = {**kept, **{name: name.encode() for name in (*READ, *UNREAD)}}
    hub.models["acme/llama"] = replace(hub.models["acme/llama"], files=content)
    copy = copied(hub, tmp_path)
    assert copy.files.keys() - {"source.json"} == {*kept, *READ}
    assert json.loads(copy.files["source.json"])["model_id"] == "acme/llama"
    assert [line for line in copy.log if line.startswith("not copied")] == [
        f"not copied: {name!r}" for name in sorted(UNREAD)
    ]


def test_parts_of_accelerators_are_copied_for_a_server_that_is_told_so(hub: ModelHub, tmp_path: Path) -> None:
    files = {"config.json": b"{}", "model-rank-0-part-0.safetensors": WEIGHTS}
    hub.models["acme/llama"] = HubModel(COMMIT, files)
    copy = copied(hub, tmp_path)
    assert copy.status == 0
    assert set(files) <= set(copy.files)


def test_pickles_and_code_are_those_of_engines_in_any_case(hub: ModelHub, tmp_path: Path) -> None:
    content = {"config.json": b"{}", **{name: name.encode() for name in UNREAD}}
    hub.models["acme/llama"] = replace(hub.models["acme/llama"], files=content)
    copy = copied(hub, tmp_path, allow_pickle="true", allow_code="true")
    allowed = {"PYTORCH_MODEL.BIN", "weights.PT", "CODE.PY", "license.bin", "a.model.v3.pt", "requirements.txt"}
    assert copy.files.keys() - {"source.json"} == {"config.json", *allowed}


def test_a_model_in_mistrals_layout_is_copied(hub: ModelHub, tmp_path: Path) -> None:
    layout = {name: name.encode() for name in ("params.json", "consolidated.safetensors", "tekken.json")}
    hub.models["acme/llama"] = replace(hub.models["acme/llama"], files=layout)
    copy = copied(hub, tmp_path)
    assert copy.files.keys() - {"source.json"} == layout.keys()


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (
            {"files": {"params.json": b"{}", "model.safetensors": b"a"}},
            "no engine loads acme/llama: there is no config.json",
        ),
        ({"files": {**FILES, "model[1].safetensors": WEIGHTS}, "damaged": frozenset({"config.json"})}, "config.json: "),
        ({"damaged": frozenset({"model[1].safetensors"})}, f"not {hashlib.sha256(WEIGHTS).hexdigest()}"),
        ({"files": {"config.json": b"{}", "pytorch_model.bin": b"a"}}, "only in pickle files"),
        ({"files": {"config.json": b"{}", "README.md": b"a"}}, "there are no weights"),
        ({"files": {"config.json": b"{}", "adapter_model.safetensors": b"a"}}, "LoRA adapter"),
        (
            {"files": {"config.json": b"{}", "model.safetensors": b"a", "adapter_model.safetensors": b"a"}},
            "adapter_model.safetensors is beside the weights",
        ),
        ({"files": {"config.json": b"{}", "model-00001-of-00002.safetensors": b"a"}}, "lacks model-00002-of-00002"),
        ({"files": {"model.safetensors": b"a"}}, "there is no config.json"),
        ({"files": {"adapter_config.json": b"{}", "adapter_model.safetensors": b"a"}}, "LoRA adapter"),
        ({"commit": "d" * 40}, "has no commit cccc"),
        ({"token": "hf_secret"}, "is gated: accept its terms at https://huggingface.co/acme/llama"),
    ],
)
def test_a_model_that_cannot_be_copied_fails_with_the_reason(
    hub: ModelHub, tmp_path: Path, changed: dict[str, object], reason: str
) -> None:
    hub.models["acme/llama"] = replace(hub.models["acme/llama"], **changed)  # type: ignore[arg-type]
    copy = copied(hub, tmp_path)
    assert copy.status == 1
    assert reason in copy.failure


def of_hub(status: int) -> HfHubHTTPError:
    return HfHubHTTPError("refused", response=Response(status, request=Request("GET", "https://huggingface.co")))


@pytest.mark.parametrize(
    ("error", "refused"),
    [
        *((of_hub(status), Unavailable) for status in (408, 429, 500, 502, 503, 504)),
        *((of_hub(status), CopyError) for status in (400, 403, 416)),
        (ConnectError("no route"), Unavailable),
        (ReadTimeout("timed out"), Unavailable),
        (RemoteProtocolError("the peer closed the connection"), Unavailable),
        (LocalEntryNotFoundError("cannot find the file on the Hub"), Unavailable),
        (OSError("Consistency check failed: file should be of size 2 but has size 1"), Unavailable),
        (ConnectionResetError(104, "Connection reset by peer"), Unavailable),
        # Of hf_xet.
        (ConnectionError("the server returned 503"), Unavailable),
        (RuntimeError("Data processing error: Connection reset by peer (os error 104)"), Unavailable),
        (RuntimeError("Data processing error: No space left on device (os error 28)"), RuntimeError),
        (PermissionError("the token has expired"), PermissionError),
        (OSError(28, "No space left on device"), OSError),
        (KeyError("sha"), KeyError),
    ],
)
def test_only_a_failure_of_the_hub_or_the_network_is_called_temporary(
    error: Exception, refused: type[Exception]
) -> None:
    settings = CopySettings(model_id="acme/llama", revision=COMMIT)
    with pytest.raises(refused) as raised, copying._refusals(settings, has_token=False):
        raise error
    assert type(raised.value) is refused
    assert str(raised.value).startswith(TEMPORARY) is (refused is Unavailable)


def of_aws(code: str, status: int = 400) -> ClientError:
    return ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}, "GetSecretValue")  # type: ignore[typeddict-item]


@pytest.mark.parametrize(
    ("error", "refused"),
    [
        (of_aws("ThrottlingException"), Unavailable),
        (of_aws("InternalServiceError", 500), Unavailable),
        (EndpointConnectionError(endpoint_url="https://secretsmanager"), Unavailable),
        (ConnectTimeoutError(endpoint_url="https://secretsmanager"), Unavailable),
        (ReadTimeoutError(endpoint_url="https://secretsmanager"), Unavailable),
        (of_aws("AccessDeniedException"), CopyError),
        (of_aws("ResourceNotFoundException"), CopyError),
        (NoCredentialsError(), CopyError),
    ],
)
def test_only_a_failure_of_aws_or_the_network_to_return_the_token_is_called_temporary(
    monkeypatch: pytest.MonkeyPatch, error: Exception, refused: type[Exception]
) -> None:
    def fails(**_: object) -> NoReturn:
        raise error

    monkeypatch.setattr(boto3, "client", lambda *_, **__: SimpleNamespace(get_secret_value=fails))
    environment = TrainingEnvironment(Path("/opt/ml"), variables={"TOKEN_SECRET_ARN": SECRET})
    with pytest.raises(CopyError) as raised:
        copying._token(environment)
    assert type(raised.value) is refused


def test_a_model_that_the_hub_does_not_have_fails_with_the_reason(hub: ModelHub, tmp_path: Path) -> None:
    copy = copied(hub, tmp_path, model_id="acme/lama")
    assert "Hugging Face has no model acme/lama, or it is private" in copy.failure


def test_a_token_of_the_machine_is_not_used(hub: ModelHub, tmp_path: Path) -> None:
    hub.models["acme/llama"] = replace(hub.models["acme/llama"], token="hf_secret")
    copy = copied(hub, tmp_path, environment={"HF_TOKEN": "hf_secret"})
    assert "is gated" in copy.failure


@pytest.mark.parametrize("text", ["hf_secret\n", " hf_secret", "hf_oauth.a-b_c"])
def test_a_token_is_the_text_of_its_secret_without_space_around_it(text: str) -> None:
    assert token_in(text, SECRET) == text.strip()


@pytest.mark.parametrize(
    "text", ['{"token": "hf_secret"}', '"hf_secret"', "hf_secret\nhf_secret", "token hf_secret", ""]
)
def test_a_text_that_is_no_token_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(CopyError) as refused:
        token_in(text, SECRET)
    assert "hf_secret" not in str(refused.value)
    assert f"the text of the secret {SECRET} is not a Hugging Face token" in str(refused.value)


def test_a_secret_that_cannot_be_read_fails_with_the_permission_it_needs(hub: ModelHub, tmp_path: Path) -> None:
    environment = {"TOKEN_SECRET_ARN": SECRET, "AWS_EC2_METADATA_DISABLED": "true"}
    copy = copied(hub, tmp_path, environment=environment)
    assert "secretsmanager:GetSecretValue" in copy.failure
