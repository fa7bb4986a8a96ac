"""What the plans of the rules' valid cases ask of containers, jobs and instances: a change shows in a file.

``pytest tests/recipe/test_planned_values.py --snapshot-update`` writes it. Images and keys change with each release and
have tests of their own (test_catalog.py, test_keys.py).
"""

from __future__ import annotations

import contextlib
import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.json import JSONSnapshotExtension

from constructs_optim.recipe import (
    Compilation,
    KvCache,
    Model,
    PreOptimized,
    Quantization,
    Recipe,
    RecipeError,
    Sharding,
    SpeculativeDecoding,
    Technique,
)
from constructs_optim.recipe.plan_data import Plan
from constructs_optim.recipe.planning import plan
from constructs_optim.recipe.recipe import JobSettings
from constructs_optim.recipe.servers import Adapters, Server

from .test_rules import GOOD, recipe


def techniques_with_settings() -> Iterator[dict[str, Any]]:
    """Recipes of each technique with other settings than the defaults."""
    samples, layers = "s3://data/samples/", ["lm_head", "mlp.gate"]
    llama: list[list[Technique]] = [
        [Quantization.awq(group_size=32, ignored_layers=layers)],
        [Quantization.fp8(scheme="FP8_DYNAMIC", ignored_layers=layers, calibration_size=8, calibration_length=64)],
        [
            Quantization.smoothquant(alpha=0.5, per_token=True, per_channel=True, calibration_size=8),
            Compilation.tensorrt_llm(maximum_input_length=64, maximum_output_length=32, maximum_batch_size=2),
        ],
        [SpeculativeDecoding.sagemaker_draft(speculative_tokens=2)],
        [SpeculativeDecoding.custom_draft(uri="s3://drafts/one/", accept_eula=True, speculative_tokens=2)],
        [SpeculativeDecoding.custom_draft(model=Model.s3("s3://drafts/one/"))],
        [SpeculativeDecoding.jumpstart_draft(model_id="of-my-own", version="1.0.0", accept_eula=True)],
        [SpeculativeDecoding.eagle(training_data=samples, speculative_tokens=2)],
        [SpeculativeDecoding.ngram(speculative_tokens=2, prompt_lookup_max=3)],
        [SpeculativeDecoding.speculator(model=Model.s3("s3://heads/"), method="medusa", speculative_tokens=2)],
        [SpeculativeDecoding.mtp(speculative_tokens=2)],
        [PreOptimized(config="lmi", accept_draft_eula=True)],
        [Sharding.fast_load(tensor_parallel_degree=4)],
        [KvCache.fp8()],
    ]
    yield from ({"techniques": each, "instance_type": "ml.p4d.24xlarge"} for each in llama[:-1])
    yield {"techniques": llama[-1], "instance_type": "ml.p5.48xlarge"}
    qwen = {"model": Model.huggingface("Qwen/Qwen3-32B", revision="a" * 40), "instance_type": "ml.g7e.24xlarge"}
    for technique in (
        Quantization.w4a16(
            algorithm="awq", calibration_data=samples, ignored_layers=layers, calibration_size=8, calibration_length=64
        ),
        Quantization.fp8_block(ignored_layers=layers),
        Quantization.fp8_dynamic(ignored_layers=layers),
        Quantization.nvfp4(calibration_data=samples, calibration_size=8, calibration_length=64),
        Quantization.mxfp4(),
    ):
        yield {**qwen, "techniques": [technique]}
    reserved = JobSettings(3_600, 1_800, "arn:aws:sagemaker:us-west-2:111122223333:training-plan/llama")
    yield {**qwen, "techniques": [Quantization.fp8_block()], "jobs": reserved}
    unknown = Model.huggingface("acme/mine", revision="a" * 40)
    yield {"model": unknown, "techniques": [Quantization.fp8_block()], "instance_type": "ml.g7e.24xlarge"}
    tuned = Model.huggingface("deepseek-ai/DeepSeek-V3.2", revision="a" * 40)
    yield {"model": tuned, "techniques": [], "instance_type": "ml.p5en.48xlarge"}
    neuron = Compilation.neuron(dtype="bf16", maximum_batch_size=2, optimize_level=3, maximum_sequence_length=64)
    yield {"techniques": [neuron], "instance_type": "ml.trn1.32xlarge"}


def servers_with_settings() -> Iterator[dict[str, Any]]:
    """Recipes of each server with other settings than the defaults, and of each way of SGLang and LMI to speculate."""
    sizes: dict[str, Any] = {"context_length": 4096, "max_concurrent_requests": 8}
    parsers: dict[str, Any] = {"reasoning_parser": "qwen3", "tool_call_parser": "hermes"}
    off: dict[str, Any] = {"prefix_caching": False, "chunked_prefill": False}
    on: dict[str, Any] = {"prefix_caching": True, "chunked_prefill": True}
    adapters = Adapters(max_loaded=2, max_cached=8, max_rank=16)
    of_llama: dict[str, Any] = {"techniques": [], "instance_type": "ml.p4d.24xlarge"}
    for served in (
        Server.vllm(**sizes, **parsers, **off, adapters=adapters),
        Server.lmi(**sizes, **parsers, **off, adapters=adapters),
        Server.sglang(**sizes, **parsers, **off),
        *(server(**on) for server in (Server.vllm, Server.lmi, Server.sglang)),
        Server.text_generation_inference(),
    ):
        yield {**of_llama, "server": served}
    heads, draft = Model.s3("s3://heads/"), Model.s3("s3://drafts/one/")
    for speculation in (
        *(
            SpeculativeDecoding.speculator(model=heads, method=method, speculative_tokens=3)
            for method in ("eagle", "eagle3", "dflash", "dspark", "mtp")
        ),
        SpeculativeDecoding.ngram(),
        SpeculativeDecoding.mtp(),
        SpeculativeDecoding.custom_draft(model=draft),
        SpeculativeDecoding.custom_draft(model=draft, speculative_tokens=2),
    ):
        for server in (Server.sglang(), Server.lmi()):
            yield {**of_llama, "techniques": [speculation], "server": server}
    yield {**of_llama, "techniques": [KvCache.fp8()], "instance_type": "ml.p5.48xlarge", "server": Server.sglang()}


def plans() -> Iterator[Plan]:
    for each in (*techniques_with_settings(), *servers_with_settings()):
        yield plan(Recipe(**recipe(**each)))
    for given in GOOD.values():
        for each in given:
            # A case is valid for its own rule.
            with contextlib.suppress(RecipeError):
                yield plan(Recipe(**recipe(**each)))


def recorded(planned: Plan) -> dict[str, Any]:
    """What the lock file gets of a plan, without the names of images."""
    record = planned.containers.model_dump(mode="json", include={"tuning", "contexts", "artifacts"})
    return {"jobs": sorted(planned.containers.jobs), "servers": sorted(planned.containers.servers), **record}


def planned_values() -> dict[str, list[str]]:
    """The distinct values, as JSON, each in a line."""
    found: dict[str, set[str]] = defaultdict(set)
    for planned in plans():
        described: dict[str, Any] = planned.model_dump(mode="json", exclude_none=True)
        jobs, container = described["jobs"], described["container"]
        named = " + ".join(each["label"] for each in described["techniques"]) or "as published"
        found["memory"].add(f"{planned.instance_type}, {named}: {json.dumps(described.get('memory'))}")
        found["copies"].add(f"{planned.instance_type}: {json.dumps(described.get('copy_requirements'))}")
        found["containers"].add(json.dumps({**container, "image": "", "inference_ami_version": ""}))
        found["records"].add(f"{planned.instance_type}, {named}: {json.dumps(recorded(planned))}")
        for job in jobs:
            request = job["request"]
            # Its code is that of the release.
            request.get("AlgorithmSpecification", {}).pop("ContainerEntrypoint", None)
            keys = ("artifact_key", "recipe_key", "deployment_hash", "image")
            found["jobs"].add(json.dumps({name: value for name, value in job.items() if name not in keys}))
    return {name: sorted(values) for name, values in found.items()}


def test_each_plan_asks_for_what_it_did(snapshot: SnapshotAssertion) -> None:
    assert planned_values() == snapshot.use_extension(JSONSnapshotExtension)
