"""The traffic that an endpoint's data capture stored, as training data.

SageMaker's job for EAGLE heads reads "unencrypted captured data from a SageMaker endpoint" with requests in one of
OpenAI's formats (SageMaker API reference, ModelSpeculativeDecodingConfig). Data capture writes
``<prefix>/<endpoint>/<variant>/yyyy/mm/dd/hh/<uuid>.jsonl``, in UTC (developer guide, "Capture data from real-time
endpoint"): the files of each day and month have their own prefix, which does not grow after that period.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator

from constructs_optim.recipe.settings import Settings

_PERIOD = re.compile(r"[0-9]{4}-[0-9]{2}(-[0-9]{2})?")
_DAY = dt.timedelta(days=1)
# A file can appear after its hour is over.
_LATE = dt.timedelta(hours=1)


def _is_period(text: str) -> str:
    if _PERIOD.fullmatch(text):
        try:
            _first_day(text)
        except ValueError:
            pass
        else:
            return text
    raise ValueError("this is neither a month nor a day: use '2026-11' or '2026-11-07'")


class CapturedTraffic(Settings):
    """The requests and responses that an endpoint captured.

    Attributes:
        uri: S3 prefix of a variant's captures, without a trailing slash; may contain tokens.
        period: a day or a month in UTC, ``2026-11-07`` or ``2026-11``. Default: all captures, which grow over time.
        requests: whether requests are captured. Default: yes.
        responses: whether responses are captured. Default: yes.
        encryption_key_arn: the KMS key that data capture encrypts its files with. Default: none.
    """

    rule = "OPT210"
    rule_link = "https://docs.aws.amazon.com/sagemaker/latest/dg/model-monitor-data-capture-endpoint.html"

    uri: str
    period: Annotated[str, AfterValidator(_is_period)] | None = None
    requests: bool = True
    responses: bool = True
    encryption_key_arn: str | None = None

    @classmethod
    def example(cls, value: object) -> str:
        """Return how to refer to an endpoint's traffic in code."""
        return 'DataCapture(bucket=...).captured("<endpoint name>")'

    def during(self, period: str) -> CapturedTraffic:
        """Select the captures of a past day or month, in UTC.

        Args:
            period: ``2026-11-07`` or ``2026-11``.

        Raises:
            RecipeError: if ``period`` is neither.
        """
        return CapturedTraffic(
            uri=self.uri,
            period=period,
            requests=self.requests,
            responses=self.responses,
            encryption_key_arn=self.encryption_key_arn,
        )

    @property
    def prefix(self) -> str:
        """The S3 prefix of the period's files."""
        folder = f"{self.period.replace('-', '/')}/" if self.period is not None else ""
        return f"{self.uri}/{folder}"

    def grows_at(self, now: dt.datetime) -> bool:
        """Return whether data capture can still add files to the period."""
        if self.period is None:
            return True
        first = _first_day(self.period)
        following = first + _DAY if self.period.count("-") > 1 else (first.replace(day=28) + 4 * _DAY).replace(day=1)
        return now < following + _LATE


def _first_day(period: str) -> dt.datetime:
    year, month, *day = map(int, period.split("-"))
    return dt.datetime(year, month, day[0] if day else 1, tzinfo=dt.UTC)


@dataclass(frozen=True)
class CapturedEndpoint:
    """An endpoint whose captured traffic is used; None for an endpoint without data capture."""

    sampling_percentage: int | None
