"""Renders an explanation as Markdown, for a comment on a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from .outline import Block, Heading, Items, Paragraph, Statements, Topics, cost_summary, outcomes, outline
from .report import Report

MARKER = "<!-- constructs-optim explain -->"
"""The first line: by it a workflow finds its comment again."""

# Outcomes that a reviewer has to notice.
_EMPHASIZED = {"new job", "artifact is missing", "artifact is lost"}
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
    """Render the report.

    GitHub refuses comments that are too long: those are rendered without their lists of statements and resources.
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
    if report.has_changes or any(endpoint.has_news for endpoint in report.endpoints):
        yield from _overview(report)
    for block in outline(report):
        yield from _block(block)
        yield ""


def _overview(report: Report) -> Iterator[str]:
    if not report.endpoints:
        return
    yield "| endpoint | change | artifact | monthly cost |"
    yield "| --- | --- | --- | --- |"
    for endpoint in report.endpoints:
        change = f"**{endpoint.change}, interrupted**" if endpoint.is_interrupted else endpoint.change
        artifacts = ", ".join(f"**{text}**" if text in _EMPHASIZED else text for text in outcomes(endpoint))
        yield f"| {_escaped(endpoint.name)} | {change} | {artifacts} | {_escaped(cost_summary(endpoint))} |"
    yield ""


def _block(block: Block) -> Iterator[str]:
    match block:
        case Heading(text):
            yield f"### {_escaped(text)}"
        case Paragraph(text, is_note):
            yield f"> {_escaped(text)}" if is_note else _escaped(text)
        case Topics(rows):
            for topic, texts in rows:
                if len(texts) == 1:
                    yield f"- **{topic}:** {_escaped(texts[0])}"
                    continue
                yield f"- **{topic}:**"
                yield from (f"  - {_escaped(text)}" for text in texts)
        case Items(texts, noun):
            yield from _folded(f"{len(texts)} {noun}", [f"- {_escaped(text)}" for text in texts], len(texts))
        case Statements(rows):
            yield from _folded("Statements", [*_table(block)], len(rows))


def _table(statements: Statements) -> Iterator[str]:
    with_principals = any(row.statement.principals for row in statements.rows)
    columns = ["", "whose", "change", "effect", "actions", "resources", "principals", "conditions"]
    if not with_principals:
        columns.remove("principals")
    yield f"| {' | '.join(columns)} |"
    yield f"|{' --- |' * len(columns)}"
    for row in statements.rows:
        statement = row.statement
        cells = [
            row.mark,
            _escaped(f"{row.change.owner}{row.kind}"),
            row.change.direction,
            _escaped(statement.effect),
            _cell(statement.actions),
            _cell(statement.resources),
            *([_cell(statement.principals)] if with_principals else []),
            _cell(statement.conditions),
        ]
        yield f"| {' | '.join(cells)} |"


def _folded(title: str, lines: Sequence[str], count: int) -> Iterator[str]:
    """Many lines, folded away behind their title."""
    if count <= _FOLDED_FROM:
        yield from lines
        return
    yield f"<details><summary>{title}</summary>"
    yield ""
    yield from lines
    yield ""
    yield "</details>"


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
        return f"<code>{_PUNCTUATION.sub(lambda matched: f'&#{ord(matched[0])};', text)}</code>"
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


def _escaped_token(matched: re.Match[str]) -> str:
    if matched["code"] is not None:
        return _as_code(matched["code"])
    if matched["word"] is None:
        return _ENTITIES[ord("`")]
    word = matched["word"]
    if _REFERENCE.search(word):
        beside = (
            matched.string[max(matched.start() - 1, 0) : matched.start()]
            + matched.string[matched.end() : matched.end() + 1]
        )
        named = word.rstrip(".,;:")
        return _as_code(named, beside_backtick="`" in beside) + word[len(named) :]
    plain = _SPECIAL.sub(r"\\\g<0>", word).translate(_ENTITIES)
    return _MATHEMATICS.sub("&#36;", plain)
