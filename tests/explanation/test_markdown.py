"""Whatever a branch writes into its templates, its explanation is one heading, one sentence and one code block."""

from __future__ import annotations

import re
import types
import typing
from typing import Any, Literal
from unicodedata import category

from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from pydantic import BaseModel

from constructs_optim.explanation.report import Report
from constructs_optim.explanation.text import contents, markdown

_RENDERER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
_PIECES = st.sampled_from(
    [
        *"`\\|<>[]()!*_~#$&@-+=:.^'\"\n\r\t 1a",
        *("``", "```", "````", "~~~", "\r\n", "\n\n", "\u2028", "\u0085", "\x00", "\x0b", "\ud83d", "\u202e"),
        *("# x", "\n## Approved", "\n```\n@team", "-->", "<img src=https://evil/q>", "@team", "#1", "https://evil"),
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


@settings(derandomize=True)
@given(text=_texts)
@example(text="x\r```\r## Approved")
@example(text="``` @team ````")
def test_no_text_leaves_the_code_block(text: str) -> None:
    comment = markdown(filled(Report, text))
    tokens = _RENDERER.parse(comment)
    assert [token.type for token in tokens] == [
        "html_block",
        "heading_open",
        "inline",
        "heading_close",
        "blockquote_open",
        "paragraph_open",
        "inline",
        "paragraph_close",
        "blockquote_close",
        "paragraph_open",
        "inline",
        "paragraph_close",
        "fence",
    ]
    (_, refused, conclusion) = (token.content for token in tokens if token.type == "inline")
    assert refused == "[!CAUTION]\nAWS refuses this deployment."
    assert conclusion == "**AWS refuses this deployment for 4 reasons: see the top.**"
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]", comment)


@settings(derandomize=True)
@given(text=_texts)
@example(text="x\r\nPermissions of Prod: 0")
def test_no_text_adds_a_line_to_the_contents(text: str) -> None:
    lines = contents(filled(Report, text))
    assert len(lines) == len(contents(filled(Report, "x")))
    assert "\n".join(lines).splitlines() == lines
    assert not {category(each) for line in lines for each in line} & {"Cc", "Cs"}
