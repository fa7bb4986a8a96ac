"""The instances, copies and price of an endpoint during its evaluation."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest

from constructs_optim.runtime.evaluation import evaluated_fleet
from constructs_optim.runtime.evaluation.evaluated_fleet import Fleet, fleet
from constructs_optim.runtime.requests.run_properties import EvaluationRequest, Gate, Subject

from ..support.answers import Answers
from .test_gate import request

G5, G6 = "ml.g5.12xlarge", "ml.g6.12xlarge"
FUNCTION = "arn:aws:lambda:us-west-2:111122223333:function:watch"
_TIMES = {"CreationTime": dt.datetime(2026, 1, 1), "LastModifiedTime": dt.datetime(2026, 1, 1)}


def asked(*priced: tuple[str, float | None], **changed: Any) -> EvaluationRequest:
    subjects = tuple(
        Subject(instance_type=name, artifact_key=str(number) * 64, price_per_hour=price)
        for number, (name, price) in enumerate(priced)
    )
    return request(Gate()).model_copy(update={"subjects": subjects, **changed})


def serving(*variants: dict[str, Any]) -> tuple[str, Any]:
    endpoint = {"EndpointName": "chat", "EndpointArn": "arn:aws:sagemaker:us-west-2:111122223333:endpoint/chat"}
    return "describe_endpoint", {
        **endpoint,
        **_TIMES,
        "EndpointStatus": "InService",
        "ProductionVariants": list(variants),
    }


def with_copies(count: int) -> tuple[str, Any]:
    arn = "arn:aws:sagemaker:us-west-2:111122223333:inference-component/chat-llama"
    named = {"InferenceComponentName": "chat-llama", "InferenceComponentArn": arn, "EndpointName": "chat"}
    return "describe_inference_component", {
        **named,
        **_TIMES,
        "EndpointArn": "arn:aws:sagemaker:us-west-2:111122223333:endpoint/chat",
        "InferenceComponentStatus": "InService",
        "RuntimeConfig": {"CurrentCopyCount": count},
    }


def pools(**counts: int) -> list[dict[str, Any]]:
    names = {"g5": G5, "g6": G6}
    return [{"InstanceType": names[name], "CurrentInstanceCount": count} for name, count in counts.items()]


def evaluated(of: EvaluationRequest, *answers: tuple[str, Any]) -> Fleet:
    return fleet(of, Answers(sagemaker=list(answers)).client("sagemaker"), "us-west-2", FUNCTION)


def test_a_variant_has_its_instances_and_their_stated_price() -> None:
    found = evaluated(asked((G5, 7.0)), serving({"VariantName": "AllTraffic", "CurrentInstanceCount": 3}))
    assert found == Fleet("0" * 64, G5, 3, 3, 21.0, "stated", ())


def test_only_the_evaluated_variant_counts() -> None:
    variants = ({"VariantName": "Blue", "CurrentInstanceCount": 5}, {"VariantName": "Green", "CurrentInstanceCount": 2})
    assert evaluated(asked((G5, 7.0), variant_name="Green"), serving(*variants)).count == 2
    assert evaluated(asked((G5, 7.0)), serving(*variants)).count == 7


@pytest.mark.parametrize(
    "variant",
    [{"VariantName": "AllTraffic"}, {"VariantName": "AllTraffic", "CurrentInstanceCount": 0}],
)
def test_an_endpoint_whose_instances_are_not_known_has_one(variant: dict[str, Any]) -> None:
    found = evaluated(asked((G5, 7.0)), serving(variant))
    assert (found.count, found.copies, found.price_per_hour) == (1, 1, 7.0)


def test_of_several_pools_most_instances_decide_and_all_are_paid() -> None:
    variant = {"VariantName": "AllTraffic", "InstancePools": pools(g5=1, g6=2)}
    found = evaluated(asked((G5, 7.0), (G6, 5.0)), serving(variant))
    note = "Several instance types served at the same time: ml.g5.12xlarge, ml.g6.12xlarge."
    assert found == Fleet("1" * 64, G6, 3, 3, 17.0, "stated", (note,))


def test_a_pool_without_instances_does_not_serve() -> None:
    variant = {"VariantName": "AllTraffic", "InstancePools": pools(g5=0, g6=2)}
    found = evaluated(asked((G5, 7.0), (G6, 5.0)), serving(variant))
    assert (found.instance_type, found.price_per_hour, found.notes) == (G6, 10.0, ())


def test_a_component_is_its_copies_share_of_the_instances() -> None:
    component = {"inference_component_name": "chat-llama", "share_of_instance": 0.25}
    variant = {"VariantName": "AllTraffic", "CurrentInstanceCount": 2}
    found = evaluated(asked((G5, 8.0), **component), serving(variant), with_copies(6))
    assert found == Fleet("0" * 64, G5, 1.5, 6, 12.0, "stated", ())


def test_a_component_in_pools_is_shared_among_them() -> None:
    component = {"inference_component_name": "chat-llama", "share_of_instance": 0.5}
    variant = {"VariantName": "AllTraffic", "InstancePools": pools(g5=1, g6=3)}
    found = evaluated(asked((G5, 8.0), (G6, 4.0), **component), serving(variant), with_copies(2))
    assert (found.instance_type, found.count, found.copies, found.price_per_hour) == (G6, 1.0, 2, 5.0)


def listed(instance_type: str, price: str, unit: str = "Hrs") -> str:
    dimension = {"unit": unit, "pricePerUnit": {"USD": price}}
    terms = {"OnDemand": {"t": {"priceDimensions": {"d": dimension}}}}
    return json.dumps({"product": {"attributes": {"instanceName": instance_type}}, "terms": terms})


def priced(answer: Any, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The Regions of the price list API that are asked, and the requests."""
    pricing, requests = Answers(pricing=[("get_products", answer)]).client("pricing"), []
    pricing.meta.events.register("provide-client-params", lambda params, **_: requests.append(params["Filters"]))

    def client(service: str, *, region: str) -> Any:
        requests.append((service, region))
        return pricing

    monkeypatch.setattr(evaluated_fleet, "client", client)
    return requests


@pytest.mark.parametrize(("partition", "home"), [("aws", "us-east-1"), ("aws-cn", "cn-northwest-1")])
def test_a_price_that_is_not_stated_is_of_the_price_list(
    partition: str, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = priced({"PriceList": [listed(G6, "5.5")]}, monkeypatch)
    answers = Answers(sagemaker=[serving({"VariantName": "AllTraffic", "InstancePools": pools(g5=1, g6=2)})])
    of, arn = asked((G5, 7.0), (G6, None)), FUNCTION.replace("arn:aws:", f"arn:{partition}:")
    found = fleet(of, answers.client("sagemaker"), "eu-west-1", arn)
    assert (found.price_per_hour, found.price_source) == (18.0, "stated and AWS Price List")
    filters = {"regionCode": "eu-west-1", "instanceName": G6, "component": "Hosting"}
    fields = [{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in filters.items()]
    assert requests == [("pricing", home), fields]


@pytest.mark.parametrize("unit", ["Hrs", "hours", "Hour"])
def test_the_price_is_the_lowest_one_for_an_hour(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    prices = [listed(G5, "9", unit), listed(G5, "7", unit), listed(G5, "0", unit), listed(G5, "2", "Quantity")]
    priced({"PriceList": prices}, monkeypatch)
    found = evaluated(asked((G5, None)), serving({"VariantName": "AllTraffic", "CurrentInstanceCount": 1}))
    assert found.price_per_hour == 7


@pytest.mark.parametrize("answer", [{"PriceList": []}, "AccessDeniedException"])
def test_without_a_price_the_report_says_so(answer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    priced(answer, monkeypatch)
    found = evaluated(asked((G5, None)), serving({"VariantName": "AllTraffic", "CurrentInstanceCount": 1}))
    assert (found.price_per_hour, found.price_source) == (None, G5)
    assert found.notes == (
        f"The price of {G5} is unknown, so the report has no price metrics. State it if you know it.",
    )


def test_an_instance_type_that_the_recipe_does_not_name_has_the_first_artifact(monkeypatch: pytest.MonkeyPatch) -> None:
    priced({"PriceList": [listed(G6, "5.5")]}, monkeypatch)
    variant = {"VariantName": "AllTraffic", "InstancePools": pools(g6=1)}
    found = evaluated(asked((G5, 7.0), ("ml.p4d.24xlarge", 30.0)), serving(variant))
    assert (found.artifact_key, found.instance_type, found.price_per_hour) == ("0" * 64, G5, 5.5)


def test_a_partition_without_a_price_list_has_no_price() -> None:
    answers = Answers(sagemaker=[serving({"VariantName": "AllTraffic", "CurrentInstanceCount": 1})])
    arn = FUNCTION.replace("arn:aws:", "arn:aws-us-gov:")
    assert fleet(asked((G5, None)), answers.client("sagemaker"), "us-gov-west-1", arn).price_per_hour is None
