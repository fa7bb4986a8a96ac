"""What a type checker, and so an editor, tells of typical mistakes before the app runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYRIGHT = Path(sys.executable).with_name("pyright")
MISTAKES = """
from aws_cdk import Stack

from constructs_optim import (
    Alarms, Compilation, KvCache, Model, MonitoringOptions, Objectives, OptimizedEndpoint, Quantization, Server,
    Sharding, SpeculativeDecoding, UpdatePolicy, VariantOptions,
)

stack = Stack()
model = Model.s3("s3://models/llama/")
awq = [Quantization.awq()]
endpoint = OptimizedEndpoint(stack, "Right", model=model, techniques=awq, instance_type="ml.g5.12xlarge")
endpoint.alarms.alarms["latency"]
endpoint.plan.jobs
endpoint.metric("error_rate")
endpoint.metric_engine("kv_cache_usage")
endpoint.metric_evaluation("client_latency_p90", concurrency=8)
endpoint.evaluate().require(max_regression=0.1, regression_metrics=["client_latency_p90"])
# wrong
Quantization.awk()
Server.vlm()
SpeculativeDecoding.eagel()
Sharding.fast_laod()
Compilation.neruon()
KvCache.fp9()
Model.s4("s3://models/llama/")
Model.jumpstart("llama", verison="1")
Quantization.awq(group_sise=64)
Quantization.awq(group_size="64")
OptimizedEndpoint(stack, "A", modle=model, instance_type="ml.g5.12xlarge")
OptimizedEndpoint(stack, "B", model=model, instance_type=4)
OptimizedEndpoint(stack, "C", model=model, techniques=Quantization.awq(), instance_type="ml.g5.12xlarge")
OptimizedEndpoint(stack, "D", model=model, instance_type="ml.g5.12xlarge", variant=VariantOptions(initial_count=2))
OptimizedEndpoint(stack, "E", model=model, instance_type="ml.g5.12xlarge", monitoring=MonitoringOptions(alarms=3))
endpoint.auto_scale(max_capacity="4")
endpoint.auto_scale(max_capacity=4).on_concurency(target=8)
endpoint.metric_model_latency(statistics="p99")
endpoint.metric_modle_latency()
endpoint.metric("modle_latency")
endpoint.metric("client_latency")
endpoint.metric_engine("kv_cache_useage")
endpoint.metric_evaluation("client_latency_p95", concurrency=8)
endpoint.evaluate().require(max_regression=0.1, regression_metrics=["client_latency_p95"])
endpoint.alarm
Alarms(latancy=False)
Objectives(input_tokens=1_000, output_tokens=100, quality="near-lossles")
UpdatePolicy.roling(percent=25)
"""


# It runs a type checker, as make lint does.
@pytest.mark.lint
def test_typical_mistakes_are_errors_of_a_type_checker(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(MISTAKES)
    settings = {"include": ["app.py"], "extraPaths": [str(ROOT)], "typeCheckingMode": "standard"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [PYRIGHT, "--outputjson", "--pythonpath", sys.executable, "--project", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    found = json.loads(done.stdout)["generalDiagnostics"]
    flagged = {each["range"]["start"]["line"] for each in found if each["severity"] == "error"}
    lines = MISTAKES.splitlines()
    wrong = {*range(lines.index("# wrong") + 1, len(lines))}
    assert flagged == wrong, [lines[number] for number in sorted(flagged ^ wrong)]
