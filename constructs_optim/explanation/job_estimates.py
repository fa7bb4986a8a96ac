"""How long a job takes, and what it costs: from jobs of the same kind that completed, and from prices."""

from __future__ import annotations

from dataclasses import dataclass

from .evidence import PastJob, Prices, StackEvidence, StoreContents
from .job_facts import JobFacts
from .words import between, duration, money


@dataclass(frozen=True)
class Estimate:
    """How long a job takes, and what it costs in US dollars.

    ``low_seconds`` and ``high_seconds`` are those of ``based_on`` jobs of the same kind that completed; None where
    there was none. ``price_basis`` says what the price per hour is of, and ``unpriced`` which instance type the given
    prices lack; empty where no prices were given.
    """

    low_seconds: float | None
    high_seconds: float | None
    based_on: int
    max_seconds: int | None
    price_per_hour: float | None
    price_basis: str
    is_spot: bool = False
    unpriced: str = ""

    def cost(self, seconds: float | None) -> float | None:
        """What that much time costs; None where time or price is not known."""
        return None if seconds is None or self.price_per_hour is None else seconds / 3600 * self.price_per_hour

    @property
    def words(self) -> str:
        """Time and cost as sentences."""
        most = self._most
        if self.low_seconds is None or self.high_seconds is None:
            limit = f"{most[2:3].upper()}{most[3:]}." if most else "It has no time limit."
            return f"{limit}{self._unpriced}"
        took = between(duration(self.low_seconds), duration(self.high_seconds))
        costs = [self.cost(seconds) for seconds in (self.low_seconds, self.high_seconds)]
        cost = f", for {between(*(money(each) for each in costs if each is not None))}" if None not in costs else ""
        jobs = "1 job of the same kind" if self.based_on == 1 else f"{self.based_on} jobs of the same kind"
        return f"About {took}{cost}, as {jobs} took{most}.{self._unpriced}"

    @property
    def _most(self) -> str:
        if self.max_seconds is None:
            return ""
        cost = self.cost(self.max_seconds)
        priced = f" and {money(cost)}, by the {self.price_basis}" if cost is not None else ""
        return f"; at most {duration(self.max_seconds)}{priced}{'; spot capacity costs less' if self.is_spot else ''}"

    @property
    def _unpriced(self) -> str:
        return f" There is no price of {self.unpriced}." if self.unpriced else ""


def estimate(after: JobFacts, evidence: StackEvidence, store: StoreContents | None) -> Estimate:
    """What the store's past jobs and the prices tell of a job."""
    took = sorted(job.seconds for job in (store.past_jobs if store is not None else ()) if _is_alike(after, job))
    price, basis = _price(after, evidence.prices)
    return Estimate(
        low_seconds=took[0] if took else None,
        high_seconds=took[-1] if took else None,
        based_on=len(took),
        max_seconds=after.max_seconds,
        price_per_hour=price,
        price_basis=basis,
        is_spot=after.is_spot,
        unpriced=(after.instance_type or "") if price is None and evidence.prices.source else "",
    )


def _is_alike(after: JobFacts, job: PastJob) -> bool:
    """Whether a job that completed did the same, on the same instance type, with any version of the same model."""
    model, techniques, _ = after.described
    wanted = (model.partition(" ")[0], techniques, after.parts, after.instance_type)
    return (job.model_id, job.techniques, job.parts, job.instance_type) == wanted


def _price(after: JobFacts, prices: Prices) -> tuple[float | None, str]:
    name = after.instance_type
    if name is None:
        return None, ""
    if after.is_training:
        found = prices.training.get(name)
        return (found * after.instance_count, f"training price of {name}") if found is not None else (None, "")
    if name in prices.optimization:
        return prices.optimization[name], f"price of jobs on {name}"
    if name in prices.hosting:
        # The price list has no component of optimization jobs that could be verified.
        return prices.hosting[name], f"hosting price of {name}, which stands in for the job's own"
    return None, ""
