from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from constructs_optim.training import job_log, launch
from constructs_optim.training.environment import TrainingEnvironment
from constructs_optim.training.errors import InvalidSettings, TrainingError
from constructs_optim.training.settings import (
    COPY_VERSION,
    VERSION_HYPERPARAMETER,
    CopySettings,
    FineTuningSettings,
    HeadTrainingSettings,
    TrainingSettings,
)

ROOT = Path(__file__).resolve().parents[2]


def test_the_defaults_are_those_of_the_published_example() -> None:
    settings = HeadTrainingSettings()
    assert (settings.heads, settings.layers, settings.epochs) == (5, 1, 3)
    assert (settings.learning_rate, settings.learning_rate_schedule) == (1e-4, "constant")
    assert settings.optimizer == "auto"
    tuning = FineTuningSettings()
    assert (tuning.method, tuning.lora_rank, tuning.lora_alpha, tuning.epochs) == ("qlora", 64, 16, 1)


def test_hyperparameters_are_strings_with_or_without_the_sdks_quotes() -> None:
    settings = FineTuningSettings.from_strings(
        {
            "method": '"lora"',
            "epochs": "2",
            "learning_rate": "1e-3",
            "gradient_checkpointing": "False",
            "sagemaker_program": '"fine_tune.py"',
        }
    )
    assert (settings.method, settings.epochs, settings.learning_rate) == ("lora", 2.0, 1e-3)
    assert settings.gradient_checkpointing is False


def test_all_invalid_hyperparameters_are_reported_together() -> None:
    with pytest.raises(InvalidSettings) as caught:
        HeadTrainingSettings.from_strings(
            {
                "head": "5",
                "layers": "0",
                "learning_rate": "fast",
                "epochs": "nan",
                "optimizer": "sgd",
                "train_on_prompts": "perhaps",
                "batch_size": "1.5",
            }
        )
    assert [problem.partition(":")[2].strip() for problem in caught.value.problems] == [
        "there is no such hyperparameter; did you mean heads?",
        "use 1 or more",
        "use a number",
        "use a finite number",
        "use one of auto, adamw, adamw_8bit",
        "use true or false",
        "use a whole number",
    ]


@pytest.mark.parametrize("settings", [FineTuningSettings, HeadTrainingSettings])
def test_the_documentation_has_every_hyperparameter_with_its_default(settings: type[TrainingSettings]) -> None:
    page = (ROOT / "docs" / "medusa.md").read_text(encoding="utf-8")
    section = page.partition(f"<!-- {settings.__name__} -->")[2].partition("\n\n<!-- end -->")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| `([^`]*)` \|", section, re.MULTILINE))
    expected = {
        field.name: str(field.default).lower() if isinstance(field.default, bool) else str(field.default)
        for field in dataclasses.fields(settings)
    }
    assert rows == expected
    for field in dataclasses.fields(settings):
        assert field.metadata["description"] in section, field.name


def test_a_jobs_metric_definitions_fit_the_api() -> None:
    for heads in range(1, 17):
        names = job_log.head_training_metrics(heads)
        assert len(names) == len(set(names)) <= job_log.MOST_DEFINITIONS
        for name in names:
            defined = job_log.definition(name)
            assert len(defined.name) <= 255
            assert len(defined.regex) <= 500


def test_a_metrics_pattern_does_not_match_another_metrics_name() -> None:
    line = job_log.line({"head_1_loss": 2.0, "validation_loss": 3.0, "loss": 1e-07})
    assert re.findall(job_log.definition("loss").regex, line) == ["1e-07"]
    assert re.findall(job_log.definition("head_1_loss").regex, f"step 1: {line}") == ["2"]
    assert re.findall(job_log.definition("validation_loss").regex, line) == ["3"]


def test_the_environment_is_read_as_sagemaker_lays_it_out(tmp_path: Path) -> None:
    (tmp_path / "input" / "config").mkdir(parents=True)
    (tmp_path / "input" / "config" / "resourceconfig.json").write_text(
        json.dumps({"current_host": "algo-2", "hosts": ["algo-2", "algo-1"], "network_interface_name": "eth0"})
    )
    (tmp_path / "input" / "data" / "training").mkdir(parents=True)
    found = TrainingEnvironment.of({"SAGEMAKER_BASE_DIR": str(tmp_path), "SM_NUM_GPUS": "4"})
    assert (found.hosts, found.host, found.world_size) == (("algo-1", "algo-2"), "algo-2", 8)
    assert found.channel("training") == tmp_path / "input" / "data" / "training"
    assert found.channel("validation") is None
    assert found.failure == tmp_path / "output" / "failure"
    assert found.model == tmp_path / "model"
    with pytest.raises(TrainingError, match="no input channel 'finetuned', which must hold a model; its channels are"):
        found.needed_channel("finetuned", "a model")


def test_without_gpus_a_host_has_one_process(tmp_path: Path) -> None:
    assert TrainingEnvironment.of({"SAGEMAKER_BASE_DIR": str(tmp_path), "SM_NUM_GPUS": "0"}).world_size == 1


def pinned(place: str) -> dict[str, set[str]]:
    """The versions of each package in a lock: several where they differ by Python."""
    found: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([a-z0-9-]+)==([^ ;\n]+)", (ROOT / place).read_text(), re.M):
        found.setdefault(name, set()).add(version)
    return found


REQUIREMENTS = "constructs_optim/training/requirements.txt"
QUANTIZER = "constructs_optim/training/quantizing.txt"
# What PyTorch needs as well comes with the image's PyTorch.
OF_THE_IMAGE = {"mpmath", "networkx", "setuptools", "sympy", "torch"}


def test_the_tests_run_with_the_containers_requirements() -> None:
    wanted, locked = pinned(REQUIREMENTS), pinned("requirements/models.txt")
    direct = set(re.findall(r"^([a-z0-9-]+)", (ROOT / "requirements" / "medusa.in").read_text(), re.M))
    assert direct - {"torch"} <= wanted.keys()
    assert {name: versions for name, versions in wanted.items() if name in locked} == {
        name: locked[name] for name in wanted if name in locked
    }
    assert direct - {"torch"} <= locked.keys()
    assert not wanted.keys() & OF_THE_IMAGE


@pytest.mark.parametrize("place", [REQUIREMENTS, QUANTIZER])
def test_the_container_installs_nothing_without_a_hash(place: str) -> None:
    assert not pinned(place).keys() & OF_THE_IMAGE
    lines = (ROOT / place).read_text().splitlines()
    assert "--require-hashes" in lines
    requirements = "\n".join(lines).replace("\\\n", "").splitlines()
    named = [line for line in requirements if "==" in line]
    assert len(named) > 30
    assert all("--hash=sha256:" in line for line in named)


def test_the_containers_requirements_are_complete() -> None:
    """pip installs them without looking for what they need: that has to be among them, or come with PyTorch."""
    wanted = pinned(REQUIREMENTS)
    here = {"python_version": "3.12", "python_full_version": "3.12.0", "extra": ""}
    for name in wanted:
        try:
            needs = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            assert name in _OF_OTHER_PLATFORMS
            continue
        for each in map(Requirement, needs):
            if each.marker is None or each.marker.evaluate(here):
                assert canonicalize_name(each.name) in wanted.keys() | OF_THE_IMAGE, f"{name} needs {each}"


_OF_OTHER_PLATFORMS = {"colorama", "httpx2-jsfetch", "tzdata"}


def test_a_job_refuses_to_create_a_version_that_differs_from_the_artifact_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAGEMAKER_BASE_DIR", str(tmp_path))
    (tmp_path / "input/config").mkdir(parents=True)
    hyperparameters = {"model_id": "acme/mine", VERSION_HYPERPARAMETER: str(COPY_VERSION + 1)}
    (tmp_path / "input/config/hyperparameters.json").write_text(json.dumps(hyperparameters))
    assert launch.run(Path("copy_model.py"), CopySettings, "copying", "copy_model") == launch.FAILED
    failure = (tmp_path / "output/failure").read_text()
    assert f"records version {COPY_VERSION + 1} of this artifact" in failure
    assert f"makes version {COPY_VERSION}: deploy with the release that made it" in failure
