"""The artifact key is stable and changes only with settings that affect the artifact's content."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constructs_optim.recipe import Model, Quantization
from constructs_optim.recipe.keys import artifact_key, canonical
from constructs_optim.recipe.recipe import JobSettings
from constructs_optim.runtime.store import artifact_store

from .recipes import LLAMA_70B, planned


def key(**changed: Any) -> str | None:
    return planned(**changed).jobs[-1].artifact_key


def test_the_artifact_key_of_the_headline_recipe_is_stable() -> None:
    # A new value here rebuilds every artifact of every user: raise KEY_SCHEMA and explain why.
    assert key() == "048a185ba32c1b50c1909396738b8ac08e62540224eecfc392e3d1079a77f336"


@pytest.mark.parametrize(
    "changed",
    [
        {"model": Model.jumpstart(LLAMA_70B, version="2.25.1", accept_eula=True)},
        {"model": Model.jumpstart("huggingface-llm-mistral-7b", version="2.15.0")},
        {"techniques": [Quantization.awq(group_size=64)]},
        {"techniques": [Quantization.awq(ignored_layers=["lm_head"])]},
        {"techniques": [Quantization.awq(tensor_parallel_degree=2)]},
        {"instance_type": "ml.g5.48xlarge"},
        {"instance_type": "ml.g6.12xlarge"},
    ],
)
def test_settings_that_affect_the_artifact_change_its_key(changed: dict[str, Any]) -> None:
    assert key(**changed) != key()


@pytest.mark.parametrize(
    "changed",
    [
        {"region": "eu-central-1"},
        {"environment": {"SM_VLLM_MAX_MODEL_LEN": "8192"}},
        {"jobs": JobSettings(60, 1800, "arn:aws:sagemaker:us-west-2:111122223333:training-plan/llama")},
        {"techniques": (Quantization.awq(),)},
        {"techniques": [Quantization.awq(group_size=128, ignored_layers=[], tensor_parallel_degree=4)]},
        {"instance_type": "ml.g5.24xlarge"},
        {"region": None, "registry": "registry.example.com"},
    ],
)
def test_settings_that_do_not_affect_the_artifact_keep_its_key(changed: dict[str, Any]) -> None:
    assert key(**changed) == key()


def test_the_key_of_an_unpinned_version_is_known_only_at_deployment() -> None:
    assert key(model=Model.jumpstart(LLAMA_70B, accept_eula=True)) is None


def test_the_key_of_a_model_in_s3_is_known_only_at_deployment() -> None:
    assert key(model=Model.s3("s3://models/mine/")) is None


def test_the_deployment_hash_of_a_model_without_jobs_depends_on_its_container() -> None:
    one, again, other = (
        planned(model=Model.s3("s3://models/one/"), techniques=[], environment={"NOTE": note}) for note in "aab"
    )
    assert one.jobs == other.jobs == ()
    assert one.deployment_hash == again.deployment_hash != other.deployment_hash


def test_the_deployment_hash_depends_on_the_source_without_an_artifact_key() -> None:
    hashes = {
        planned(model=Model.s3("s3://models/one/")).deployment_hash,
        planned(model=Model.s3("s3://models/two/")).deployment_hash,
        planned(model=Model.jumpstart(LLAMA_70B, accept_eula=True)).deployment_hash,
        planned().deployment_hash,
    }
    assert len(hashes) == 4


def test_token_numbering_does_not_affect_the_deployment_hash() -> None:
    first = planned(model=Model.s3("s3://${Token[Bucket.12]}/m/"), identity=lambda uri: '{"Ref":"Bucket"}')
    again = planned(model=Model.s3("s3://${Token[Bucket.47]}/m/"), identity=lambda uri: '{"Ref":"Bucket"}')
    assert first.deployment_hash == again.deployment_hash


@given(recipe_key=st.text(), source=st.text())
def test_planner_and_handler_derive_the_same_key(recipe_key: str, source: str) -> None:
    assert artifact_key(recipe_key, source) == artifact_store.artifact_key(recipe_key, source)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(value=st.dictionaries(st.text(), json_values, max_size=6), seed=st.randoms())
def test_canonical_json_does_not_depend_on_key_order(value: dict[str, Any], seed: Any) -> None:
    names = list(value)
    seed.shuffle(names)
    assert canonical({name: value[name] for name in names}) == canonical(value)
