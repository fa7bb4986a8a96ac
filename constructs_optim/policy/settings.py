"""A platform team's policy: which rules are on, how strictly, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType

from .setting_checks import Mistake, Severity, is_list_or_tuple, is_mapping, mistakes_in


class PolicyError(ValueError):
    """A policy with wrong settings. Its text lists all mistakes; ``mistakes`` has them as data."""

    def __init__(self, mistakes: Iterable[Mistake]) -> None:
        self.mistakes: tuple[Mistake, ...] = tuple(mistakes)
        count = len(self.mistakes)
        heading = f"the policy has {count} mistake{'s' if count > 1 else ''}:"
        super().__init__("\n".join([heading, *(f"  {mistake}" for mistake in self.mistakes)]))


def _switches_on(rule_id: str) -> Mapping[str, str]:
    return {"rule": rule_id}


@dataclass(frozen=True, kw_only=True)
class PlatformPolicy:
    """What a platform team allows. Each setting switches its rule on; ``docs/policy.md`` has the rules.

    Attributes:
        allowed_instance_types: what endpoints may run on: types, or patterns such as ``ml.g5.*``.
        allowed_job_instance_types: the same for jobs: what optimization jobs make artifacts for, and training jobs run
            on.
        max_price_per_hour: the most that one instance of an endpoint may cost in an hour, in US dollars.
        max_monthly_cost: the most that an endpoint may cost in a month of 730 hours with as many instances as its
            scaling may launch, in US dollars.
        required_techniques: what every model must have: kinds such as ``quantization``, or one of a kind, as
            ``quantization=awq``.
        forbidden_techniques: what no model may have, written alike.
        accepted_licenses: what legal has accepted: names of licences, ids of JumpStart models and S3 URIs; ids and URIs
            may be patterns.
        pinned_model_versions: whether JumpStart models need a version.
        kms_required: whether all that is stored is encrypted with KMS keys of your own.
        vpc_required: whether models and jobs reach the network through a VPC.
        network_isolation_required: whether models are cut off from the network.
        autoscaling_required: whether endpoints and inference components scale.
        alarm_actions_required: whether each endpoint and inference component has an alarm with an action.
        evaluation_gate_required: whether each endpoint and inference component is evaluated when it is deployed, with
            requirements to meet.
        instance_prices: what an instance costs in an hour, in US dollars, by its type; synthesis calls no price list.
        severities: what findings do, by the rules' ids: ``error`` fails synthesis until it is acknowledged, ``fatal``
            whether it is or not, ``warning`` is shown. Default: ``error``.
        reasons: your own words for why a rule is there, by the rules' ids. They follow the library's.

    Raises:
        PolicyError: with all that is wrong with the settings.
    """

    allowed_instance_types: Sequence[str] | None = field(default=None, metadata=_switches_on("POL001"))
    allowed_job_instance_types: Sequence[str] | None = field(default=None, metadata=_switches_on("POL002"))
    max_price_per_hour: float | None = field(default=None, metadata=_switches_on("POL003"))
    max_monthly_cost: float | None = field(default=None, metadata=_switches_on("POL004"))
    required_techniques: Sequence[str] | None = field(default=None, metadata=_switches_on("POL010"))
    forbidden_techniques: Sequence[str] | None = field(default=None, metadata=_switches_on("POL011"))
    accepted_licenses: Sequence[str] | None = field(default=None, metadata=_switches_on("POL020"))
    pinned_model_versions: bool = field(default=False, metadata=_switches_on("POL021"))
    kms_required: bool = field(default=False, metadata=_switches_on("POL030"))
    vpc_required: bool = field(default=False, metadata=_switches_on("POL031"))
    network_isolation_required: bool = field(default=False, metadata=_switches_on("POL032"))
    autoscaling_required: bool = field(default=False, metadata=_switches_on("POL040"))
    alarm_actions_required: bool = field(default=False, metadata=_switches_on("POL041"))
    evaluation_gate_required: bool = field(default=False, metadata=_switches_on("POL042"))
    instance_prices: Mapping[str, float] = field(default_factory=dict[str, float], hash=False)
    severities: Mapping[str, Severity] = field(default_factory=dict[str, Severity], hash=False)
    reasons: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)

    def __post_init__(self) -> None:
        settings = {setting.name: getattr(self, setting.name) for setting in fields(self)}
        switched_on = {setting for setting in SETTING_BY_RULE.values() if self.is_on(setting)}
        mistakes = mistakes_in(settings, SETTING_BY_RULE, switched_on)
        if mistakes:
            raise PolicyError(mistakes)
        # The caller may change its lists and mappings later; a policy does not change with them.
        for name, value in settings.items():
            object.__setattr__(self, name, _frozen(value))

    def is_on(self, setting: str) -> bool:
        """Whether a setting switches its rule on. A list does even when it is empty: nothing is allowed then."""
        return getattr(self, setting) not in (None, False)

    def severity_of(self, rule: str) -> Severity:
        """What findings of a rule do to synthesis."""
        return self.severities.get(rule, "error")

    def with_own_reason(self, rule: str, reason: str) -> str:
        """A finding's reason, and the team's own."""
        own = self.reasons.get(rule)
        return f"{reason} ({own.strip()})" if own is not None else reason


SETTING_BY_RULE: Mapping[str, str] = {
    setting.metadata["rule"]: setting.name for setting in fields(PlatformPolicy) if "rule" in setting.metadata
}
"""The setting that switches a rule on, by the rule's id."""


def _frozen(value: object) -> object:
    if is_mapping(value):
        return MappingProxyType(dict(value))
    return tuple(value) if is_list_or_tuple(value) else value
