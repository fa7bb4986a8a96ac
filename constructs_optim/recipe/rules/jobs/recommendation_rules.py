"""Rules about recommendation jobs: what they can be asked, and where."""

from __future__ import annotations

import re
from collections.abc import Iterator

from constructs_optim.recipe.catalog import recommendations
from constructs_optim.recipe.errors import close_matches
from constructs_optim.recipe.given import is_sequence
from constructs_optim.recipe.hosting import CapacityReservation
from constructs_optim.recipe.model import Model
from constructs_optim.recipe.recommendation.request import RecommendationRequest
from constructs_optim.recipe.rules.registry import Finding, rule
from constructs_optim.recipe.tokens import is_token

_JOBS = "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateAIRecommendationJob.html"
_GUIDE = "https://docs.aws.amazon.com/sagemaker/latest/dg/generative-ai-inference-recommendations.html"
_START = "https://docs.aws.amazon.com/sagemaker/latest/dg/generative-ai-inference-recommendations-get-started.html"
_S3_PREFIX = re.compile(r"(?=.{1,1024}\Z)s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/\S*)?")
_ARCHIVES = (".tar.gz", ".tgz", ".tar", ".zip")
_RESERVATION = re.compile(r"(?=.{1,256}\Z)arn:aws[a-z-]*:sagemaker:[a-z0-9-]*:\d{12}:[a-z0-9-]{1,14}/\S+")


@rule(
    "OPT150",
    title="A recommendation is for model files in S3",
    reason="a recommendation job reads a Hugging Face checkpoint with safetensors weights under an S3 prefix",
    link=_START,
)
def _model_is_in_s3(request: RecommendationRequest) -> Iterator[Finding]:
    model, example = request.model, 'Model.s3("s3://my-bucket/models/llama/")'
    if not isinstance(model, Model):
        yield Finding("model", model, example)
    elif model.kind != "s3":
        reason = "a recommendation job cannot look a model up in a hub"
        yield Finding("model", str(model), f"its files in a bucket of yours: {example}", reason=reason)
    elif not is_token(model.uri):
        keeps = _S3_PREFIX.fullmatch(model.uri)
        if not keeps or model.uri.lower().endswith(_ARCHIVES):
            yield Finding("model.uri", model.uri, f"the prefix of uncompressed files, such as {example}")


@rule(
    "OPT151",
    title="A recommendation has one goal",
    reason="a recommendation job is given exactly one metric to rank by",
    link=_JOBS,
)
def _goal_is_known(request: RecommendationRequest) -> Iterator[Finding]:
    goal, metrics = request.optimize_for, recommendations.metrics()
    if isinstance(goal, str) and goal in metrics:
        return
    ours = [name for name, metric in metrics.items() if metric == goal]
    yield Finding("optimize_for", goal, ours[0] if ours else f"one of {', '.join(metrics)}")


@rule(
    "OPT152",
    title="A recommendation tries instance types that its jobs know",
    reason="a recommendation job tries one to three instance types of its own list, all with GPUs",
    link=_JOBS,
)
def _instance_types_are_known(request: RecommendationRequest) -> Iterator[Finding]:
    given, known, most = request.instance_types, recommendations.instance_types(), recommendations.most_instance_types()
    if given is None:
        return
    if isinstance(given, str) or not is_sequence(given):
        yield Finding("instance_types", given, 'a list, such as ["ml.g6e.12xlarge"]')
        return
    if not 0 < len(given) <= most:
        yield Finding("instance_types", list(given), f"one to {most}; or leave it out, for the service to choose")
    for place, name in enumerate(given):
        if name in given[:place]:
            yield Finding(f"instance_types[{place}]", name, "each once", reason="it is listed already")
        elif not is_token(name) and name not in known:
            near = close_matches(str(name), known)
            works = f"did you mean {' or '.join(near)}?" if near else f"one of {', '.join(known)}"
            yield Finding(f"instance_types[{place}]", name, works)


@rule(
    "OPT153",
    title="A recommendation is for a framework that its jobs serve with",
    reason="a recommendation job serves the model with one of these frameworks, or with the one it finds best",
    link=_JOBS,
)
def _framework_is_known(request: RecommendationRequest) -> Iterator[Finding]:
    names = recommendations.frameworks()
    if request.framework is not None and request.framework not in names:
        yield Finding("framework", request.framework, f"{' or '.join(names)}; or leave it out")


@rule(
    "OPT154",
    title="The region has recommendation jobs",
    reason="the developer guide lists the regions that have them, and this is none",
    link=_GUIDE,
)
def _region_has_jobs(request: RecommendationRequest) -> Iterator[Finding]:
    if request.region is not None and request.region not in recommendations.regions():
        listed = ", ".join(recommendations.regions())
        yield Finding("region", request.region, f"a stack in one of {listed}, with the model's bucket there")


@rule(
    "OPT155",
    title="A recommendation's capacity reservations are named by their ARNs",
    reason="a recommendation job finds a reservation by its ARN, and launches nothing outside those it is given",
    link=_JOBS,
)
def _reservations_are_arns(request: RecommendationRequest) -> Iterator[Finding]:
    example = 'CapacityReservation(arn="arn:aws:sagemaker:us-west-2:111122223333:training-plan/llama")'
    for place, reservation in enumerate(request.capacity_reservations):
        if not isinstance(reservation, CapacityReservation):
            yield Finding(f"capacity_reservations[{place}]", reservation, example)
        elif not is_token(reservation.arn) and not _RESERVATION.fullmatch(str(reservation.arn)):
            yield Finding(f"capacity_reservations[{place}].arn", reservation.arn, example)
