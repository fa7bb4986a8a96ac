"""Rules for speculative decoding in production: captured training data, and cures when the acceptance length decays."""

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
    """Captured traffic covers a day or a month: data capture writes the files of each day and month under their own
    prefix.
    """
    # The class of the settings enforces this rule.
    yield from ()


def _captured(recipe: Recipe) -> Iterator[tuple[str, CapturedTraffic]]:
    for location, heads in recipe.techniques_of(SpeculativeDecoding.eagle):
        if isinstance(heads.training_data, CapturedTraffic):
            yield f"{location}.training_data", heads.training_data


@rule("OPT211", f"{API}DataCaptureConfig.html")
def _captured_period_is_over(recipe: Recipe) -> Iterator[Finding]:
    """The capture period of training data is over: captures still grow, so each deployment would train again."""
    for location, captured in _captured(recipe):
        if captured.grows_at(dt.datetime.now(dt.UTC)):
            fix = 'a day or a month in the past, in UTC: captured.during("2026-11")'
            yield Finding(f"{location}.period", captured.period, fix)


@rule("OPT212", _FORMATS)
def _captured_data_can_be_trained_on(recipe: Recipe) -> Iterator[Finding]:
    """Captured training data is readable: SageMaker trains on unencrypted captures with requests and responses."""
    for location, captured in _captured(recipe):
        if not (captured.requests and captured.responses):
            missing = "responses" if captured.requests else "requests"
            reason = f"heads learn from requests and responses, but the captures have no {missing}"
            yield Finding(location, captured.uri, "DataCapture(requests=True, responses=True)", reason)
        if captured.encryption_key_arn is not None:
            fix = "data_capture without encryption_key, or a copy from `constructs-optim captures`"
            reason = "AWS documents training only on unencrypted captures, but these are encrypted with a KMS key"
            yield Finding(f"{location}.encryption_key", captured.encryption_key_arn, fix, reason)


@rule("OPT213", f"{API}DataCaptureConfig.html")
def _captures_are_there(endpoint: CapturedEndpoint) -> Iterator[Finding]:
    """An endpoint with captured traffic has data capture: without it, there are no files to train on or replay."""
    if not endpoint.sampling_percentage:
        has_capture = endpoint.sampling_percentage is not None
        location = "data_capture.sampling_percentage" if has_capture else "data_capture"
        fix = "1 to 100" if has_capture else "DataCapture(bucket=...)"
        yield Finding(location, endpoint.sampling_percentage, fix)


@rule("OPT214", engines.SOURCE)
def _decay_is_a_share(alarms: Alarms) -> Iterator[Finding]:
    """The decay threshold is a percentage of the acceptance length: 90 means a 10% drop below the last 23 hours. A step
    yields at least one token, so that less than 1% is never left of it.
    """
    settings = alarms.switched_on().get("acceptance_decay")
    threshold = settings.threshold if settings is not None else None
    if is_known(threshold) and not 1 <= threshold < 100:
        yield Finding("alarms.acceptance_decay.threshold", threshold, "at least 1 and below 100, such as 90")


@rule("OPT215", SpeculationCure.rule_link)
def _cure_fits_the_drafts(speculation: Speculation) -> Iterator[Finding]:
    """A cure fits the recipe's speculative decoding: a cure changes the drafts when the decay alarm goes into ALARM."""
    cure, technique = speculation.cure, speculation.technique
    location = "monitoring.speculation_cure"
    if technique is None:
        yield Finding(
            location, cure.kind, "a recipe with speculative decoding", "the recipe does not use speculative decoding"
        )
        return
    if speculation.alarms.acceptance_decay is False and "acceptance_decay" in speculation.alarms.model_fields_set:
        fix, reason = "leave it out, or AlarmSettings(threshold=90)", "this alarm triggers the cure"
        yield Finding("monitoring.alarms.acceptance_decay", False, fix, reason)
    if cure.kind == "shorter_drafts":
        tokens: int | None = getattr(technique, "speculative_tokens", None)
        if tokens is not None and (cure.speculative_tokens or 0) >= tokens:
            fix = f"1 to {tokens - 1}" if tokens > 1 else "SpeculationCure.drafts_off()"
            reason = f"{technique.display_name()} already drafts {tokens} token{'s' if tokens > 1 else ''}"
            yield Finding(f"{location}.speculative_tokens", cure.speculative_tokens, fix, reason)
    if cure.kind == "train_anew" and not isinstance(technique, EagleHeads):
        reason = f"no job trains {technique.display_name()}"
        yield Finding(location, cure.kind, "SpeculationCure.restart(), or SpeculativeDecoding.eagle()", reason)
    elif cure.kind == "train_anew" and not speculation.hosting.capture_percentage:
        reason = "the job trains the heads on the traffic that the endpoint captures"
        yield Finding("data_capture", speculation.hosting.capture_percentage, "DataCapture(bucket=...)", reason)


@rule("OPT216", SpeculationCure.rule_link)
def _restart_replaces_a_fleet(speculation: Speculation) -> Iterator[Finding]:
    """A cure needs a variant that serves the model: a restart updates the endpoint to a second configuration with the
    same content.
    """
    hosting = speculation.hosting
    if hosting.serves_components:
        reason = "AWS does not document that an endpoint update restarts the copies of inference components"
        fix = "a variant that serves the model, or alarms=Alarms(acceptance_decay=True) without a cure"
        yield Finding("inference_component", True, fix, reason)
    if speculation.cure.kind == "restart" and hosting.existing_configuration is not None:
        reason = "the endpoint keeps a configuration that CloudFormation does not manage"
        yield Finding("variant.existing_configuration", hosting.existing_configuration, "leave it out", reason)
