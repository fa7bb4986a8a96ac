"""Property injectors: defaults of an organization for constructs of this library, and for the CDK's own inside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jsii
import pytest
from aws_cdk import App, IPropertyInjector, PropertyInjectors, Stack, Stage
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Template

from constructs_optim import ArtifactStore, Model, OptimizedEndpoint

_KEY = "arn:aws:kms:us-west-2:111122223333:key/01234567-89ab-cdef-0123-456789abcdef"


@jsii.implements(IPropertyInjector)
class Defaults:
    """What a class gets unless its caller says otherwise."""

    def __init__(self, cls: Any, **defaults: object) -> None:
        self._id, self._defaults = cls.PROPERTY_INJECTION_ID, defaults
        self.seen: list[str] = []

    @property
    def construct_unique_id(self) -> str:
        return self._id

    def inject(self, original_props: Any, *, id: str, scope: Any) -> Any:
        self.seen.append(f"{scope.node.path}/{id}")
        return {**self._defaults, **original_props}


def endpoint(scope: Any, **arguments: Any) -> OptimizedEndpoint:
    given = {"model": Model.s3("s3://models/llama/"), "instance_type": "ml.g5.12xlarge", **arguments}
    return OptimizedEndpoint(scope, "Llama", **given)


def properties(stack: Stack, kind: str) -> Mapping[str, Any]:
    (found,) = Template.from_stack(stack).find_resources(f"AWS::SageMaker::{kind}").values()
    return found["Properties"]


@pytest.mark.parametrize("level", ["app", "stage", "stack"])
def test_an_injector_of_a_scope_sees_the_keywords_and_returns_those_to_use(level: str) -> None:
    injector = Defaults(OptimizedEndpoint, endpoint_name="ours")

    def injectors(of: str) -> list[Any] | None:
        return [injector] if of == level else None

    app = App(property_injectors=injectors("app"))
    stage = Stage(app, "Prod", property_injectors=injectors("stage"))
    stack = Stack(stage, "Chat", property_injectors=injectors("stack"))
    endpoint(stack, techniques=[])
    assert injector.seen == ["Prod/Chat/Llama"]
    assert properties(stack, "Endpoint")["EndpointName"] == "ours"


def test_arguments_of_the_app_and_then_the_nearest_injector_have_precedence() -> None:
    far, near = (Defaults(OptimizedEndpoint, endpoint_name=name) for name in ("far", "near"))
    stack = Stack(App(property_injectors=[far]), "Chat", property_injectors=[near])
    endpoint(stack)
    other = Stack(App(property_injectors=[far]), "Other")
    endpoint(other, endpoint_name="given")
    assert properties(stack, "Endpoint")["EndpointName"] == "near"
    assert properties(other, "Endpoint")["EndpointName"] == "given"
    assert near.seen == ["Chat/Llama"]


def test_injectors_may_be_added_later_and_of_other_classes_change_nothing() -> None:
    stack = Stack(App(), "Chat")
    PropertyInjectors.of(stack).add(Defaults(s3.Bucket))
    endpoint(stack)
    injector = Defaults(OptimizedEndpoint, endpoint_name="later")
    PropertyInjectors.of(stack).add(injector)
    OptimizedEndpoint(stack, id="Later", instance_type="ml.g5.12xlarge")
    assert injector.seen == ["Chat/Later"]


def test_the_store_and_the_bucket_inside_it_have_injectors_of_their_own() -> None:
    bucket = Defaults(s3.Bucket, intelligentTieringConfigurations=[{"name": "all"}])
    stack = Stack(App(property_injectors=[bucket]), "Chat")
    PropertyInjectors.of(stack).add(Defaults(ArtifactStore, encryption_key=kms.Key.from_key_arn(stack, "Key", _KEY)))
    endpoint(stack)
    Template.from_stack(stack).has_resource_properties(
        "AWS::S3::Bucket",
        {
            "BucketEncryption": {
                "ServerSideEncryptionConfiguration": [
                    {"BucketKeyEnabled": True, "ServerSideEncryptionByDefault": {"KMSMasterKeyID": _KEY}}
                ]
            },
            "IntelligentTieringConfigurations": [{"Id": "all"}],
        },
    )


def test_an_injector_that_returns_a_wrong_type_is_refused() -> None:
    misspelt = Stack(App(property_injectors=[Defaults(OptimizedEndpoint, encrypton_key=None)]), "Chat")
    with pytest.raises(TypeError, match=r"Defaults.inject.*'encrypton_key' \(did you mean encryption_key"):
        endpoint(misspelt)
    nothing = Defaults(OptimizedEndpoint)
    nothing.inject = lambda *_, **__: None  # type: ignore[method-assign]
    with pytest.raises(
        TypeError, match=r"Defaults.inject returned None, and OptimizedEndpoint needs a mapping of argument names"
    ):
        endpoint(Stack(App(property_injectors=[nothing]), "Chat"))
