"""Whatever a branch writes into its templates, the explanation of it has the same headings, tables and lists."""

from __future__ import annotations

import re
import types
import typing
from collections import Counter
from typing import Any, Literal

from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token
from pydantic import BaseModel

from constructs_optim.explanation.rendering.markdown import markdown
from constructs_optim.explanation.report import Report

# GitHub renders CommonMark with tables, struck-out text, and links where a URL, a person or an issue is named.
_RENDERER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
_OURS = {"<br>", "<code>", "</code>", "<details><summary>", "</summary>", "</details>"}
_LINKED = re.compile(r"@\w|#\d|\bgh-\d|https?:|ftp:|mailto:|www\.", re.IGNORECASE)

_PIECES = st.sampled_from(
    [
        *"`\\|<>[]()!*_~#$&@-+=:.^'\"\n\r\t 1a",
        *("``", "```", "\\`", "\\|", "\r\n", "\n\n", "\u2028", "\x00", "&#96;", "&lt;", "\ud83d"),
        *("# x", "\n## Approved", "\n- x", "\n1. x", "\n> x", "\n---", "\n    x", "~~~", "| a | b |\n| - | - |"),
        *(
            "![x](https://evil/q)",
            "[x](https://evil)",
            "[x]: https://evil",
            "<img src=https://evil/q>",
            "<!-- x",
            "-->",
        ),
        *("@team", "#1", "team/chat#1", "GH-1", "https://evil", "www.evil.com", "someone@evil.com", "</details>"),
        *("<https://evil>", "<br>", "</code>", "`code`", "`a|b`", "<script>", "[^1]", "[ ] x", "$x$"),
    ]
)
_texts = st.lists(_PIECES, min_size=1, max_size=12).map("".join) | st.text(min_size=1, max_size=60)


def filled(annotation: Any, text: str) -> Any:
    """A value of the type in which every free text is ``text``, and of everything there are two."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        members = annotation.model_fields.items()
        return annotation.model_construct(**{name: filled(field.annotation, text) for name, field in members})
    if origin is Literal:
        return arguments[0]
    if origin is tuple:
        return tuple(filled(each, text) for each in arguments if each is not ...) * (2 if ... in arguments else 1)
    if origin in (types.UnionType, typing.Union):
        return filled(arguments[0], text)
    return text if annotation is str else annotation(1)


def spans(tokens: list[Token]) -> list[Token]:
    return [span for token in tokens for span in token.children or ()]


def shape(text: str) -> Counter[str]:
    """How many there are of each kind of block, in the Markdown of a report whose texts are all ``text``."""
    tokens = _RENDERER.parse(markdown(filled(Report, text)))
    for span in spans(tokens):
        assert span.type in {"text", "code_inline", "html_inline", "softbreak", "strong_open", "strong_close"}, span
        assert span.type != "html_inline" or span.content in _OURS, span
    return Counter(token.type for token in tokens)


@settings(deadline=None, max_examples=300, derandomize=True)
@given(text=_texts)
@example(text='``"`` a ` <img src=https://evil/q> [Approved by security](https://evil) ```')
@example(text="x\r## Approved")
@example(text="x\n<script>alert(1)</script>")
@example(text="a`www.evil.com`b`` ` @team`@team")
@example(text="a\\|b\\\\|c`\\|`")
def test_no_text_adds_a_heading_a_cell_an_image_or_a_link(text: str) -> None:
    assert shape(text) == shape("x")


@settings(deadline=None, max_examples=300, derandomize=True)
@given(text=_texts)
def test_text_is_shown_as_it_was_written_and_links_to_nobody(text: str) -> None:
    report = Report(against=text, stacks=(), notes=())
    _heading, *paragraphs = spans(_RENDERER.parse(markdown(report)))
    in_html, shown, linkable = False, "", ""
    for span in paragraphs:
        if span.type == "html_inline":
            in_html = span.content == "<code>"
            continue
        shown += span.content
        linkable += " " if in_html or span.type == "code_inline" else span.content
    assert not _LINKED.search(linkable)
    # Controls, directions and halves of characters are the only ones that are not shown; backticks may make code.
    invisible = re.compile(
        r"[\s`\N{REPLACEMENT CHARACTER}\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
    )
    assert invisible.sub("", shown) == invisible.sub("", f"Compared with {text}.Nothing changes.")
