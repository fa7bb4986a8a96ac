"""A dry start: the engine's own configuration of the plan, then its CPU build, started and asked one question."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from constructs_optim.recipe.plan_data import Plan

from .configuration import Kind, kind_of
from .cpu_arguments import CACHE_GB, Options, on_the_cpu
from .engine_log import is_of_the_cpu, refusal_of, reports_another, root_line
from .environment import EngineEnvironment
from .machine import Fitting, available_bytes, fitting
from .model_folder import Fetch, configurations, copy_with, has_chat_template, is_quantized, unquantized, wanted
from .planned_engine import TRUST_CODE, PlannedEngine, command_line
from .question import answered
from .report import DryStart, EndedError, Outcome, Refusal
from .server import Engine, EngineEndedError, EngineRefusesError, OutOfTimeError, free_port, process, variables

_NO_ERROR = "the engine ended without an error in its log"


@dataclass
class Start:
    """A dry start of one plan.

    Attributes:
        plan: the plan.
        planned: its engine.
        environment: the CPU build.
        fetch: downloads a model's files.
        seconds: the longest time, without the installation of the engine.
        trusts_code: whether this machine may run the model's own Python code.
        say: receives what happens, in words.
    """

    plan: Plan
    planned: PlannedEngine
    environment: EngineEnvironment
    fetch: Fetch
    seconds: float
    trusts_code: bool
    say: Callable[[str], None]
    _begun: float = field(default_factory=time.monotonic)
    _changed: list[str] = field(default_factory=list)

    def result(self) -> DryStart:
        """Start the engine, and return what came of it."""
        question: str | None = None
        refusal: Refusal | None = None
        outcome: Outcome = "starts"
        self._changed = [*self._differences()]
        with tempfile.TemporaryDirectory(prefix="dry-start-") as folder:
            try:
                question = self._answered(Path(folder))
            except EndedError as ended:
                outcome, refusal = ended.outcome, ended.refusal
            except OutOfTimeError:
                outcome, refusal = "unknown", self._out_of_time()
        return DryStart(
            model=self.plan.description["Model"],
            instance_type=self.plan.instance_type,
            outcome=outcome,
            engine=self.environment.release,
            planned=self.planned.release,
            question=question,
            refusal=refusal,
            changed=tuple(self._changed),
            seconds=round(time.monotonic() - self._begun, 1),
        )

    def _differences(self) -> Iterator[str]:
        """Yield in what the started engine differs from the plan, whatever the model is."""
        if self.environment.release != self.planned.release:
            planned = self.planned.release or "that of the image, which is unknown,"
            yield f"vLLM {self.environment.release}: {planned} has no build for CPUs"
        for model in self.planned.models:
            for job in model.unfinished_jobs:
                yield f"the model before the job {job}, whose result does not exist yet"
        if TRUST_CODE in self.planned.options and not self.trusts_code:
            yield "without the model's own code, which this machine runs only with --trust-remote-code"

    def _answered(self, folder: Path) -> str:
        paths: dict[str, str] = {}
        for number, model in enumerate(self.planned.models):
            paths[model.path] = str(own := folder / f"model-{number}")
            own.mkdir()
            self.say(f"Reading the configuration of {model.source}")
            self.fetch(model.source, own, wanted(code=self.trusts_code))
        served = Path(next(iter(paths.values())))
        configs = configurations(served)
        options = self._placed(paths)
        self.say(f"Asking vLLM {self.environment.release} about the arguments on {self.planned.gpu.name} GPUs")
        try:
            kind = kind_of(options, self.planned.gpu, self.environment, self.planned.variables, folder, self._left())
        except EndedError as ended:
            raise EndedError(ended.outcome, ended.refusal.with_paths(paths)) from None
        fits = fitting(configs, self.planned.degree, available_bytes())
        if fits is None:
            raise EndedError("unknown", _no_memory())
        arguments = on_the_cpu(options, degree=fits.degree, context=kind.context)
        self._changed += [*fits.changes(self.planned.degree), *arguments.changes]
        try:
            return self._served(folder / "few-layers", served, fits, kind, arguments.options)
        except EndedError as ended:
            if ended.outcome == "refused" or not any(map(is_quantized, configs.values())):
                raise
            self._changed.append(f"weights in 16 bits, because of the CPU: {ended.refusal.line}")
        plain = Fitting({name: unquantized(few) for name, few in fits.configs.items()}, fits.degree)
        return self._served(folder / "unquantized", served, plain, kind, arguments.options)

    def _placed(self, paths: Mapping[str, str]) -> Options:
        """Return the plan's arguments with this machine's folders."""
        placed = {name: list(words) for name, words in self.planned.options.items()}
        # The path of one model may begin with another's.
        for inside in sorted(paths, key=len, reverse=True):
            placed = {name: [word.replace(inside, paths[inside]) for word in words] for name, words in placed.items()}
        if not self.trusts_code:
            placed.pop(TRUST_CODE, None)
        return {name: tuple(words) for name, words in placed.items()}

    def _served(self, folder: Path, served: Path, fits: Fitting, kind: Kind, options: Options) -> str:
        """Start the engine with a cut copy of the model, ask it a question, and return what it answered."""
        copy_with(served, fits.configs, folder)
        port, log = free_port(), folder.with_suffix(".log")
        chats = "chat_template" in options or has_chat_template(folder)
        command = [str(self.environment.python), "-m", "vllm.entrypoints.cli.main", "serve"]
        command += command_line({**options, "model": (str(folder),), "host": ("127.0.0.1",), "port": (str(port),)})
        own = {
            **variables(self.planned.variables),
            **self.environment.variables,
            "VLLM_CPU_KVCACHE_SPACE": str(CACHE_GB),
            # Several processes share the CPUs.
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // fits.degree)),
        }
        self.say(f"Starting vLLM {self.environment.release} on the CPU")
        with log.open("wb") as output, process(command, own, folder, output) as running:
            engine, runs = Engine(running, port, self._begun + self.seconds), False
            try:
                engine.wait()
                self.say("Asking it a question")
                runs = True
                return answered(engine, kind, chats=chats)
            except EngineEndedError as error:
                line = str(error)
                # What ends a started engine is in its computations, which the CPU has of its own.
                is_of_computation = runs and not isinstance(error, EngineRefusesError)
        if not line or reports_another(line):
            line = root_line(log.read_text("utf-8", errors="replace")) or line or _NO_ERROR
        is_unknown = is_of_computation or line == _NO_ERROR or is_of_the_cpu(line)
        outcome: Outcome = "unknown" if is_unknown else "refused"
        raise EndedError(outcome, refusal_of(line).with_paths({self.planned.models[0].path: str(folder)}))

    def _left(self) -> float:
        return max(1.0, self._begun + self.seconds - time.monotonic())

    def _out_of_time(self) -> Refusal:
        return Refusal(
            line=f"no answer in {self.seconds:g} seconds",
            cause="this machine is slow or busy, or the engine waits for something",
            fix="give it more time with --timeout",
        )


def _no_memory() -> Refusal:
    return Refusal(
        line=f"{available_bytes() / 1e9:.0f} GB of memory are available",
        cause="a few layers of the model need more memory than this machine has left",
        fix="use a machine with more memory, or end other programs",
    )
