"""An explanation for a terminal: refusals first, conclusion last, and no name broken at the edge."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from rich.console import Console
from rich.table import Table

from constructs_optim.explanation.markdown import (
    by_topic,
    cost_in_short,
    counted_statements,
    is_news,
    listed_outcomes,
)
from constructs_optim.explanation.permission_words import permission_row
from constructs_optim.explanation.report import EndpointReport, PermissionReport, Report, ResourceReport, StackReport

from .presentation import counted, printable, wrapped

_MARK_STYLES = {"+": "green", "-": "red", "~": "yellow"}
_REFUSED = "bold red"
# Two borders, two columns with a space on either side, and the line between them.
_BOX = 7


class ExplanationText:
    """Prints a report."""

    def __init__(self, report: Report, *, permissions: bool) -> None:
        """Prepare to print.

        Args:
            report: what is printed.
            permissions: whether the statements of new stacks are printed as well, and not counted alone.
        """
        self._report, self._permissions = report, permissions
        self._console = Console()

    def print(self) -> None:
        """Print it."""
        report = self._report
        for refusal in report.refusals:
            self._say(refusal, style=_REFUSED)
        if report.against is not None:
            self._say(f"Compared with {report.against}.")
        for stack in report.stacks:
            self._print_stack(stack)
        for note in report.notes:
            self._say(note)
        self._say(_conclusion(report), style="bold" if not report.refusals else _REFUSED)

    def _print_stack(self, stack: StackReport) -> None:
        where = f" in {stack.region}" if stack.region is not None else ""
        self._say(f"Stack {stack.name}: {stack.change}{where}", style="bold")
        self._print_permissions(stack)
        for text in _resources(stack):
            self._say(text, indent="  ", then="    ")
        if stack.outputs and stack.change == "changed":
            self._say(f"Outputs that change: {', '.join(stack.outputs)}.", indent="  ", then="    ")
        for job in stack.artifacts:
            self._say(f"{job.recipe}. {' '.join(job.sentences)}", indent="  ")
        for endpoint in stack.endpoints:
            if endpoint.change == "unchanged" and not is_news(endpoint):
                self._say(_unchanged(endpoint), indent="  ")
            else:
                self._print_endpoint(endpoint)

    def _print_permissions(self, stack: StackReport) -> None:
        if not stack.permissions:
            return
        by_owner: dict[str, list[PermissionReport]] = {}
        for change in stack.permissions:
            by_owner.setdefault(change.owner, []).append(change)
        folded = stack.change == "new" and not self._permissions
        hint = " --permissions shows them." if folded else ""
        self._say(f"Permissions: {counted_statements(stack.permissions)}{hint}", indent="  ")
        for owner, changes in by_owner.items():
            if folded:
                self._say(f"{owner}: {counted(len(changes), 'statement')}", indent="    ", then="      ")
                continue
            self._say(owner, indent="    ", style="bold")
            for change in changes:
                self._print_statement(change)

    def _print_statement(self, change: PermissionReport) -> None:
        row = permission_row(change)
        style = _MARK_STYLES[row.mark]
        kind = "" if change.kind == "permissions" else f" ({change.kind})"
        self._say(f"{row.mark} {row.effect}{kind}", indent="    ", style=style)
        parts = (("", row.actions), ("on ", row.resources), ("to ", row.principals), ("if ", row.conditions))
        for word, values in parts:
            for value in values:
                # A name stays on the line of its word, even where the terminal has to wrap it.
                room = self._console.width if " " in value else sys.maxsize
                text = wrapped(f"{word}{value}", room, indent="      ", then="        ")
                self._console.print(printable(text), style=style, highlight=False, soft_wrap=True)

    def _print_endpoint(self, endpoint: EndpointReport) -> None:
        marked = f"{endpoint.change}, interrupted" if endpoint.is_interrupted else endpoint.change
        self._say(f"{endpoint.name}: {marked}", style="bold")
        topics = by_topic(endpoint)
        room = self._console.width - _BOX - max((len(topic) for topic, _ in topics), default=0)
        table = Table(show_header=False, show_lines=True)
        table.add_column(style="bold", no_wrap=True)
        table.add_column(no_wrap=True)
        for topic, texts in topics:
            table.add_row(topic.lower(), printable("\n".join(wrapped(text, room) for text in texts)))
        # A name that is longer than the box makes it wider: the terminal wraps it, and it can be copied.
        width = max(self._console.width, Console(width=10_000).measure(table).maximum)
        self._console.print(table, width=width, crop=False, soft_wrap=width > self._console.width)

    def _say(self, text: str, *, indent: str = "", then: str | None = None, style: str | None = None) -> None:
        lines = wrapped(text, self._console.width, indent=indent, then=indent if then is None else then)
        self._console.print(printable(lines), style=style, highlight=False, soft_wrap=True)


def _resources(stack: StackReport) -> Iterator[str]:
    """What becomes of the stack's other resources; those of a new stack are counted."""
    told = [resource for resource in stack.resources if resource.action != "refuse"]
    if stack.change == "new":
        counts = Counter(resource.type for resource in told)
        if counts:
            yield f"Also created: {', '.join(f'{count} {name}' for name, count in sorted(counts.items()))}."
        return
    for sentence, some in groupby(told, key=_sentence):
        names: Sequence[ResourceReport] = list(some)
        if len(names) == 1:
            yield f"{names[0].name} ({names[0].type}) {sentence}."
        else:
            yield f"{', '.join(f'{each.name} ({each.type})' for each in names)}: each {sentence}."


def _sentence(resource: ResourceReport) -> str:
    return resource.sentence


def _unchanged(endpoint: EndpointReport) -> str:
    parts = [listed_outcomes(endpoint)]
    if endpoint.monthly_cost is not None and endpoint.monthly_cost.most is not None:
        parts.append(f"{cost_in_short(endpoint)} a month")
    return f"{endpoint.name} is unchanged: {', '.join(parts)}."


def _conclusion(report: Report) -> str:
    if report.refusals:
        return f"AWS refuses this deployment for {counted(len(report.refusals), 'reason')}: see the top."
    if not report.has_changes:
        return "Nothing changes."
    found = [_counted_endpoints(report.endpoints)]
    if any(endpoint.is_interrupted for endpoint in report.endpoints):
        found.append("requests are interrupted")
    if report.may_run_jobs:
        certain = any(job.outcome == "new_job" for job in report.jobs)
        found.append("a new job runs" if certain else "a job may run")
    else:
        found.append("no job runs")
    more = sum(change.grants_more for change in report.permissions)
    found.append(
        f"{counted(more, 'statement') if more else 'nothing'} {'grants' if more < 2 else 'grant'} new permissions"
    )
    return f"{'; '.join(part for part in found if part)}."


def _counted_endpoints(endpoints: Iterable[EndpointReport]) -> str:
    counts = Counter(endpoint.change for endpoint in endpoints)
    parts = [f"{counted(count, 'endpoint')} {change}" for change, count in counts.items()]
    return ", ".join(parts) or "No endpoint"
