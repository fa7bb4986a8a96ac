"""The requests that functions made, against botocore's models of the services: more than boto3 itself refuses."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import botocore.session
from botocore.validate import ParamValidator

from constructs_optim_local.api.model import _constraint_problems

RECORDER = Path(__file__).parent / "recorder"
Request = dict[str, Any]


def recorded(folder: Path) -> list[Request]:
    """``{"service", "operation", "request"}`` of each request that was written down."""
    return [json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]


def problems(requests: Iterable[Request]) -> set[str]:
    """Where a request breaks its model: types, required members, lengths, ranges, enumerations and patterns."""
    session, found = botocore.session.get_session(), set[str]()
    for given in requests:
        model = session.get_service_model(given["service"]).operation_model(given["operation"])
        if model.input_shape is None:
            continue
        report = ParamValidator().validate(given["request"], model.input_shape)
        told = [report.generate_report()] if report.has_errors() else []
        told = told or [*_constraint_problems(given["request"], model.input_shape, "")]
        found |= {f"{given['service']}:{given['operation']}: {each}" for each in told}
    return found
