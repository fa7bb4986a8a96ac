"""Benchmark jobs: AIPerf against an endpoint, with the numbers of ``performance``.

Sources: SageMaker developer guide, "Benchmark generative AI inference endpoints" (the endpoint must be InService; a job
that names no inference component of an endpoint with components fails, because no model is deployed directly on the
endpoint; adapters take turns) and "Find the maximum concurrency an endpoint can serve under an SLA"; API reference,
CreateAIBenchmarkJob. Users report that the results are in ``output/output.tar.gz`` below a prefix of each job,
``bmk-...``, in the output location.

Assumed, without a source: DescribeAIBenchmarkJob shows that prefix from the start; a missing endpoint, or one not
InService, is refused at once; the benchmarking machine takes a minute to start; the messages.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Sequence

from constructs_optim_local.api.error import ApiError, not_found, validation_error
from constructs_optim_local.faults import Faults
from constructs_optim_local.sagemaker.execution import ExecutionRoles, cannot_assume, refusal
from constructs_optim_local.sagemaker.hosting.performance import Performance, Performances, Served
from constructs_optim_local.sagemaker.hosting.served_models import NotServing, ServedModels
from constructs_optim_local.sagemaker.objects import Objects
from constructs_optim_local.sagemaker.records import Record, Scope

from . import aiperf_export
from .ai_jobs import AiJobs
from .concurrency_search import ConcurrencySearch
from .measurement import Measurement, measured
from .workload_configs import WorkloadConfigs, channels
from .workload_spec import Workload

_STARTING_SECONDS = 60.0
_FIELDS_OF_PROMPTS = ("text", "prompt", "input", "question")


class BenchmarkJobs:
    """The benchmark jobs of one account and Region. ``scale`` is the real seconds for each second of a benchmark."""

    def __init__(
        self,
        scope: Scope,
        faults: Faults,
        served: ServedModels,
        performances: Performances,
        objects: Objects,
        roles: ExecutionRoles,
        scale: float,
    ) -> None:
        self._faults, self._served, self._performances, self._roles = faults, served, performances, roles
        self._scope, self._objects, self._scale = scope, objects, scale
        self.jobs = AiJobs(
            scope,
            faults,
            kind="AIBenchmarkJob",
            path="ai-benchmark-job",
            label="AI benchmark job",
            fault="benchmark",
            finish=self._finish,
        )
        self.configs = WorkloadConfigs(scope, self._using)

    def create(self, request: Record) -> Record:
        """CreateAIBenchmarkJob."""
        name = request["AIBenchmarkJobName"]
        config = self.configs.named(request["AIWorkloadConfigIdentifier"])
        workload = self.configs.workload(config)
        target = request["BenchmarkTarget"].get("Endpoint")
        if target is None:
            raise validation_error("BenchmarkTarget must have Endpoint")
        endpoint = self._served.endpoint(target["Identifier"])
        if endpoint is None:
            raise not_found(f"Endpoint {target['Identifier']} does not exist")
        if endpoint["EndpointStatus"] != "InService":
            raise validation_error(
                f"Endpoint {endpoint['EndpointName']} is in status {endpoint['EndpointStatus']}, and must be InService "
                "to be benchmarked"
            )
        if not self._roles.assume(request["RoleArn"], self.jobs.arn(name)):
            raise cannot_assume(request["RoleArn"])
        location = request["OutputConfig"]["S3OutputLocation"].rstrip("/")
        return self.jobs.add(
            request,
            self._scale * (_STARTING_SECONDS + self._estimated_seconds(workload, request)),
            OutputConfig={**request["OutputConfig"], "S3OutputLocation": f"{location}/{_run(name)}/"},
            AIWorkloadConfigName=config["AIWorkloadConfigName"],
        )

    def list(self, request: Record) -> Record:
        """ListAIBenchmarkJobs."""
        return self.jobs.list(request, "AIWorkloadConfigName")

    def _using(self, config: str) -> list[str]:
        self.jobs.settle_all()
        return [
            job["AIBenchmarkJobName"]
            for job in self.jobs.records.by_name.values()
            if self.jobs.is_running(job) and job["AIWorkloadConfigName"].lower() == config.lower()
        ]

    def _estimated_seconds(self, workload: Workload, request: Record) -> float:
        """Return the seconds that the requests take, with the current models' numbers."""
        try:
            targets = self._targets(request)
        except NotServing:
            return 0.0
        warmup = float(workload.parameters.get("warmup_duration", 0))
        durations = [self._measured(workload, users, targets, ()).seconds for users in workload.concurrencies or (1,)]
        return sum(durations) + warmup * len(durations)

    def _finish(self, job: Record) -> str | None:
        """Run the benchmark and write its results. Return why that failed, or None."""
        try:
            config = self.configs.named(job["AIWorkloadConfigIdentifier"])
            workload, targets = self.configs.workload(config), self._targets(job)
        except (ApiError, NotServing) as error:
            return f"ClientError: {error}"
        if refused := self._refused(job, config):
            return f"ClientError: {refused}"
        prompts = list[str]()
        if workload.dataset is not None:
            found = self._dataset(workload.dataset, channels(config))
            if isinstance(found, str):
                return f"ClientError: {found}"
            prompts = found
        content = self._content(workload, targets, prompts, job["StartTime"])
        if not self._faults.strikes("benchmark_writes_nothing"):
            uri = f"{job['OutputConfig']['S3OutputLocation']}output/output.tar.gz"
            try:
                self._objects.put(job["AIBenchmarkJobName"], {uri: aiperf_export.archive(content)})
            except Exception as error:
                return f"ClientError: the output could not be written to {uri}: {error}"
        return None

    def _content(
        self, workload: Workload, targets: Sequence[Served], prompts: Sequence[str], started: dt.datetime
    ) -> dict[str, bytes]:
        def measure(users: int) -> Measurement:
            return self._measured(workload, users, targets, prompts)

        search = ConcurrencySearch(workload, measure) if not workload.concurrencies else None
        runs = (
            search.measurements if search is not None else {users: measure(users) for users in workload.concurrencies}
        )
        content: dict[str, bytes] = {}
        for users, measurement in runs.items():
            folder = f"concurrency_{users}/" if search is not None or workload.is_sweep else ""
            files = aiperf_export.files(workload, measurement, model=targets[0].name, started=started)
            content |= {f"{folder}{name}": data for name, data in files.items()}
        if search is not None:
            content["search_history.json"] = json.dumps(search.history(), indent=2).encode()
        return content

    def _measured(
        self, workload: Workload, users: int, targets: Sequence[Served], prompts: Sequence[str]
    ) -> Measurement:
        def performance(target: Served, tokens: float) -> Performance:
            return self._performances.of(target, tokens)

        return measured(workload, users, targets, performance, prompts)

    def _targets(self, job: Record) -> list[Served]:
        target = job["BenchmarkTarget"]["Endpoint"]
        endpoint = self._served.endpoint(target["Identifier"])
        if endpoint is None or endpoint["EndpointStatus"] not in ("InService", "Updating"):
            raise NotServing(f"Endpoint {target['Identifier']} is no longer in service")
        components = [item["Identifier"] for item in target.get("InferenceComponents", [])]
        if components:
            return [self._served.by_component(endpoint, identifier) for identifier in components]
        if self._served.hosts_components(endpoint):
            raise NotServing(
                f"No model is deployed directly on endpoint {endpoint['EndpointName']}. Specify InferenceComponents in "
                "BenchmarkTarget to benchmark an endpoint of inference components."
            )
        return [self._served.by_endpoint(endpoint)]

    def _refused(self, job: Record, config: Record) -> str | None:
        """Return the first permission that the job needs and its role lacks."""
        role, target = job["RoleArn"], job["BenchmarkTarget"]["Endpoint"]
        endpoint = self._served.endpoint(target["Identifier"])
        arn = endpoint["EndpointArn"] if endpoint is not None else ""
        training_job = self._scope.arn("training-job", _run(job["AIBenchmarkJobName"]))
        steps = (
            self._roles.run_ai_job(role, training_job),
            self._roles.invoke(role, arn),
            *(self._roles.read(role, uri) for uri in channels(config).values()),
            self._roles.write(role, job["OutputConfig"]["S3OutputLocation"], None),
        )
        refused = next(filter(None, steps), None)
        return refusal(role, refused) if refused else None

    def _dataset(self, channel_and_name: tuple[str, str], found: dict[str, str]) -> list[str] | str:
        """Return the prompts in a channel's file, or why there are none."""
        channel, name = channel_and_name
        uri = found.get(channel)
        if uri is None:
            return f"input_file is in channel {channel}, and the DatasetConfig has {', '.join(found) or 'no channel'}"
        at = uri if uri.rstrip("/").endswith(f"/{name}") else f"{uri.rstrip('/')}/{name}"
        data = self._objects.read(at)
        if data is None:
            return f"there is no dataset at {at}"
        return prompts_in(data) or f"the dataset at {at} has no prompts: each line must be an object with text"


def prompts_in(data: bytes) -> list[str]:
    """Return the prompts in a dataset of JSON lines."""
    # Not splitlines, which also splits at characters that are valid in JSON strings.
    return [prompt for line in data.decode(errors="replace").split("\n") if (prompt := _prompt(line))]


def _prompt(line: str) -> str | None:
    """Return the prompt of a dataset's line: AIPerf's single_turn format, or the messages of a conversation."""
    try:
        item = json.loads(line)
    except ValueError:
        return None
    if not isinstance(item, dict):
        return None
    if isinstance(item.get("messages"), list):
        return "\n".join(str(message.get("content", "")) for message in item["messages"] if isinstance(message, dict))
    return next((str(item[name]) for name in _FIELDS_OF_PROMPTS if item.get(name)), None)


def _run(name: str) -> str:
    """Return the name of the run, below the output location."""
    return f"bmk-{name[:40].rstrip('-')}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
