"""Who goes on: one thread of control after the other, changed at calls to AWS and nowhere else.

Between two calls a handler touches nothing that others see, so these are all the interleavings there are.
"""

from __future__ import annotations

import collections
import random
from collections.abc import Callable
from typing import Any, TypeVar

from greenlet import greenlet

T = TypeVar("T")

_SECONDS_A_CALL = 0.05
_MOST_STEPS = 12_000
_DEATH = 0.03


class Died(BaseException):
    """A process that ends at once: nothing it would still do happens."""


class Task:
    """One thread of control, in one account."""

    def __init__(
        self, name: str, account: str, act: Callable[[], None], hub: greenlet, *, mortal: bool, priority: float
    ) -> None:
        self.name, self.account, self.mortal, self.priority = name, account, mortal, priority
        self.ready: Callable[[], bool] | None = None
        self.dies = ""
        self.error: Exception | None = None
        # Whoever spawns it is not who goes on when it is over.
        self.thread = greenlet(self._run, hub)
        self._act = act

    def _run(self) -> None:
        try:
            self._act()
        except Died:
            pass
        except Exception as error:
            self.error = error

    @property
    def is_over(self) -> bool:
        return self.thread.dead

    @property
    def can_go_on(self) -> bool:
        return self.ready is None or self.ready()


class Scheduler:
    """Runs tasks until none can go on, in an order that follows from ``rng``.

    Lives differ in how they choose: often the same task again, the one with the highest priority (PCT: Burckhardt et
    al., "A randomized scheduler with probabilistic guarantees of finding bugs"), or any.
    """

    def __init__(self, rng: random.Random, *, deaths: int, trace: bool) -> None:
        self.rng = rng
        self.now = 1_800_000_000.0
        self.calls = 0
        self.changes = 0
        self.happened = collections.Counter[str]()
        """What has happened how often, for the summary: what never happens is not explored."""
        self.tasks: list[Task] = []
        self.lines: list[str] | None = [] if trace else None
        self.current: Task
        self._deaths = deaths
        self._stay = rng.choice((0.0, 0.3, 0.7, 0.9))
        self._by_priority = rng.random() < 0.4
        self._hub = greenlet.getcurrent()

    def spawn(self, name: str, account: str, act: Callable[[], None], *, mortal: bool = True) -> Task:
        """Add a task. A mortal one may die at any of its calls."""
        task = Task(name, account, act, self._hub, mortal=mortal, priority=self.rng.random())
        self.tasks.append(task)
        return task

    def note(self, line: str) -> None:
        """Add a line to the trace, where there is one."""
        if self.lines is not None:
            self.lines.append(line)

    def call(self, what: str, act: Callable[[], T]) -> T:
        """A call to AWS of the current task's: others may go on before it, and the task may die around it."""
        task = self.current
        self._hub.switch()
        if task.dies == "before":
            self._die(task, what)
        self.calls += 1
        self.now += _SECONDS_A_CALL
        try:
            answer = act()
        except Exception as error:
            self.note(f"{task.name}: {what} -> {error}")
            raise
        if self.lines is not None:
            self.note(f"{task.name}: {what} -> {_short(answer)}")
        if task.dies == "after":
            self._die(task, what)
        return answer

    def changed(self) -> None:
        """Something has changed: tasks that wait for a change may continue."""
        self.changes += 1

    def wait(self, ready: Callable[[], bool]) -> None:
        """Have the current task wait."""
        task = self.current
        task.ready = ready
        self._hub.switch()
        task.ready = None

    def sleep(self, seconds: float) -> None:
        """The current task sleeps; others may go on."""
        self.now += seconds
        self._hub.switch()

    def run(self, environment: Callable[[bool], bool], stuck: Callable[[], bool]) -> bool:
        """Go on until nothing more happens; False where that takes too long.

        Args:
            environment: has something happen that nobody does, such as the end of a job. It is told whether any task
                can go on, and says whether it did something.
            stuck: is asked when nothing can go on; it says whether it has changed that.
        """
        last: Task | None = None
        for _ in range(_MOST_STEPS):
            able = [task for task in self.tasks if task.can_go_on]
            if environment(bool(able)):
                continue
            if not able:
                if stuck():
                    continue
                return True
            last = self._next(able, last)
            self._resume(last)
        return False

    def _next(self, able: list[Task], last: Task | None) -> Task:
        if last is not None and self.rng.random() < self._stay and last in able:
            return last
        if not self._by_priority:
            return able[int(self.rng.random() * len(able))]
        task = max(able, key=lambda task: task.priority)
        if self.rng.random() < 0.05:
            task.priority = self.rng.random() * 0.5
        return task

    def _resume(self, task: Task) -> None:
        if self._deaths and task.mortal and self.rng.random() < _DEATH:
            task.dies = self.rng.choice(("before", "after"))
            self._deaths -= 1
        self.current = task
        task.thread.switch()
        if task.is_over:
            self.tasks.remove(task)

    def _die(self, task: Task, what: str) -> None:
        self.note(f"{task.name}: dies {task.dies} {what}")
        task.dies = ""
        self.happened["deaths"] += 1
        raise Died


def _short(answer: Any) -> str:
    text = repr(answer)
    return text if len(text) < 240 else f"{text[:237]}..."
