"""A platform team's policy: the enabled rules, their severities and reasons."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal, TypeVar

from pydantic import AfterValidator, Field, StringConstraints
from pydantic_core import PydanticCustomError

from constructs_optim.recipe.catalog import instances, models
from constructs_optim.recipe.documentation import page
from constructs_optim.recipe.errors import RecipeError, Violation, close_matches, did_you_mean
from constructs_optim.recipe.settings import Settings
from constructs_optim.recipe.techniques import REGISTRY

Severity = Literal["error", "warning", "fatal"]
"""The effect of a finding: ``error`` fails synthesis unless you acknowledge it, ``fatal`` always fails synthesis, and
``warning`` only shows a message."""


class PolicyError(RecipeError):
    """A policy has invalid settings. The message lists all mistakes; ``violations`` has them as data."""

    subject: ClassVar[str] = "the policy has"
    noun: ClassVar[str] = "mistake"


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Return whether a name matches one of the patterns, such as ``ml.g5.*``."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _unknown(expected: str, near: list[str]) -> PydanticCustomError:
    fix = f"did you mean {' or '.join(near)}? Expected: {expected}" if near else expected
    return PydanticCustomError("unknown_name", "{fix}", {"fix": fix})


def _instance_type(pattern: str) -> str:
    known = instances.by_name().keys() | instances.other_names()
    if not any(matches(name, [pattern]) for name in known):
        spelled = pattern if pattern.startswith("ml.") else f"ml.{pattern}"
        near = [spelled] if any(matches(name, [spelled]) for name in known) else close_matches(spelled, known)
        raise _unknown("a SageMaker endpoint instance type, or a pattern such as ml.g5.*", near)
    return pattern


def _technique(name: str) -> str:
    known = [*REGISTRY, *(f"{kind}={method}" for kind, methods in REGISTRY.items() for method in methods)]
    if name not in known:
        near = [other for other in known if other.endswith(f"={name}")] or close_matches(name, known)
        raise _unknown(f"one of {', '.join(known)}", near)
    return name


def _license(pattern: str) -> str:
    licenses = sorted({row.license.name for row in models.by_id().values() if row.license is not None})
    known = {name.lower(): name for name in (*licenses, *models.by_id())}
    # Hugging Face IDs have a slash, and no catalog lists them all.
    if "/" not in pattern and not any(matches(name, [pattern]) for name in known.values()):
        near = [known[name] for name in close_matches(pattern, known)]
        kinds = "a JumpStart model ID or a pattern, a Hugging Face model ID, or an S3 URI"
        raise _unknown(f"one of {', '.join(licenses)}, {kinds}", near)
    return pattern


_Item = TypeVar("_Item")
# Copies, so that later changes to the caller's lists and mappings do not change the policy.
_List = Annotated[Sequence[_Item], AfterValidator(tuple)]
_Mapping = Annotated[Mapping[str, _Item], AfterValidator(MappingProxyType), Field(validate_default=True)]
_Reason = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
_Dollars = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_InstanceType = Annotated[str, AfterValidator(_instance_type)]
_Technique = Annotated[str, AfterValidator(_technique)]
_License = Annotated[str, AfterValidator(_license)]


class PlatformPolicy(Settings):
    """The policy of a platform team. Each setting enables its rule.

    https://constructs-optim.dev/policy/ describes the rules.

    Attributes:
        allowed_instance_types: the instance types that endpoints can use: types, or patterns such as ``ml.g5.*``.
        allowed_job_instance_types: the same for jobs: deployment instance types of optimization jobs, and instance
            types of training jobs.
        max_price_per_hour: the maximum price of one instance of an endpoint, in US dollars per hour.
        max_monthly_cost: the maximum cost of an endpoint at maximum capacity, in US dollars per month of 730 hours.
        required_techniques: the techniques that every model must have: kinds such as ``quantization``, or one technique
            of a kind, such as ``quantization=awq``.
        forbidden_techniques: the techniques that no model can have, in the same form.
        accepted_licenses: the licenses that your legal team accepted: names of licenses, JumpStart model IDs and S3
            URIs; IDs and URIs can be patterns.
        pinned_model_versions: whether JumpStart models need a version.
        kms_required: whether your own KMS keys must encrypt all stored data.
        vpc_required: whether models and jobs must reach the network through a VPC.
        network_isolation_required: whether models must have network isolation.
        autoscaling_required: whether endpoints and inference components must scale.
        alarm_actions_required: whether each endpoint and inference component must have an alarm with an action.
        evaluation_gate_required: whether each endpoint and inference component must have an evaluation with
            requirements.
        instance_prices: the price of an instance in US dollars per hour, by instance type; synthesis does not query a
            price list.
        severities: the effect of findings, by rule ID: ``error`` fails synthesis unless you acknowledge it, ``fatal``
            always fails synthesis, ``warning`` only shows a message. Default: ``error``.
        reasons: your own reasons for rules, by rule ID. They follow the library's reasons.

    Raises:
        PolicyError: if settings are invalid; lists all mistakes.
    """

    error: ClassVar[type[RecipeError]] = PolicyError
    rule_link: ClassVar[str] = page("policy")

    allowed_instance_types: Annotated[_List[_InstanceType] | None, "POL001"] = None
    allowed_job_instance_types: Annotated[_List[_InstanceType] | None, "POL002"] = None
    max_price_per_hour: Annotated[_Dollars | None, "POL003"] = None
    max_monthly_cost: Annotated[_Dollars | None, "POL004"] = None
    required_techniques: Annotated[_List[_Technique] | None, "POL010"] = None
    forbidden_techniques: Annotated[_List[_Technique] | None, "POL011"] = None
    accepted_licenses: Annotated[_List[_License] | None, "POL020"] = None
    pinned_model_versions: Annotated[bool, "POL021"] = False
    kms_required: Annotated[bool, "POL030"] = False
    vpc_required: Annotated[bool, "POL031"] = False
    network_isolation_required: Annotated[bool, "POL032"] = False
    autoscaling_required: Annotated[bool, "POL040"] = False
    alarm_actions_required: Annotated[bool, "POL041"] = False
    evaluation_gate_required: Annotated[bool, "POL042"] = False
    instance_prices: _Mapping[_Dollars] = Field(default_factory=dict)
    severities: _Mapping[Severity] = Field(default_factory=dict)
    reasons: _Mapping[_Reason] = Field(default_factory=dict)

    def is_on(self, setting: str) -> bool:
        """Return whether a setting enables its rule. An empty list also enables it, and then allows nothing."""
        return getattr(self, setting) not in (None, False)

    def _contradictions(self) -> Iterator[Violation]:
        if not any(map(self.is_on, SETTING_BY_RULE.values())):
            fix = f"one of {', '.join(SETTING_BY_RULE.values())}"
            yield self._mistake("", "no rule", "a policy without rules accepts everything", fix)
        for setting in ("max_price_per_hour", "max_monthly_cost"):
            if self.is_on(setting) and not self.instance_prices:
                reason = f"{setting} needs the prices of instances, and synthesis does not query a price list"
                fix = "your prices in US dollars per hour, such as {'ml.g5.12xlarge': 7.09}"
                yield self._mistake(".instance_prices", {}, reason, fix)
        for name, price in self.instance_prices.items():
            if instances.find(name) is None and name not in instances.other_names():
                fix = did_you_mean(name, instances.by_name(), "an instance type such as ml.g5.12xlarge")
                yield self._mistake(f".instance_prices[{name!r}]", price, "SageMaker has no such instance type", fix)
        forbidden = self.forbidden_techniques or ()
        for index, name in enumerate(self.required_techniques or ()):
            if name in forbidden or name.partition("=")[0] in forbidden:
                fix = "remove it from one of the two"
                yield self._mistake(f".required_techniques.{index}", name, "forbidden_techniques forbids it", fix)
        given = {f".severities[{rule!r}]": (rule, value) for rule, value in self.severities.items()}
        given |= {f".reasons[{rule!r}]": (rule, value) for rule, value in self.reasons.items()}
        for location, (rule, value) in given.items():
            switch = SETTING_BY_RULE.get(rule)
            if switch is None:
                rules = ", ".join(SETTING_BY_RULE)
                yield self._mistake(location, value, "the policy has no such rule", f"one of {rules}")
            elif not self.is_on(switch):
                yield self._mistake(location, value, "the rule is not enabled", f"also set {switch}")


SETTING_BY_RULE: Mapping[str, str] = {
    rule: name
    for name, field in PlatformPolicy.model_fields.items()
    for rule in field.metadata
    if isinstance(rule, str)
}
"""The setting that enables a rule, by the rule's ID."""
