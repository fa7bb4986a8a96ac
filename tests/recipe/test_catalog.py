"""The catalog's data, compared with the service's enums and with the catalog's own look-ups."""

from __future__ import annotations

import json
import re
import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import botocore.session
import pytest

import constructs_optim_local
from constructs_optim.recipe import (
    Compilation,
    FineTune,
    Medusa,
    Model,
    PreOptimized,
    Quantization,
    Sharding,
    SpeculativeDecoding,
    Technique,
)
from constructs_optim.recipe.catalog import (
    availability,
    engine_arguments,
    images,
    instances,
    load,
    machine_images,
    models,
)
from constructs_optim.recipe.catalog.availability import WORKLOAD_CONFIG, is_missing
from constructs_optim.recipe.errors import close_matches
from constructs_optim.recipe.recipe import Recipe
from constructs_optim.recipe.servers import by_name
from constructs_optim.recipe.techniques import REGISTRY, KvCache
from tests.support.documents import CHECKOUT

GPU_3_1, GPU_4_1 = "al2-ami-sagemaker-inference-gpu-3-1", "al2023-ami-sagemaker-inference-gpu-4-1"


def enum(operation: str, *path: str) -> set[str]:
    shape: Any = botocore.session.get_session().get_service_model("sagemaker").operation_model(operation).input_shape
    for member in path:
        shape = shape.member if member == "*" else shape.members[member]
    return set(shape.enum)


@pytest.mark.parametrize(
    "name",
    [
        "models",
        "huggingface_models",
        "engine_arguments",
        "engine_models",
        "instances",
        "images",
        "jumpstart",
        "layers",
        "recommendations",
        "resource_types",
        "towers",
        "attention_backends",
        "weight_schemes",
        "workload",
    ],
)
def test_every_catalog_file_names_its_source_and_date(name: str) -> None:
    assert load(name)["source"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", load(name)["date"])


def test_a_partition_has_its_share_of_the_accelerator_and_of_the_host() -> None:
    whole = instances.by_name()["ml.p5.48xlarge"]
    # Of the seven slices for computing and the eight of memory, mig-3g.40gb has three and four.
    assert whole.partitioned("mig-3g.40gb") == replace(
        whole,
        accelerator_count=1,
        accelerator_memory_mib=40 * 1024,
        memory_mib=128 * 1024,
        memory_bandwidth=1675,
        teraflops={bits: pytest.approx(peak * 3 / 7) for bits, peak in whole.teraflops.items()},
    )


def test_the_tokens_of_layers_with_a_window_are_in_the_cache_too() -> None:
    row = models.ModelRow("acme/mine", "", cache_bytes=4096, window_bytes=1024)
    assert row.key_value_bytes_a_token == 5120


def test_endpoint_instance_types_are_exactly_those_of_the_api() -> None:
    hosting = {row.name for row in instances.by_name().values() if row.hosts_endpoints} | instances.other_names()
    assert hosting == enum("CreateEndpointConfig", "ProductionVariants", "*", "InstanceType")


def test_optimization_instance_types_are_exactly_those_of_the_api() -> None:
    optimizing = {row.name for row in instances.by_name().values() if row.runs_optimization}
    assert optimizing == enum("CreateOptimizationJob", "DeploymentInstanceType")


def test_training_instance_types_are_exactly_those_of_the_api() -> None:
    training = {row.name for row in instances.by_name().values() if row.runs_training}
    assert training == enum("CreateTrainingJob", "ResourceConfig", "InstanceType") & set(instances.by_name())
    assert instances.training_names() == enum("CreateTrainingJob", "ResourceConfig", "InstanceType")


def test_every_instance_type_has_plausible_accelerators() -> None:
    for row in instances.by_name().values():
        assert row.name.startswith(f"ml.{row.family}."), row
        assert 1 <= row.accelerator_count <= 16, row
        assert 8_192 <= row.accelerator_memory_mib <= 300_000, row


BLACKWELL = ("g7", "g7e", "p6-b200")
TECHNIQUES = [
    Quantization.awq(),
    Quantization.fp8(),
    Quantization.smoothquant(),
    SpeculativeDecoding.sagemaker_draft(),
    SpeculativeDecoding.jumpstart_draft(model_id="meta-textgeneration-llama-3-2-1b"),
    SpeculativeDecoding.custom_draft(uri="s3://drafts/one/"),
    SpeculativeDecoding.eagle(),
    SpeculativeDecoding.ngram(),
    Compilation.neuron(),
    Compilation.tensorrt_llm(),
    Sharding.fast_load(),
    PreOptimized(),
    KvCache.fp8(),
    Quantization.fp8_block(checkpoint=Model.s3("s3://models/fp8/")),
    Quantization.fp8_dynamic(),
    Quantization.w4a16(checkpoint=Model.s3("s3://models/w4a16/")),
    Quantization.nvfp4(checkpoint=Model.s3("s3://models/nvfp4/")),
    Quantization.mxfp4(checkpoint=Model.s3("s3://models/mxfp4/")),
    SpeculativeDecoding.speculator(model=Model.s3("s3://models/heads/")),
    SpeculativeDecoding.mtp(),
    FineTune(training_data="s3://data/train/"),
    Medusa(training_data="s3://data/train/"),
]


@pytest.mark.parametrize("technique", TECHNIQUES, ids=lambda technique: technique.name)
def test_every_technique_has_supported_models_instance_types_and_an_image(technique: Technique) -> None:
    recipe = Recipe(None, [technique], None)
    assert [row for row in instances.by_name().values() if row.sdk_lists and recipe.runs_on(technique, row)]
    if technique.job_member or technique.of_hub:
        assert [row for row in models.by_id().values() if technique.support in row.supports]
    assert images.making(technique.makes)
    assert technique.served_by_job_image or images.serving(technique.serves, by_name())


def test_every_factory_is_registered_under_its_kind_and_method() -> None:
    assert {type(technique) for technique in TECHNIQUES} == {
        technique for of_kind in REGISTRY.values() for technique in of_kind.values()
    }


def test_models_support_only_capabilities_of_techniques_or_the_service() -> None:
    known = {technique.support for of_kind in REGISTRY.values() for technique in of_kind.values()} | {"pre_compiled"}
    assert {support for row in models.by_id().values() for support in row.supports} == known - {"kv_cache"}


@pytest.mark.parametrize(
    ("technique", "families", "untested"),
    [
        (Quantization.awq(), {"p4d", "p4de", "p5", "g5", "g6"}, {"g4dn", "g6e", "p5e", "p5en", *BLACKWELL}),
        (Quantization.fp8(), {"p4d", "p4de", "p5", "g5", "g6"}, {"g4dn", "g6e", "p5e", "p5en", *BLACKWELL}),
        (KvCache.fp8(), {"g6", "p5"}, {"g6e", "p5e", "p5en", *BLACKWELL, "p6-b300"}),
        (Compilation.tensorrt_llm(), {"p4d", "p4de", "p5", "g5", "g6"}, {"g6e", "p5e", "p5en"}),
        (Compilation.neuron(), {"inf2", "trn1", "trn1n"}, set()),
    ],
    ids=["awq", "fp8", "fp8_kv_cache", "tensorrt_llm", "neuron"],
)
def test_a_techniques_instance_families_are_derived_from_their_accelerators(
    technique: Technique, families: set[str], untested: set[str]
) -> None:
    recipe = Recipe(None, [technique], None)
    running = [row for row in instances.by_name().values() if recipe.runs_on(technique, row)]
    assert {row.family for row in running if row.sdk_lists} == families
    assert {row.family for row in running if not row.sdk_lists} == untested


def test_every_image_has_a_known_server_or_is_for_training() -> None:
    for row in images.rows():
        assert row.server in by_name() or row.makes in ({"training"}, {"copying"}, {"training", "quantizing"}), row.name


def test_every_trainable_model_has_hidden_and_vocabulary_sizes() -> None:
    trainable = [row for row in models.by_id().values() if "trainable" in row.supports]
    assert {row.family for row in trainable} == {"LLaMA", "LLaMA 3.1", "Mistral"}
    for row in trainable:
        assert row.weight_bits == 16, row.model_id
        assert row.hidden_size, row.model_id
        assert row.vocabulary_size, row.model_id


def test_only_lmi_with_lmi_dist_serves_drafts_of_sagemaker_and_the_engines_all_other_drafts_too() -> None:
    engines = ("vllm", "sglang")
    for row in images.rows():
        generation = re.search(r"lmi(\d+)", row.tag)
        has_lmi_dist = generation is not None and int(generation[1]) <= 14
        assert ("sagemaker_draft" in row.serves) == has_lmi_dist, row.tag
        assert ("draft_model" in row.serves) == (has_lmi_dist or row.server in engines), row.tag
        if "speculative_config" in row.serves:
            assert row.server in engines or (generation is not None and int(generation[1]) >= 15), row.tag


def test_the_catalog_contains_all_models_of_the_support_matrix() -> None:
    rows = models.by_id().values()
    assert len(rows) >= 73
    assert sum("pre_optimized" in row.supports for row in rows) == 11
    assert sum("pre_compiled" in row.supports for row in rows) == 8


def test_every_model_has_a_parameter_count_and_kv_cache_geometry() -> None:
    for row in models.by_id().values():
        assert row.parameters_billion, row.model_id
        assert row.key_value_bytes_a_token, row.model_id


def test_every_model_family_names_the_source_of_its_geometry() -> None:
    sources = load("models")["geometry_sources"]
    assert sources.keys() == {row.family for row in models.by_id().values()}
    assert all(sources.values())


def test_overrides_add_models_and_change_catalog_entries() -> None:
    models.override("acme-chat-12b", supports=["quantization"], gated=False, parameters_billion=12)
    models.override("huggingface-llm-phi-2", gated=True)
    added, changed = models.by_id()["acme-chat-12b"], models.by_id()["huggingface-llm-phi-2"]
    assert (added.supports, added.parameters_billion) == ({"quantization"}, 12)
    assert changed.gated
    assert "quantization" in changed.supports, "columns that the override does not name are kept"


def test_an_override_of_an_unknown_column_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"color; it has .*supports") as refused:
        models.override("acme-chat-12b", color="red")
    assert "model_id" not in str(refused.value)


def test_every_gated_model_has_a_license_with_a_url() -> None:
    gated = [row for row in models.by_id().values() if row.gated]
    assert gated
    for row in gated:
        assert row.license is not None, row.model_id
        assert row.license.name
        assert row.license.url.startswith("https://"), row.model_id


def test_every_registry_has_an_account_and_a_host() -> None:
    for region, account in images.registry_accounts().items():
        assert re.fullmatch(r"\d{12}", account), region
        host = images.registry_host(region)
        assert host is not None
        assert host.startswith(f"{account}.dkr.ecr.{region}.")
    assert images.registry_host("us-west-2") == "763104351884.dkr.ecr.us-west-2.amazonaws.com"
    assert images.registry_host("nowhere-1") is None


def test_every_powertools_layer_account_is_valid_and_its_region_exists() -> None:
    session = botocore.session.get_session()
    known = {
        r
        for partition in session.get_available_partitions()
        for r in session.get_available_regions("lambda", partition)
    }
    for region, account in availability.powertools().accounts.items():
        assert re.fullmatch(r"\d{12}", account), region
    assert set(availability.powertools().accounts) <= known


def test_jobs_prefer_the_image_with_the_whole_toolkit_and_models_the_newest_engine() -> None:
    assert "lmi14" in images.making({"awq"})[0].tag
    newest, older, *_ = images.serving({"awq"}, by_name())
    assert newest.server == older.server == "vllm"
    assert newest.release > older.release
    assert "lmi14" in images.serving({"awq", "sagemaker_draft"}, by_name())[0].tag
    assert images.serving({"awq"}, ["lmi"])[0].engine == "0.26.0"
    assert images.serving({"time_travel"}, by_name()) == []


@pytest.mark.parametrize(
    ("family", "cuda", "expected"),
    [
        *((family, "12.8", GPU_3_1) for family in ("g4dn", "g5", "p4d", "p4de")),
        *((family, "12.8", None) for family in ("g6", "g6e", "g7", "g7e", "p5", "p5e", "p5en", "p6-b200", "p6-b300")),
        *((family, "13.0", GPU_4_1) for family in ("g4dn", "g5", "g6", "g6e", "g7e", "p4d", "p4de", "p5", "p5e")),
        *((family, "13.0", GPU_4_1) for family in ("p5en", "p6-b200")),
        *((family, "13.0", None) for family in ("g7", "p6-b300", "inf2")),
        ("g5", None, None),
        ("g5", "11.8", None),
    ],
)
def test_a_container_needs_a_machine_image_where_the_default_driver_is_too_old(
    family: str, cuda: str | None, expected: str | None
) -> None:
    for row in instances.by_name().values():
        if row.family == family:
            assert machine_images.needed(cuda, row) == expected


def test_the_machine_images_are_those_of_the_api_and_every_gpu_family_has_a_row_with_sources() -> None:
    model = botocore.session.get_session().get_service_model("sagemaker")
    assert set(machine_images.by_name()) == set(model.shape_for("ProductionVariantInferenceAmiVersion").enum)
    rows = load("machine_images")["families"]
    assert set(rows) == {row.family for row in instances.by_name().values() if row.kind == "gpu"}
    assert all(row["sources"] for row in rows.values())


def test_the_local_cloud_has_the_same_drivers_as_the_catalog() -> None:
    path = Path(constructs_optim_local.__file__).parent / "data/drivers.json"
    known, rows = json.loads(path.read_text(encoding="utf-8")), load("machine_images")
    families = rows["families"].items()
    assert known["machine_images"] == {
        name: each["driver"] for name, each in rows["machine_images"].items() if each["driver"] is not None
    }
    assert known["default_drivers"] == {
        name: row["default_driver"] for name, row in families if row["default_driver"] is not None
    }
    assert known["least_drivers"] == {name: row["least_driver"] for name, row in families if "least_driver" in row}
    assert known["cuda"] == {major: row["least_driver"] for major, row in rows["cuda"].items()}


@pytest.mark.parametrize(
    ("mistyped", "intended"),
    [
        ("meta-textgeneration-llama3-70b-instruct", "meta-textgeneration-llama-3-70b-instruct"),
        ("META-TextGeneration-Llama-3-70B", "meta-textgeneration-llama-3-70b"),
        ("  huggingface-llm-mistral-7b ", "huggingface-llm-mistral-7b"),
    ],
)
def test_a_mistyped_model_id_matches_the_intended_model(mistyped: str, intended: str) -> None:
    assert close_matches(mistyped, models.by_id())[0] == intended


def test_an_unrelated_model_id_has_no_close_matches() -> None:
    assert close_matches("zzzzzzzz" * 100, models.by_id()) == []


def test_resource_types_by_region_are_those_of_the_installed_cfn_lint() -> None:
    written, found = load("resource_types"), runpy.run_path(str(CHECKOUT / "tooling/resource_types.py"))["content"]()
    assert {name: written[name] for name in ("regions", "types")} == {
        name: found[name] for name in ("regions", "types")
    }


def test_a_resource_type_counts_as_missing_only_in_known_regions() -> None:
    assert is_missing(WORKLOAD_CONFIG, "eu-west-2")
    assert not is_missing(WORKLOAD_CONFIG, "us-west-2")
    assert not is_missing(WORKLOAD_CONFIG, "a-new-region-1")


def test_images_missing_in_the_region_are_not_selected() -> None:
    capable = images.making({"awq"})
    chosen = images.choose(capable, "awq", "us-iso-east-1", {}).image
    assert chosen is not None
    assert chosen is not capable[0]
    assert "us-iso-east-1" not in chosen.missing_in
    assert images.choose(images.making({"neuron"}), "neuron", "us-west-1", {}).image is None


@pytest.mark.parametrize("recorded", ["old@us-west-2", "old", "awq@us-west-2", "awq"])
def test_an_image_that_is_recorded_under_any_of_its_names_is_kept(recorded: str) -> None:
    newest, older, *_ = images.making({"awq"})
    choice = images.choose([newest, older], "awq", "us-west-2", {recorded: older.name}, earlier="old")
    assert (choice.image, choice.name.partition("@")[0]) == (older, "awq")
    elsewhere = images.choose([newest, older], "awq", "us-west-2", {"old@eu-west-1": older.name}, earlier="old")
    assert elsewhere.image == newest


def test_images_are_listed_as_missing_only_in_regions_with_a_registry() -> None:
    for row in images.rows():
        assert row.missing_in <= set(images.registry_accounts()), row.name


def test_the_arguments_of_releases_that_apps_may_have_recorded_stay_known() -> None:
    releases = ("0.24.0", "0.25.0", "0.25.1", "0.26.0", "0.27.1", "0.28.0", "0.29.0", "0.30.0")
    assert all(engine_arguments.of_release("vllm", release) is not None for release in releases)


def test_an_argument_takes_several_values_if_it_does_in_all_releases() -> None:
    row = runpy.run_path(str(CHECKOUT / "tooling/engine_arguments.py"))["_row"]
    releases = ["1", "2", "3"]
    several, one = {"name": {"many": True}}, {"name": {"takes": "int"}}
    assert row("name", releases, [several, several, several]) == {"many": True}
    assert row("name", releases, [several, one, several]) == {}
    assert row("name", releases, [{}, several, several]) == {"since": "2", "many": True}


@pytest.mark.parametrize(("engine", "name"), [("vllm", "served_model_name"), ("sglang", "lora_paths")])
def test_an_argument_with_several_values_is_text(engine: str, name: str) -> None:
    rows = engine_arguments.of_newest(engine).rows
    assert rows[name].many
    assert [each for each, row in rows.items() if row.many and row.takes is not None] == []
