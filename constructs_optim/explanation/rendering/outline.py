"""The outline of a report, from which both the terminal's text and Markdown are rendered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from ..formatting import counted
from ..report import EndpointReport, JobReport, PermissionChange, Report, ResourceReport, StackReport, Statement
from ..sentences import cost_range

_TOPICS = {
    "recipe": "Recipe",
    "artifact": "Artifact",
    "replacement": "Resources",
    "update": "Update",
    "settings": "Settings",
    "capacity": "Capacity",
    "cost": "Cost",
    "permissions": "Permissions",
}
_OUTCOMES = {
    "stays": "no job",
    "reuse": "reuse",
    "join_running_job": "waits for a running job",
    "new_job": "new job",
    "decided_at_deployment": "reuse or new job",
    "missing": "artifact is missing",
    "lost": "artifact is lost",
    "removed": "not used any more",
}
_MARKS = {"added": "+", "removed": "-"}


@dataclass(frozen=True)
class Heading:
    """The heading of what follows it."""

    text: str


@dataclass(frozen=True)
class Paragraph:
    """Sentences of their own; ``is_note``: about the whole report."""

    text: str
    is_note: bool = False


@dataclass(frozen=True)
class Topics:
    """Sentences by topic."""

    rows: Sequence[tuple[str, Sequence[str]]]


@dataclass(frozen=True)
class Items:
    """A list that may be folded away; ``noun`` is what its items are."""

    texts: Sequence[str]
    noun: str


@dataclass(frozen=True)
class Statements:
    """Changed statements of policies; ``is_new``: their stack is, so that all are added."""

    rows: Sequence[StatementRow]
    is_new: bool


@dataclass(frozen=True)
class StatementRow:
    """A changed statement; its values have ``+`` or ``-`` before what a statement that was there gains or loses."""

    mark: str
    change: PermissionChange
    statement: Statement

    @property
    def kind(self) -> str:
        """The kind of policy in parentheses; empty for permissions."""
        return "" if self.change.kind == "permissions" else f" ({self.change.kind})"


Block = Heading | Paragraph | Topics | Items | Statements


def outline(report: Report) -> Iterator[Block]:
    """The blocks of a report in the order in which they are read, without its refusals and its summary."""
    for stack in report.stacks:
        yield from _stack(stack)
    for note in report.notes:
        yield Paragraph(note, is_note=True)


def outcomes(endpoint: EndpointReport) -> list[str]:
    """The outcomes of an endpoint's artifacts, each once."""
    return list(dict.fromkeys(_outcome(job) for job in endpoint.jobs)) or ["none"]


def _outcome(job: JobReport) -> str:
    # Only a job has a longest time; a reference to an artifact has none.
    is_reference = job.outcome == "decided_at_deployment" and job.max_seconds is None
    return "by its key" if is_reference else _OUTCOMES[job.outcome]


def cost_summary(endpoint: EndpointReport) -> str:
    """The range of monthly costs in a table's cell."""
    return "none any more" if endpoint.monthly_cost is None else cost_range(endpoint.monthly_cost) or "not known"


def granting(count: int, subject: str) -> str:
    """How many statements grant more than before: ``2 grant new permissions``."""
    return f"{subject} {'grants' if count <= 1 else 'grant'} new permissions"


def _stack(stack: StackReport) -> Iterator[Block]:
    region = f" in {stack.region}" if stack.region is not None else ""
    for endpoint in stack.endpoints:
        if endpoint.has_news:
            interrupted = ", interrupted" if endpoint.is_interrupted else ""
            yield Heading(f"{endpoint.name}: {endpoint.change}{interrupted}{region}")
            yield Topics(_topics(endpoint))
    unchanged = [endpoint.name for endpoint in stack.endpoints if not endpoint.has_news]
    if unchanged and stack.change != "unchanged":
        yield Paragraph(f"Unchanged: {', '.join(unchanged)}.")
    if any(job.outcome != "stays" for job in stack.artifacts):
        yield Heading(f"Artifacts of {stack.name} that other stacks serve")
        yield Topics([("Artifact", [f"{job.recipe}. {' '.join(job.sentences)}"]) for job in stack.artifacts])
    if stack.permissions:
        yield Heading(f"Permissions of {stack.name}")
        yield Paragraph(_counted_statements(stack.permissions))
        yield Statements([_row(change) for change in stack.permissions], is_new=stack.change == "new")
    if resources := [resource for resource in stack.resources if resource.action != "refuse"]:
        yield Heading(f"What else changes in {stack.name}")
        yield Items([*_resources(resources, is_new=stack.change == "new")], "resources")
    if stack.outputs and stack.change == "changed":
        yield Paragraph(f"Outputs of {stack.name} that change: {', '.join(stack.outputs)}.")


def _topics(endpoint: EndpointReport) -> list[tuple[str, Sequence[str]]]:
    topics: dict[str, list[str]] = {}
    for sentence in endpoint.sentences:
        topics.setdefault(_TOPICS[sentence.topic], []).append(sentence.text)
    return [*topics.items()]


def _counted_statements(changes: Sequence[PermissionChange]) -> str:
    (first, count), *others = Counter(change.direction for change in changes).items()
    parts = [f"{counted(count, 'statement')} {first}", *(f"{number} {direction}" for direction, number in others)]
    more = sum(change.grants_more for change in changes)
    return f"{', '.join(parts)}, {granting(more, str(more or 'none'))}."


def _row(change: PermissionChange) -> StatementRow:
    mark = _MARKS.get(change.direction, "~")
    if change.before is None or change.after is None:
        return StatementRow(mark, change, change.statement)
    before, after = change.before, change.after
    values = {
        "actions": _marked(before.actions, after.actions),
        "resources": _marked(before.resources, after.resources),
        "principals": _marked(before.principals, after.principals),
        "conditions": _marked(before.conditions, after.conditions),
    }
    return StatementRow(mark, change, after.model_copy(update=values))


def _marked(before: Sequence[str], after: Sequence[str]) -> tuple[str, ...]:
    return (
        *(value if value in before else f"+ {value}" for value in after),
        *(f"- {value}" for value in before if value not in after),
    )


def _resources(resources: Sequence[ResourceReport], *, is_new: bool) -> Iterator[str]:
    """The resources by what happens to them; those of a new stack are counted by type."""
    if is_new:
        counts = Counter(resource.type for resource in resources)
        yield f"Created: {', '.join(f'{count} {name}' for name, count in sorted(counts.items()))}."
        return
    for sentence, group in groupby(resources, key=lambda resource: resource.sentence):
        names = [f"{resource.name} ({resource.type})" for resource in group]
        yield f"{', '.join(names)}{': each' if len(names) > 1 else ''} {sentence}."
