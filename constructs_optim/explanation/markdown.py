"""An explanation as Markdown, for a comment on a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from .permission_words import permission_row
from .report import EndpointReport, JobReport, PermissionReport, Report, ResourceReport, StackReport
from .words import between, money

MARKER = "<!-- constructs-optim explain -->"
"""The first line: by it a workflow finds its comment again."""

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
    "new_job": "**new job**",
    "decided_at_deployment": "reuse or new job",
    "missing": "**artifact is missing**",
    "lost": "**artifact is lost**",
    "removed": "not used any more",
}
_FOLDED_FROM = 8
_LONGEST_COMMENT = 65_536
_LISTS = re.compile(r"<details>.*?</details>\n", re.DOTALL)
_SPACE = re.compile(r"\s+")
# Control characters, those that change the direction of what follows them, and halves of characters.
_INVISIBLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
# A code span whose backticks have no other beside them, a word, or a backtick by itself.
_TOKEN = re.compile(r"(?<!`)`(?P<code>[^`]+)`(?!`)|(?P<word>[^\s`]+)|`")
# What GitHub makes a link of or tells somebody about, wherever it is in a text but not in code.
_REFERENCE = re.compile(r"@|#\d|gh-\d|(?:https?|ftp|mailto|xmpp):|www\.", re.IGNORECASE)
# What begins a block (heading, list, rule), where a text does.
_BLOCK = re.compile(r"(?P<number>\d+)?(?(number)(?=[.)])|(?=[-+=]))")
_SPECIAL = re.compile(r"[\\*_\[\]~]")
# No structure follows from a character that is written as a reference (CommonMark 0.31.2, 2.5).
_ENTITIES = {ord(character): f"&#{ord(character)};" for character in "`|<>&#"}
_MATHEMATICS = re.compile(r"\$(?!\d)")
_PUNCTUATION = re.compile(r"[!-/:-@\[-`{-~]")


def markdown(report: Report) -> str:
    """The whole report. What does not change is told of in a line.

    What GitHub would refuse as a comment, for its length, is told without its lists of statements and resources.
    """
    whole = "\n".join(_lines(report)) + "\n"
    if len(whole) <= _LONGEST_COMMENT:
        return whole
    short = _LISTS.sub("(Left out, since a comment may have 65,536 characters: see another format.)\n", whole)
    if len(short) <= _LONGEST_COMMENT:
        return short
    # Whole lines: half an escape is none.
    return short[: short.rindex("\n", 0, _LONGEST_COMMENT) + 1]


def _lines(report: Report) -> Iterator[str]:
    yield MARKER
    yield "## What this deployment does"
    yield ""
    if report.against is not None:
        yield f"Compared with {_escaped(report.against)}."
        yield ""
    if report.refusals:
        yield "> [!CAUTION]"
        yield from (f"> {_escaped(refusal)}" for refusal in report.refusals)
        yield ""
    if not report.has_changes:
        yield "Nothing changes."
        yield ""
    if report.endpoints and (report.has_changes or any(is_news(endpoint) for endpoint in report.endpoints)):
        yield from _overview(report)
    for stack in report.stacks:
        yield from _stack(stack)
    for note in report.notes:
        yield f"> {_escaped(note)}"
        yield ""


def _overview(report: Report) -> Iterator[str]:
    yield "| endpoint | change | artifact | monthly cost |"
    yield "| --- | --- | --- | --- |"
    for endpoint in report.endpoints:
        outcomes = listed_outcomes(endpoint)
        change = f"**{endpoint.change}, interrupted**" if endpoint.is_interrupted else endpoint.change
        yield f"| {_escaped(endpoint.name)} | {change} | {outcomes} | {_escaped(cost_in_short(endpoint))} |"
    yield ""


def listed_outcomes(endpoint: EndpointReport) -> str:
    """What becomes of an endpoint's artifacts, each outcome once."""
    return ", ".join(dict.fromkeys(_outcome(job) for job in endpoint.jobs)) or "none"


def _outcome(job: JobReport) -> str:
    # Only a job has a longest time; what is referred to by its key has none.
    found_out = job.outcome == "decided_at_deployment"
    return "by its key" if found_out and job.max_seconds is None else _OUTCOMES[job.outcome]


def cost_in_short(endpoint: EndpointReport) -> str:
    """The range of monthly costs, or that it is not known."""
    cost = endpoint.monthly_cost
    if cost is None:
        return "none any more"
    if cost.least is None or cost.most is None:
        return "not known"
    return between(money(cost.least), money(cost.most))


def _stack(stack: StackReport) -> Iterator[str]:
    where = f" in {_escaped(stack.region)}" if stack.region is not None else ""
    told = [endpoint for endpoint in stack.endpoints if endpoint.change != "unchanged" or is_news(endpoint)]
    for endpoint in told:
        yield from _endpoint(endpoint, where)
    same = [endpoint.name for endpoint in stack.endpoints if endpoint not in told]
    if same and stack.change != "unchanged":
        yield f"Unchanged: {', '.join(_escaped(name) for name in same)}."
        yield ""
    if any(job.outcome != "stays" for job in stack.artifacts):
        yield f"### Artifacts of {_escaped(stack.name)} that other stacks serve"
        yield ""
        yield from (_bullet("Artifact", _job(job)) for job in stack.artifacts)
        yield ""
    if stack.permissions:
        yield from _permissions(stack)
    if stack.resources:
        yield from _resources(stack)
    if stack.outputs and stack.change == "changed":
        yield f"Outputs of {_escaped(stack.name)} that change: {_escaped(', '.join(stack.outputs))}."
        yield ""


def is_news(endpoint: EndpointReport) -> bool:
    """Whether an endpoint that does not change has an artifact that is not as it was."""
    return any(job.outcome not in ("stays", "decided_at_deployment") for job in endpoint.jobs)


def _endpoint(endpoint: EndpointReport, where: str) -> Iterator[str]:
    yield f"### {_escaped(endpoint.name)}: {endpoint.change}{where}"
    yield ""
    for topic, texts in by_topic(endpoint):
        if len(texts) == 1:
            yield _bullet(topic, texts[0])
            continue
        yield f"- **{topic}:**"
        yield from (f"  - {_escaped(text)}" for text in texts)
    yield ""


def by_topic(endpoint: EndpointReport) -> list[tuple[str, list[str]]]:
    """An endpoint's sentences, by the names of what they are about."""
    found: dict[str, list[str]] = {}
    for sentence in endpoint.sentences:
        found.setdefault(_TOPICS[sentence.topic], []).append(sentence.text)
    return list(found.items())


def _job(job: JobReport) -> str:
    return f"{job.recipe}. {' '.join(job.sentences)}"


def _bullet(topic: str, text: str) -> str:
    return f"- **{topic}:** {_escaped(text)}"


def _permissions(stack: StackReport) -> Iterator[str]:
    yield f"### Permissions of {_escaped(stack.name)}"
    yield ""
    yield counted_statements(stack.permissions)
    yield ""
    with_principals = any((change.after or change.before).principals for change in stack.permissions)  # type: ignore[union-attr]
    columns = ["", "whose", "change", "effect", "actions", "resources", "conditions"]
    if with_principals:
        columns.insert(6, "principals")
    table = [f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"]
    for change in stack.permissions:
        row = permission_row(change)
        cells = [
            row.mark,
            _escaped(row.owner),
            row.change,
            _escaped(row.effect),
            _cell(row.actions),
            _cell(row.resources),
        ]
        if with_principals:
            cells.append(_cell(row.principals))
        table.append(f"| {' | '.join([*cells, _cell(row.conditions)])} |")
    yield from _folded("Statements", table, len(stack.permissions))


def counted_statements(changes: Sequence[PermissionReport]) -> str:
    """How many statements are added, removed and changed, and how many let somebody do more."""
    counts = {
        direction: sum(change.direction == direction for change in changes)
        for direction in dict.fromkeys(change.direction for change in changes)
    }
    parts = [f"{count} {direction}" for direction, count in counts.items()]
    first, *rest = parts
    number, _, direction = first.partition(" ")
    said = ", ".join([f"{number} {'statement' if number == '1' else 'statements'} {direction}", *rest])
    more = sum(change.grants_more for change in changes)
    return f"{said}, {more or 'none'} {'grants' if more <= 1 else 'grant'} new permissions."


def _resources(stack: StackReport) -> Iterator[str]:
    yield f"### What else changes in {_escaped(stack.name)}"
    yield ""
    lines = [f"- {_resource(resource)}" for resource in stack.resources]
    yield from _folded(f"{len(lines)} resources", lines, len(lines))


def _resource(resource: ResourceReport) -> str:
    return f"{_escaped(resource.name)} ({_escaped(resource.type)}) {_escaped(resource.sentence)}."


def _folded(title: str, lines: Sequence[str], count: int) -> Iterator[str]:
    """Many lines are folded away behind their title."""
    if count <= _FOLDED_FROM:
        yield from lines
        yield ""
        return
    yield f"<details><summary>{title}</summary>"
    yield ""
    yield from lines
    yield ""
    yield "</details>"
    yield ""


def _cell(values: Sequence[str]) -> str:
    return "<br>".join(_code(value) for value in values)


def _code(value: str) -> str:
    mark = value[:2] if value[:2] in ("+ ", "- ") else ""
    return mark + _as_code(_visible(value[len(mark) :]))


def _visible(text: str) -> str:
    """The text in a line, without characters that nobody sees."""
    return _INVISIBLE.sub("\N{REPLACEMENT CHARACTER}", _SPACE.sub(" ", text).strip())


def _as_code(text: str, *, beside_backtick: bool = False) -> str:
    """A code span; as HTML where the text, or what is beside it, would end the span or the cell of a table."""
    if beside_backtick or not text.strip() or any(character in text for character in "`|\\"):
        return f"<code>{_PUNCTUATION.sub(lambda found: f'&#{ord(found[0])};', text)}</code>"
    return f"`{text}`"


def _escaped(text: str) -> str:
    """The text as it is, for any place in a line of Markdown: only code in it, between single backticks, stays code.

    Sources: CommonMark 0.31.2; GitHub Flavored Markdown, "Tables" and "Autolinks"; GitHub's documentation, "Autolinked
    references and URLs" and "Writing mathematical expressions".
    """
    line = _visible(text)
    if not line:
        # An item of a list without a text would underline the line above, which makes a heading of that.
        return "&nbsp;"
    start = _BLOCK.match(line)
    if start is None:
        return _TOKEN.sub(_escaped_token, line)
    # Only the character after a list's number has to be escaped, or the first one.
    return f"{start[0]}\\{line[start.end()]}{_TOKEN.sub(_escaped_token, line[start.end() + 1 :])}"


def _escaped_token(found: re.Match[str]) -> str:
    if found["code"] is not None:
        return _as_code(found["code"])
    if found["word"] is None:
        return _ENTITIES[ord("`")]
    word = found["word"]
    if _REFERENCE.search(word):
        beside = found.string[max(found.start() - 1, 0) : found.start()] + found.string[found.end() : found.end() + 1]
        named = word.rstrip(".,;:")
        return _as_code(named, beside_backtick="`" in beside) + word[len(named) :]
    plain = _SPECIAL.sub(r"\\\g<0>", word).translate(_ENTITIES)
    return _MATHEMATICS.sub("&#36;", plain)
