"""The list of all checks, by subject, which both the handler and the command line run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from ..errors import code_of, message_of
from ..requests.preflight_properties import PreflightProperties
from .context import Context, is_denied
from .engine_metrics import check_enrichment
from .images import check_image
from .models import check_copy, check_data, check_model
from .networks import check_network
from .quotas import advise_on_optimization_jobs, check_quotas
from .report import PreflightFinding, Report, advice
from .reservations import check_reservation
from .roles import check_role
from .stores import check_store


@dataclass(frozen=True)
class Check:
    """A check, which runs for each of its subjects in the properties."""

    name: str
    subjects: Callable[[PreflightProperties], Iterable[Any]]
    look: Callable[[Any, Context], Iterator[PreflightFinding]]

    def findings(self, needs: PreflightProperties, context: Context) -> Iterator[PreflightFinding]:
        """Yield the check's findings; a denied call, an error, or an unreachable service is advice."""
        for subject in self.subjects(needs):
            try:
                yield from self.look(subject, context)
            except ClientError as error:
                denied = is_denied(error)
                why = "is denied" if denied else f"returned {code_of(error)}: {message_of(error)}"
                yield PreflightFinding(
                    self.name,
                    "advice",
                    f"not checked: {error.operation_name} {why}",
                    "allow the call if you want this check: https://constructs-optim.dev/preflight/"
                    if denied
                    else "try again later",
                    is_early=denied,
                )
            except Exception as error:
                # An unreachable service, or an undocumented response, must not stop a deployment.
                yield advice(self.name, f"not checked: {error!r}", "check that the service is reachable")


CHECKS: tuple[Check, ...] = (
    Check("quota", lambda needs: [needs] if needs.fleets or needs.trainings else [], check_quotas),
    Check("quota", lambda needs: [needs] if needs.optimization_jobs else [], advise_on_optimization_jobs),
    Check("model", lambda needs: needs.models, check_model),
    Check("model", lambda needs: needs.copies, check_copy),
    Check("data", lambda needs: needs.data, check_data),
    Check("image", lambda needs: needs.images, check_image),
    Check("store", lambda needs: needs.stores, check_store),
    Check("role", lambda needs: needs.roles, check_role),
    Check("network", lambda needs: needs.networks, check_network),
    Check("reservation", lambda needs: needs.reservations, check_reservation),
    Check("engine metrics", lambda needs: [needs.engine_metrics] if needs.engine_metrics else [], check_enrichment),
)


def run(needs: PreflightProperties, context: Context) -> Report:
    """Run every check and report all findings."""
    findings: list[PreflightFinding] = []
    asked = 0
    for check in CHECKS:
        asked += len(list(check.subjects(needs)))
        findings += check.findings(needs, context)
    return Report(tuple(dict.fromkeys(findings)), asked)
