"""A platform team's policy: which rules are on, how strictly, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal, TypeVar

from pydantic import AfterValidator, Field, StringConstraints
from pydantic_core import PydanticCustomError

from constructs_optim.recipe.catalog import instances, models
from constructs_optim.recipe.errors import RecipeError, Violation, close_matches, did_you_mean
from constructs_optim.recipe.settings import Settings
from constructs_optim.recipe.techniques import REGISTRY

Severity = Literal["error", "warning", "fatal"]
"""The effect of a finding: ``error`` fails synthesis until it is acknowledged, ``fatal`` whether it is or not, and
``warning`` is shown."""


class PolicyError(RecipeError):
    """A policy with wrong settings. Its text lists all mistakes; ``violations`` has them as data."""

    subject: ClassVar[str] = "the policy has"
    noun: ClassVar[str] = "mistake"


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether a name is one of those that patterns such as ``ml.g5.*`` allow."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _unknown(expected: str, near: list[str]) -> PydanticCustomError:
    fix = f"did you mean {' or '.join(near)}? It is {expected}" if near else expected
    return PydanticCustomError("unknown_name", "{fix}", {"fix": fix})


def _instance_type(pattern: str) -> str:
    known = instances.by_name().keys() | instances.other_names()
    if not any(matches(name, [pattern]) for name in known):
        spelled = pattern if pattern.startswith("ml.") else f"ml.{pattern}"
        near = [spelled] if any(matches(name, [spelled]) for name in known) else close_matches(spelled, known)
        raise _unknown("an instance type of SageMaker endpoints, or a pattern such as ml.g5.*", near)
    return pattern


def _technique(name: str) -> str:
    known = [*REGISTRY, *(f"{kind}={method}" for kind, methods in REGISTRY.items() for method in methods)]
    if name not in known:
        near = [other for other in known if other.endswith(f"={name}")] or close_matches(name, known)
        raise _unknown(f"one of {', '.join(known)}", near)
    return name


def _license(pattern: str) -> str:
    licences = sorted({row.license.name for row in models.by_id().values() if row.license is not None})
    known = {name.lower(): name for name in (*licences, *models.by_id())}
    # Ids of Hugging Face have a slash, and are more than anybody lists.
    if "/" not in pattern and not any(matches(name, [pattern]) for name in known.values()):
        near = [known[name] for name in close_matches(pattern, known)]
        kinds = "a JumpStart model, a pattern of one, an id of Hugging Face, or an S3 URI"
        raise _unknown(f"one of {', '.join(licences)}, {kinds}", near)
    return pattern


_Item = TypeVar("_Item")
# The caller may change its lists and mappings later; a policy does not change with them.
_List = Annotated[Sequence[_Item], AfterValidator(tuple)]
_Mapping = Annotated[Mapping[str, _Item], AfterValidator(MappingProxyType), Field(validate_default=True)]
_Reason = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
_Dollars = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_InstanceType = Annotated[str, AfterValidator(_instance_type)]
_Technique = Annotated[str, AfterValidator(_technique)]
_License = Annotated[str, AfterValidator(_license)]


class PlatformPolicy(Settings):
    """The policy of a platform team. Each setting switches its rule on; ``docs/policy.md`` has the rules.

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
        accepted_licenses: what legal has accepted: names of licenses, IDs of JumpStart models and S3 URIs; IDs and URIs
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
        reasons: your own words for why a rule is there, by the rules' IDs. They follow the library's.

    Raises:
        PolicyError: with all that is wrong with the settings.
    """

    error: ClassVar[type[RecipeError]] = PolicyError
    rule_link: ClassVar[str] = "docs/policy.md"

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
        """Whether a setting switches its rule on. A list does even when it is empty: nothing is allowed then."""
        return getattr(self, setting) not in (None, False)

    def _contradictions(self) -> Iterator[Violation]:
        if not any(map(self.is_on, SETTING_BY_RULE.values())):
            fix = f"one of {', '.join(SETTING_BY_RULE.values())}"
            yield self._mistake("", "no rule", "a policy without a rule passes everything", fix)
        for setting in ("max_price_per_hour", "max_monthly_cost"):
            if self.is_on(setting) and not self.instance_prices:
                reason = f"{setting} needs to know what instances cost, and synthesis calls no price list"
                fix = "the prices that you pay, in US dollars an hour, such as {'ml.g5.12xlarge': 7.09}"
                yield self._mistake(".instance_prices", {}, reason, fix)
        for name, price in self.instance_prices.items():
            if instances.find(name) is None and name not in instances.other_names():
                fix = did_you_mean(name, instances.by_name(), "a type such as ml.g5.12xlarge")
                yield self._mistake(f".instance_prices[{name!r}]", price, "SageMaker has no such instance type", fix)
        forbidden = self.forbidden_techniques or ()
        for index, name in enumerate(self.required_techniques or ()):
            if name in forbidden or name.partition("=")[0] in forbidden:
                fix = "to name it in one of them"
                yield self._mistake(f".required_techniques.{index}", name, "forbidden_techniques forbids it", fix)
        for rule, value in (*self.severities.items(), *self.reasons.items()):
            switch = SETTING_BY_RULE.get(rule)
            if switch is None:
                rules = ", ".join(SETTING_BY_RULE)
                yield self._mistake(f"[{rule!r}]", value, "there is no such rule", f"one of {rules}")
            elif not self.is_on(switch):
                yield self._mistake(f"[{rule!r}]", value, "the rule is not switched on", f"to set {switch} as well")


SETTING_BY_RULE: Mapping[str, str] = {
    rule: name
    for name, field in PlatformPolicy.model_fields.items()
    for rule in field.metadata
    if isinstance(rule, str)
}
"""The setting that switches a rule on, by the rule's ID."""
