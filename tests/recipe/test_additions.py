"""Each kind of addition to the library takes one edit in one file, as CONTRIBUTING.md shows.

Each test edits a copy of the library, which then plans, checks, lists and documents the addition.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import constructs_optim

_LIBRARY = Path(constructs_optim.__file__).parent
_PRELUDE = """
import json
from constructs_optim.recipe import Model, Quantization, Recipe, RecipeError, plan

def planned(technique=None, instance_type="ml.g6e.12xlarge", **more):
    model = Model.jumpstart("meta-textgeneration-llama-3-70b-instruct", version="2.25.0", accept_eula=True)
    techniques = [technique or Quantization.awq()]
    return plan(Recipe(model=model, techniques=techniques, instance_type=instance_type, region="us-west-2", **more))

"""


class Copy:
    """A copy of the library that a test edits."""

    def __init__(self, root: Path) -> None:
        self.root = root
        shutil.copytree(_LIBRARY, root / "constructs_optim")

    def add(self, file: str, before: str, text: str) -> None:
        """Insert a text before the first occurrence of another one."""
        path = self.root / "constructs_optim" / file
        content = path.read_text(encoding="utf-8")
        assert before in content
        path.write_text(content.replace(before, text + before, 1), encoding="utf-8")

    def run(self, code: str) -> Any:
        """The JSON output of a program that imports the copy."""
        completed = subprocess.run(
            [sys.executable, "-c", _PRELUDE + code],
            cwd=self.root,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert completed.returncode == 0, completed.stderr
        return json.loads(completed.stdout)


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path)


def test_adding_an_instance_type_takes_one_catalog_row(copy: Copy) -> None:
    size = (
        '{"name": "ml.g6e.96xlarge", "family": "g6e", "accelerator": "l40s", "kind": "gpu", "accelerator_count": 16, '
    )
    memory = '"accelerator_memory_mib": 45776, "vcpu": 384, "memory_mib": 3145728, "nvme_gb": 15200, '
    uses = '"hosts_endpoints": true, "runs_optimization": true, "runs_training": true},\n  '
    copy.add("recipe/catalog/instances.json", '{"name": "ml.trn2.48xlarge"', size + memory + uses)
    degree = copy.run('print(json.dumps(planned(instance_type="ml.g6e.96xlarge").tensor_parallel_degree))')
    assert degree == 16


def test_adding_a_container_image_takes_one_catalog_row(copy: Copy) -> None:
    program = "result = planned(); print(json.dumps([result.container.image, result.artifact_key]))"
    older, key = copy.run(program)
    row = '{"repository": "vllm", "tag": "0.99.0-gpu-cu130", "server": "vllm", "cuda": "13.0", "serves": ["awq"]},\n  '
    copy.add("recipe/catalog/images.json", '{"repository": "djl-inference"', row)
    newer, same_key = copy.run(program)
    assert newer.endswith("vllm:0.99.0-gpu-cu130")
    assert same_key == key
    # A lock file keeps its recorded image.
    locked = f"""
from constructs_optim.recipe.catalog.lock import Lock
print(json.dumps(planned(containers=Lock(servers={{"awq": "{older.rpartition("/")[2]}"}})).container.image))
"""
    assert copy.run(locked) == older


def test_adding_a_technique_takes_a_class_and_an_image_capability(copy: Copy) -> None:
    technique = '''class Int6Quantization(_JobQuantization):
    """INT6: weights of 6 bits. For GPUs."""

    name: ClassVar[str] = "int6"
    title: ClassVar[str] = "INT6 (blocks of {block_size})"
    support: ClassVar[str] = "quantization"
    makes: ClassVar[frozenset[str]] = frozenset({"int6"})
    serves: ClassVar[frozenset[str]] = frozenset({"int6"})
    weight_bits: ClassVar[int | None] = 6

    block_size: Annotated[Literal[16, 32], Option("OPTION_INT6_BLOCK_SIZE")] = 16


'''
    copy.add("recipe/techniques/quantization.py", "class Quantization(", technique)
    copy.add("recipe/techniques/quantization.py", "    awq = AwqQuantization", "    int6 = Int6Quantization\n")
    image = (
        '{"repository": "djl-inference", "tag": "int6", "server": "lmi", "makes": ["int6"], "serves": ["int6"]},\n  '
    )
    copy.add("recipe/catalog/images.json", '{"repository": "djl-inference"', image)
    program = """
result = planned(Quantization.int6(block_size=32))
(job,) = result.jobs
print(json.dumps([result.artifact_key, str(job), [technique.label for technique in result.techniques]]))
"""
    key, job, labels = copy.run(program)
    assert labels == ["INT6 (blocks of 32)"]
    assert "'OPTION_QUANTIZE': 'int6'" in job
    assert "'OPTION_INT6_BLOCK_SIZE': '32'" in job
    assert key != copy.run("print(json.dumps([planned().artifact_key]))")[0]


def test_adding_a_rule_takes_a_function_with_title_and_reason(copy: Copy) -> None:
    rule = '''@rule("OPT999", "https://docs.aws.amazon.com/general/latest/gr/sagemaker.html")
def _region_is_not_retired(recipe: Recipe) -> Iterator[Finding]:
    """The region takes new endpoints: it is closed to new customers."""
    if recipe.region == "us-west-2":
        yield Finding("region", recipe.region, "another region")


'''
    copy.add("recipe/rules/model_rules.py", "@rule(", rule)
    program = """
from constructs_optim.recipe.report import catalog_report
try:
    planned()
except RecipeError as error:
    print(json.dumps([[violation.rule for violation in error.violations], str(error), catalog_report("rules")]))
"""
    rules, message, listed = copy.run(program)
    assert rules == ["OPT999"]
    assert "it is closed to new customers" in message
    assert "another region" in message
    assert "The region takes new endpoints" in [row["title"] for row in listed]


def test_adding_a_metric_takes_one_definition(copy: Copy) -> None:
    definition = """[live.queue_depth]
title = "Queue depth"
part = "concurrency and throughput"
definition = "Requests that wait in the server's queue."
statistic = "Maximum"
published_unit = "None"
shown_unit = "Count"
variant = { namespace = "AWS/SageMaker", metric_name = "QueueDepth" }
source = "cloudwatch"

"""
    copy.add("recipe/metrics/definitions.toml", "[live.error_rate]", definition)
    program = """
from constructs_optim.recipe import metrics, report
print(json.dumps([metrics.find("queue_depth").variant.metric_name, report.catalog_report("metrics")]))
"""
    name, listed = copy.run(program)
    assert name == "QueueDepth"
    assert ("queue_depth", "Queue depth") in [(row["name"], row["title"]) for row in listed]


def test_adding_an_alarm_takes_a_definition_and_a_setting(copy: Copy) -> None:
    definition = """[client_errors]
id = "ClientErrors"
severity = "warning"
meaning = "clients of {endpoint} had more than {threshold:g} requests refused."
first = "read the container's log for the reason."
queries = [{ id = "refused", metric = "invocation_4xx_errors" }]
threshold = 100

"""
    copy.add("recipe/hosting/alarms.toml", "[failed_job]", definition)
    setting = "    client_errors: AlarmSettings | bool | None = False\n"
    copy.add("recipe/hosting/alarms.py", "    failed_job: AlarmSettings", setting)
    program = """
from constructs_optim.recipe.hosting.alarms import Alarms, AlarmSettings, Watched, endpoint_alarms
alarms = Alarms(client_errors=AlarmSettings(threshold=7))
(alarm,) = [
    alarm for alarm in endpoint_alarms(alarms, Watched(serves_components=False, capacity=8))
    if alarm.name == "client_errors"
]
print(json.dumps([alarm.threshold, alarm.description("Chat", "runbook")]))
"""
    threshold, description = copy.run(program)
    assert threshold == 7
    assert "clients of Chat had more than 7 requests refused" in description
    assert description.endswith("Runbook: runbook#client-errors")
