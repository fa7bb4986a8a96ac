"""The checks, by what they look at: the one list that the handler and the command line go through."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from ..errors import code_of, message_of
from ..requests.preflight_properties import PreflightProperties
from .context import Context, is_denied
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
    """A check of each of its subjects among the properties."""

    name: str
    subjects: Callable[[PreflightProperties], Iterable[Any]]
    look: Callable[[Any, Context], Iterator[PreflightFinding]]

    def findings(self, needs: PreflightProperties, context: Context) -> Iterator[PreflightFinding]:
        """What it finds; a service that does not tell, or cannot be reached, is advice."""
        for subject in self.subjects(needs):
            try:
                yield from self.look(subject, context)
            except ClientError as error:
                denied = is_denied(error)
                why = "may not be asked" if denied else f"answers {code_of(error)}: {message_of(error)}"
                yield PreflightFinding(
                    self.name,
                    "advice",
                    f"not checked: {error.operation_name} {why}",
                    "allow the call where the answer is wanted: https://constructs-optim.dev/preflight/"
                    if denied
                    else "ask again later",
                    is_early=denied,
                )
            except Exception as error:
                # A service that cannot be reached, or answers otherwise than documented, stops no deployment.
                yield advice(self.name, f"not checked: {error!r}", "see that the service is reachable")


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
)


def run(needs: PreflightProperties, context: Context) -> Report:
    """Run every check, and report all that they find."""
    findings: list[PreflightFinding] = []
    asked = 0
    for check in CHECKS:
        asked += len(list(check.subjects(needs)))
        findings += check.findings(needs, context)
    return Report(tuple(dict.fromkeys(findings)), asked)
