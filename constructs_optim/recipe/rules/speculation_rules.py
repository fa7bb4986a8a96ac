"""Rules about speculation in production: training data that endpoints captured, and cures for drafts that decay."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

from constructs_optim.recipe.hosting.alarms import Alarms
from constructs_optim.recipe.hosting.speculation import Speculation, SpeculationCure
from constructs_optim.recipe.metrics import engines
from constructs_optim.recipe.recipe import Recipe
from constructs_optim.recipe.settings import Settings
from constructs_optim.recipe.techniques import SpeculativeDecoding
from constructs_optim.recipe.techniques.captured import CapturedEndpoint, CapturedTraffic
from constructs_optim.recipe.techniques.speculative_decoding import EagleHeads
from constructs_optim.recipe.tokens import is_known

from .registry import API, Finding, rule

_FORMATS = f"{API}ModelSpeculativeDecodingConfig.html"


@rule("OPT210", CapturedTraffic.rule_link)
def _captured_period_has_a_name(_: Settings) -> Iterator[Finding]:
    """Captured traffic is of a day or a month: data capture writes the files of each below a prefix of their own."""
    # Enforced when the settings are created.
    yield from ()


def _captured(recipe: Recipe) -> Iterator[tuple[str, CapturedTraffic]]:
    for location, heads in recipe.techniques_of(SpeculativeDecoding.eagle):
        if isinstance(heads.training_data, CapturedTraffic):
            yield f"{location}.training_data", heads.training_data


@rule("OPT211", f"{API}DataCaptureConfig.html")
def _captured_period_is_over(recipe: Recipe) -> Iterator[Finding]:
    """Training data is captured in a period that is over: captures grow, so each deployment would train anew."""
    for location, captured in _captured(recipe):
        if captured.grows_at(dt.datetime.now(dt.UTC)):
            fix = 'a day or a month that is over, in UTC: captured.during("2026-11")'
            yield Finding(f"{location}.period", captured.period, fix)


@rule("OPT212", _FORMATS)
def _captured_data_can_be_trained_on(recipe: Recipe) -> Iterator[Finding]:
    """Captured training data can be read: SageMaker trains on unencrypted captures that have request and response."""
    for location, captured in _captured(recipe):
        if not (captured.requests and captured.responses):
            missing = "responses" if captured.requests else "requests"
            reason = f"heads learn from requests and their answers, and the captures have no {missing}"
            yield Finding(location, captured.uri, "DataCapture(requests=True, responses=True)", reason)
        if captured.encryption_key_arn is not None:
            fix = "DataCapture without encryption_key, or a copy that constructs-optim captures writes"
            reason = "AWS names unencrypted captured data alone, and data capture encrypts it with a KMS key"
            yield Finding(f"{location}.encryption_key", captured.encryption_key_arn, fix, reason)


@rule("OPT213", f"{API}DataCaptureConfig.html")
def _captures_are_there(endpoint: CapturedEndpoint) -> Iterator[Finding]:
    """An endpoint with captured traffic captures: without data capture there are no files to train on or to replay."""
    if not endpoint.sampling_percentage:
        has_capture = endpoint.sampling_percentage is not None
        location = "data_capture.sampling_percentage" if has_capture else "data_capture"
        fix = "1 to 100" if has_capture else "DataCapture(bucket=...)"
        yield Finding(location, endpoint.sampling_percentage, fix)


@rule("OPT214", engines.SOURCE)
def _decay_is_a_share(alarms: Alarms) -> Iterator[Finding]:
    """A decay is a share of the acceptance length: 90 is a tenth less than in the last 23 hours, and 100 is always."""
    settings = alarms.switched_on().get("acceptance_decay")
    threshold = settings.threshold if settings is not None else None
    if is_known(threshold) and not 0 < threshold < 100:
        yield Finding("alarms.acceptance_decay.threshold", threshold, "above 0 and below 100, such as 90")


@rule("OPT215", SpeculationCure.rule_link)
def _cure_fits_the_drafts(speculation: Speculation) -> Iterator[Finding]:
    """A cure fits the drafts: it changes what the recipe has of speculative decoding, when its alarm goes off."""
    cure, technique = speculation.cure, speculation.technique
    location = "monitoring.speculation_cure"
    if technique is None:
        yield Finding(location, cure.kind, "a recipe with SpeculativeDecoding", "the recipe has no drafts")
        return
    if speculation.alarms.acceptance_decay is False and "acceptance_decay" in speculation.alarms.model_fields_set:
        fix, reason = "leave it out, or AlarmSettings(threshold=90)", "the alarm is what calls for the cure"
        yield Finding("monitoring.alarms.acceptance_decay", False, fix, reason)
    if cure.kind == "shorter_drafts":
        tokens: int | None = getattr(technique, "speculative_tokens", None)
        if tokens is not None and (cure.speculative_tokens or 0) >= tokens:
            fix = f"1 to {tokens - 1}" if tokens > 1 else "SpeculationCure.drafts_off()"
            reason = f"{technique.display_name()} proposes {tokens}"
            yield Finding(f"{location}.speculative_tokens", cure.speculative_tokens, fix, reason)
    if cure.kind == "train_anew" and not isinstance(technique, EagleHeads):
        reason = f"{technique.display_name()} is not trained by a job"
        yield Finding(location, cure.kind, "SpeculationCure.restart(), or SpeculativeDecoding.eagle()", reason)
    elif cure.kind == "train_anew" and not speculation.hosting.capture_percentage:
        reason = "the heads would be trained on what the endpoint captures"
        yield Finding("data_capture", speculation.hosting.capture_percentage, "DataCapture(bucket=...)", reason)


@rule("OPT216", SpeculationCure.rule_link)
def _restart_replaces_a_fleet(speculation: Speculation) -> Iterator[Finding]:
    """A cure is for a variant that serves the model: a restart moves the endpoint to a second configuration with the
    same content.
    """
    hosting = speculation.hosting
    if hosting.serves_components:
        reason = "no page of AWS's says that an update of an endpoint starts the copies of its components anew"
        fix = "a variant that serves the model itself, or Alarms(acceptance_decay=True) without a cure"
        yield Finding("inference_component", True, fix, reason)
    if speculation.cure.kind == "restart" and hosting.existing_configuration is not None:
        reason = "the endpoint keeps a configuration that CloudFormation does not have"
        yield Finding("variant.existing_configuration", hosting.existing_configuration, "without it", reason)
