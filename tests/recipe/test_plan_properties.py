"""Properties of every valid recipe's plan."""

from __future__ import annotations

from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from constructs_optim.recipe import (
    Compilation,
    Model,
    Plan,
    Quantization,
    Recipe,
    RecipeError,
    Sharding,
    SpeculativeDecoding,
    Technique,
    plan,
)
from constructs_optim.recipe.recipe import JobSettings

layers = st.lists(st.sampled_from(["lm_head", "gate", "mlp"]), unique=True, max_size=3)
quantizations = st.one_of(
    st.builds(Quantization.awq, group_size=st.sampled_from([32, 64, 128]), ignored_layers=layers),
    st.builds(
        Quantization.fp8,
        scheme=st.sampled_from(["FP8", "FP8_DYNAMIC"]),
        calibration_size=st.integers(1, 4096),
        ignored_layers=layers,
    ),
)
drafts = st.one_of(
    st.builds(SpeculativeDecoding.sagemaker_draft, speculative_tokens=st.integers(1, 8)),
    st.builds(SpeculativeDecoding.custom_draft, uri=st.sampled_from(["s3://drafts/one/", "s3://drafts/two/"])),
)
stacks: st.SearchStrategy[list[Technique]] = st.one_of(
    quantizations.map(lambda q: [q]),
    st.tuples(quantizations, drafts).map(list),
    st.tuples(quantizations, st.just(Sharding.fast_load())).map(list),
    st.builds(
        Compilation.tensorrt_llm,
        maximum_input_length=st.integers(16, 4096),
        maximum_output_length=st.integers(16, 4096),
        maximum_batch_size=st.integers(1, 64),
    ).map(lambda c: [c]),
)
versions = st.tuples(*[st.integers(0, 99)] * 3).map(lambda parts: ".".join(map(str, parts)))
recipes = st.fixed_dictionaries(
    {
        "model_id": st.sampled_from(["meta-textgeneration-llama-3-8b", "huggingface-llm-mistral-7b"]),
        "version": versions,
        "techniques": stacks,
        "instance_type": st.sampled_from(["ml.g5.12xlarge", "ml.g5.48xlarge", "ml.p4d.24xlarge", "ml.g6.12xlarge"]),
    }
)


def planned(recipe: dict[str, Any], **changed: Any) -> Plan:
    arguments = {"region": "us-west-2", **recipe, **changed}
    model = Model.jumpstart(arguments.pop("model_id"), version=arguments.pop("version"), accept_eula=True)
    return plan(Recipe(model=model, **arguments))


def keys(result: Plan) -> list[str | None]:
    return [job.artifact_key for job in result.jobs]


@given(recipe=recipes)
def test_planning_twice_gives_the_same_plan(recipe: dict[str, Any]) -> None:
    assert planned(recipe) == planned(recipe)
    assert planned(recipe).model_dump_json() == planned(recipe).model_dump_json()


@given(
    recipe=recipes,
    region=st.sampled_from(["us-west-2", "eu-west-1", "ap-south-1"]),
    environment=st.dictionaries(
        st.from_regex(r"MY_[A-Z]{1,9}", fullmatch=True), st.text("abc", max_size=9), max_size=5
    ),
    jobs=st.builds(
        JobSettings,
        st.integers(60, 400_000),
        st.none() | st.integers(1800, 400_000),
        st.sampled_from([None, "${Token[Plan.1]}"]),
    ),
)
def test_settings_that_do_not_affect_artifacts_keep_every_key(recipe: dict[str, Any], **irrelevant: Any) -> None:
    assert keys(planned(recipe, **irrelevant)) == keys(planned(recipe))


@given(recipe=recipes, order=st.randoms())
def test_the_order_of_techniques_does_not_change_any_key(recipe: dict[str, Any], order: Any) -> None:
    shuffled = list(recipe["techniques"])
    order.shuffle(shuffled)
    assert keys(planned(recipe, techniques=shuffled)) == keys(planned(recipe))


@given(recipe=recipes, version=versions)
def test_another_version_of_the_model_changes_every_key(recipe: dict[str, Any], version: str) -> None:
    assume(version != recipe["version"])
    other = keys(planned(recipe, version=version))
    assert not set(other) & set(keys(planned(recipe)))


@given(one=recipes, other=recipes)
def test_two_jobs_share_a_key_exactly_when_their_artifacts_are_equal(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    def first(recipe: dict[str, Any]) -> tuple[Any, ...]:
        result = planned(recipe)
        configs = [
            {member: {k: v for k, v in body.items() if k != "Image"} for member, body in config.items()}
            for config in result.jobs[0].request["OptimizationConfigs"]
        ]
        return result.source.model_dump_json(), result.accelerator, result.jobs[0].image, str(configs)

    assert (first(one) == first(other)) == (keys(planned(one))[0] == keys(planned(other))[0])


@given(recipe=recipes, degree=st.sampled_from([1, 2, 4]))
def test_another_tensor_parallel_degree_changes_every_key(recipe: dict[str, Any], degree: int) -> None:
    first, *others = recipe["techniques"]
    changed = first.model_copy(update={"tensor_parallel_degree": degree})
    before = planned(recipe)
    assume(before.tensor_parallel_degree != degree)
    try:
        after = planned(recipe, techniques=[changed, *others])
    except RecipeError:
        assume(False)
        return
    assert not set(keys(after)) & set(keys(before))
