from __future__ import annotations

from aws_cdk import Stack

from constructs_optim.constructs.monitoring.endpoint_metrics import MeasuredResource
from constructs_optim.constructs.monitoring.served_model import ServedModel


class Endpoint(MeasuredResource):
    def __init__(self, scope: Stack, id: str, served: ServedModel) -> None:
        super().__init__(scope, id)
        self._served = served

    @property
    def served(self) -> ServedModel:
        return self._served
