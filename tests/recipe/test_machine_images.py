"""The rules about the machine image of a variant and the containers that run on it."""

from __future__ import annotations

import re

import pytest

from constructs_optim.recipe.catalog import images
from constructs_optim.recipe.hosting.machine_image import HostedContainer, MachineImageUse
from constructs_optim.recipe.rules import all_rules, check, warnings

from .recipes import planned

GPU_2, GPU_3_1 = "al2-ami-sagemaker-inference-gpu-2", "al2-ami-sagemaker-inference-gpu-3-1"
GPU_4_1 = "al2023-ami-sagemaker-inference-gpu-4-1"
VLLM, LMI = ("vllm:0.30.0-cu130", "13.0"), ("djl-inference:0.36.0-lmi24.0.0-cu129", "12.9")


def use(version: str | None, *containers: tuple[tuple[str, str], str]) -> MachineImageUse:
    return MachineImageUse(version, tuple(HostedContainer(*image, instance) for image, instance in containers))


G5_VLLM, G5_LMI = (VLLM, "ml.g5.12xlarge"), (LMI, "ml.g5.12xlarge")
P5_LMI, LMI_16 = (LMI, "ml.p5.48xlarge"), ("djl-inference:0.34.0-lmi16.0.0-cu128", "12.8")
G6_LMI, G7_VLLM, B300_VLLM = (LMI, "ml.g6.12xlarge"), (VLLM, "ml.g7.12xlarge"), (VLLM, "ml.p6-b300.48xlarge")


@pytest.mark.parametrize(
    ("of", "needed"),
    [
        (use(None), None),
        (use(None, G5_VLLM), GPU_4_1),
        (use(None, G5_LMI), GPU_3_1),
        (use(None, G6_LMI), None),
        # The machine image with the newest driver: the other one would not run both.
        (use(None, G5_LMI, G5_VLLM), GPU_4_1),
        (use(None, G7_VLLM), None),
    ],
)
def test_a_variant_gets_the_machine_image_that_its_containers_need(of: MachineImageUse, needed: str | None) -> None:
    assert of.needed == needed
    assert check(of) == []


BAD: list[tuple[MachineImageUse, str, str]] = [
    (use(GPU_2, G5_VLLM), "CUDA 13.0, which needs NVIDIA driver 580 or later", f"leave it out to use {GPU_4_1}"),
    (use(GPU_3_1, G5_LMI, G5_VLLM), "this machine image has 550", GPU_4_1),
    (use(GPU_4_1, G7_VLLM), "ml.g7.12xlarge needs NVIDIA driver 595 or later", "leave it out"),
    (use(GPU_3_1, (LMI, "ml.p6-b200.48xlarge")), "ml.p6-b200.48xlarge needs NVIDIA driver 570 or later", GPU_4_1),
    (use(GPU_2, (LMI, "ml.p6-b300.48xlarge")), "ml.p6-b300.48xlarge needs NVIDIA driver 570", "leave it out"),
    (use(GPU_3_1, (LMI, "ml.g7e.12xlarge")), "ml.g7e.12xlarge needs NVIDIA driver 575 or later", GPU_4_1),
    # In pools, one needs what the other cannot have.
    (use(None, G5_VLLM, G7_VLLM), "ml.g7.12xlarge needs NVIDIA driver 595", "leave ml.g7.12xlarge out"),
]


@pytest.mark.parametrize(("of", "reason", "fix"), BAD)
def test_a_machine_image_that_cannot_run_a_container_is_refused(of: MachineImageUse, reason: str, fix: str) -> None:
    (violation,) = check(of)
    assert (violation.rule, violation.value) == ("OPT242", of.version or of.needed)
    assert reason in violation.reason
    assert fix in violation.suggestion


@pytest.mark.parametrize("of", [use(GPU_2, G5_LMI), use(GPU_4_1, G5_VLLM), use("al2-of-tomorrow", G5_VLLM)])
def test_a_machine_image_that_runs_the_containers_or_is_unknown_is_accepted(of: MachineImageUse) -> None:
    assert check(of) == []


ADVISED: list[tuple[MachineImageUse, str, str]] = [
    (use(GPU_2, G5_LMI), "OPT114", f"Leave it out to use {GPU_3_1}"),
    (use(GPU_2, (LMI, "ml.p5en.48xlarge")), "OPT114", "no source says that ml.p5en.48xlarge runs with this"),
    (use(GPU_4_1, B300_VLLM), "OPT114", "no source says that ml.p6-b300.48xlarge runs with this"),
    (use(None, B300_VLLM), "OPT114", "no source says on which machine image ml.p6-b300.48xlarge"),
    (use(None, G7_VLLM), "OPT114", "no source says on which machine image ml.g7.12xlarge"),
    (use(None, P5_LMI), "OPT258", "failed on p5 with NVIDIA driver 535, because the driver could not compile"),
    (use(GPU_2, P5_LMI), "OPT258", "deepjavalibrary/djl-serving#2987"),
    (use(None, G5_LMI, G5_VLLM), "OPT241", "aws/deep-learning-containers#6187"),
    (use(None, (VLLM, "ml.g6e.12xlarge"), G5_LMI), "OPT241", f"{VLLM[0]} and {LMI[0]}"),
]


@pytest.mark.parametrize(("of", "rule", "text"), ADVISED)
def test_what_nobody_vouches_for_is_advised_against(of: MachineImageUse, rule: str, text: str) -> None:
    (advice,) = warnings(of)
    assert advice.id == f"constructs-optim:{rule}"
    assert text in advice.message


@pytest.mark.parametrize("version", [None, GPU_2])
def test_the_machine_image_in_the_advice_about_a_failure_ends_it(version: str | None) -> None:
    (advice,) = warnings(use(version, P5_LMI))
    location = "server.container_version" if version is None else "variant.inference_ami_version"
    assert advice.message.startswith(f"{location} = ")
    printed = re.search(r'variant=VariantOptions\(inference_ami_version="([\w-]+)"\)', advice.message)
    assert printed is not None
    assert warnings(use(printed[1], P5_LMI)) == ()


@pytest.mark.parametrize("version", [None, GPU_2])
def test_no_machine_image_ends_a_failure_if_none_runs_the_other_container(version: str | None) -> None:
    (message,) = [each.message for each in warnings(use(version, P5_LMI, G7_VLLM)) if each.id.endswith("OPT258")]
    assert message.endswith(
        ". Set a container_version for CUDA 13, for which the endpoint chooses a newer machine image"
    )


@pytest.mark.parametrize("of", [use(None, G5_VLLM), use(None, G5_LMI), use(GPU_3_1, G5_LMI), use(None, G6_LMI)])
def test_tested_machine_images_cause_no_advice(of: MachineImageUse) -> None:
    assert warnings(of) == ()


@pytest.mark.parametrize(
    "of",
    [
        use(None, (LMI_16, "ml.p5.48xlarge")),
        use(None, (("djl-inference:0.36.0-lmi25.0.0-cu130", "13.0"), "ml.p5.48xlarge")),
        use(GPU_4_1, P5_LMI),
        # Two minor releases of CUDA.
        use(GPU_4_1, P5_LMI, (LMI_16, "ml.p5.48xlarge")),
        use("al2-of-tomorrow", P5_LMI),
        use(None, (LMI, "ml.p5en.48xlarge")),
    ],
)
def test_containers_and_drivers_of_which_no_failure_is_reported_cause_no_advice(of: MachineImageUse) -> None:
    assert warnings(of) == ()


def test_an_instance_without_nvidia_s_driver_has_no_failures_of_one() -> None:
    assert HostedContainer(LMI[0], "12.8", "ml.inf2.48xlarge").reported_failure(None) is None


def test_the_container_of_a_plan_is_described_by_its_image() -> None:
    found = planned()
    assert found.container.image is not None
    repository, _, tag = found.container.image.rpartition("/")[2].partition(":")
    assert HostedContainer.of(found) == HostedContainer(f"{repository}:{tag}", "13.0", found.instance_type)
    by_hub = found.model_copy(update={"container": found.container.model_copy(update={"image": None})})
    assert HostedContainer.of(by_hub) is None
    assert HostedContainer.of(found.model_copy(update={"instance_type": "ml.g9.new"})) is None


@pytest.mark.parametrize("version", [None, GPU_2])
def test_the_remedies_for_a_reported_failure_cause_no_advice(version: str | None) -> None:
    (advice,) = warnings(use(version, P5_LMI))
    where = "variant.inference_ami_version" if version else "server.container_version"
    assert advice.message.startswith(f"{where} = ")
    assert f'Set variant=VariantOptions(inference_ami_version="{GPU_4_1}")' in advice.message
    assert warnings(use(GPU_4_1, P5_LMI)) == ()
    # With an image that the user chose, a newer container needs another image all the same.
    assert ("container_version for CUDA 13" in advice.message) is (version is None)
    (newer,) = (row for row in images.rows() if row.server == "lmi" and row.has_version("0.36.0-lmi25"))
    assert warnings(use(None, ((f"{newer.repository}:{newer.tag}", newer.cuda or ""), "ml.p5.48xlarge"))) == ()


def test_each_rule_about_machine_images_has_a_case() -> None:
    assert {rule.id for rule in all_rules(MachineImageUse)} == {"OPT114", "OPT241", "OPT242", "OPT258"}
