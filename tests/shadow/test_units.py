"""Which requests repeat a prompt, belong to one conversation, or are made from one template, and no others."""

from __future__ import annotations

from typing import Any

import pytest

from constructs_optim.runtime.shadow.units import Beginnings, unit_of


def units(*requests: dict[str, Any]) -> tuple[int, int]:
    """The number of prompts, and that of conversations."""
    beginnings = Beginnings()
    found = [unit_of(request, beginnings) for request in requests]
    return len({unit.key for unit in found}), len({unit.conversation for unit in found})


def chat(*texts: Any, system: str = "Be brief.", **more: Any) -> dict[str, Any]:
    turns = [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(texts)]
    return {"messages": [{"role": "system", "content": system}, *turns], **more}


def image(url: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": url}}]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (chat("hi"), chat("hi")),
        (chat("hi", max_tokens=1), chat("hi", max_tokens=50, temperature=0, user="a")),
        (chat("Hi,  there"), chat("hi,\nthere")),
        (chat("hi", "hello", "how?"), chat("Hi", "hello", "how?", max_tokens=3)),
        (chat(image("a")), chat(image("a"), seed=1)),
        (chat(["Hi", "there"]), chat("hi there")),
        (chat([{"type": "text", "text": "Hi"}, {"type": "text", "text": "there"}]), chat("hi there")),
        ({"messages": ["Hi"]}, {"messages": ["hi"]}),
        (chat(image("a")), chat([dict(reversed(part.items())) for part in image("a")])),
        ({"prompt": "hi"}, {"prompt": "hi", "max_tokens": 3}),
        ({"inputs": "hi"}, {"inputs": "hi", "parameters": {"max_new_tokens": 3}}),
        ({"input": [1]}, {"input": [1]}),
    ],
)
def test_a_repeated_prompt_is_one_unit(first: dict[str, Any], second: dict[str, Any]) -> None:
    assert units(first, second) == (1, 1)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (chat("hi"), chat("hi", "hello", "how are you?")),
        (chat("hi", "hello", "how?"), chat("hi", "shortened", "how?", "well", "and now?")),
        (chat("hi", "hello", "how?"), chat("hi", "hello", "who?")),
        (chat(image("a")), chat(image("a"), "a cat", "sure?")),
    ],
)
def test_turns_of_a_conversation_are_prompts_of_their_own(first: dict[str, Any], second: dict[str, Any]) -> None:
    assert units(first, second) == (2, 1)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (chat("hi"), chat("ho")),
        (chat("hi"), chat("hi", system="Be long.")),
        (chat("Question 1?"), chat("Question 2?")),
        (chat("What is 23 + 45?"), chat("What is 23 + 46?")),
        (chat(image("a")), chat(image("b"))),
        ({"prompt": "hi"}, {"prompt": "ho"}),
        ({"prompt": ["hi"]}, {"prompt": ["ho"]}),
        ({"input": [1]}, {"input": [2]}),
        ({}, {"input": None}),
    ],
)
def test_other_prompts_are_other_units(first: dict[str, Any], second: dict[str, Any]) -> None:
    assert units(first, second) == (2, 2)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Today is Friday, July 3, 2026.", "Today is Saturday, August 14, 2027."),
        ("As of 3rd of July 2026: news?", "As of 12th of May 2026: news?"),
        ("Fri, 03 Jul 2026 10:33:12 GMT ping", "Mon, 06 Jul 2026 01:02:03 GMT ping"),
        ("ping 2026-07-03T10:33:12.123Z", "ping 2026-12-24T00:00:00.001Z"),
        ("[2026/07/03 9:05] ping", "[2026/07/04 19:15] ping"),
        ("On 03.07.2026 at 9:05 pm, what?", "On 4.12.2026 at 11:15 am, what?"),
        ("ping at 1783074792", "ping at 1783161192123"),
    ],
)
def test_a_date_or_time_makes_no_other_prompt(first: str, second: str) -> None:
    assert units(chat(first), chat(second)) == (1, 1)
    assert units(chat("hi", system=first), chat("hi", system=second)) == (1, 1)
    assert units(chat("hi", first, "how?"), chat("hi", second, "how?")) == (1, 1)


TEMPLATES = {
    "ChatML": ("<|im_start|>user\n{}<|im_end|>\n", "<|im_start|>assistant\n", "{}<|im_end|>\n"),
    "Llama 3": (
        "<|start_header_id|>user<|end_header_id|>\n\n{}<|eot_id|>",
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
        "{}<|eot_id|>",
    ),
    "Llama 2": ("[INST] {} ", "[/INST]", " {} </s>"),
    "Gemma": ("<start_of_turn>user\n{}<end_of_turn>\n", "<start_of_turn>model\n", "{}<end_of_turn>\n"),
    "Phi": ("<|user|>\n{}<|end|>\n", "<|assistant|>\n", "{}<|end|>\n"),
    "DeepSeek": ("<\uff5cUser\uff5c>{}", "<\uff5cAssistant\uff5c>", "{}"),
    "Alpaca": ("### Instruction:\n{}\n\n", "### Response:\n", "{}\n\n"),
    "Vicuna": ("USER: {} ", "ASSISTANT:", " {}</s>"),
}


@pytest.mark.parametrize("template", TEMPLATES)
def test_turns_as_text_belong_to_one_conversation(template: str) -> None:
    asks, answers, said = TEMPLATES[template]

    def prompt(*texts: str) -> dict[str, Any]:
        turns = [asks.format(text) if at % 2 == 0 else answers + said.format(text) for at, text in enumerate(texts)]
        return {"inputs": "".join(turns) + answers}

    assert units(prompt("hi"), prompt("hi", "hello", "how?"), prompt("hi", "hello", "how?", "well", "so?")) == (3, 1)
    assert units(prompt("hi"), prompt("ho"), prompt("ho", "hello", "hi")) == (3, 2)


def test_examples_that_all_requests_have_make_no_conversation_of_them() -> None:
    examples = ("Sum of 1 and 2?", "3", "Sum of 2 and 2?", "4")
    requests = [chat(*examples, f"Sum of {number} and {number}?") for number in range(1_000)]
    prompts, conversations = units(*requests)
    assert prompts == 1_000
    # The first requests are one conversation, until the first example is common, and the next ones until the second is.
    assert 700 < conversations < 1_000
    turns = [chat(*examples, f"Sum of {number // 2}?", *("0", "Sure?") * (number % 2)) for number in range(2_000)]
    prompts, conversations = units(*turns)
    assert prompts == 2_000
    assert 700 < conversations <= 1_000


def test_a_long_conversation_at_the_beginning_of_a_run_is_one() -> None:
    texts = ["hi", *(f"turn {number}" for number in range(98))]
    assert units(*(chat(*texts[: 2 * turn + 1]) for turn in range(50))) == (50, 1)


def test_beginnings_stay_few_and_the_common_ones_stay_among_them() -> None:
    beginnings = Beginnings()
    for number in range(20_000):
        unit_of(chat("hi" if number % 5 == 0 else f"hi {number}", "hello", f"{number}?"), beginnings)
    assert len(beginnings.counts) <= 64
    one, other = (unit_of(chat("hi", "hello", text), beginnings) for text in ("a?", "b?"))
    assert one.conversation != other.conversation


@pytest.mark.parametrize("change", ["{} (request {n})", "Request {n}: {}", "Order #{n}, {}", "{} id=0f{n}-7a"])
def test_prompts_with_a_number_of_their_own_are_of_one_template(change: str) -> None:
    one, other = (unit_of(chat(change.format("write a poem", n=n)), Beginnings()) for n in (4, 71))
    assert one.key != other.key
    assert one.template == other.template
    assert one.template != unit_of(chat(change.format("write a song", n=4)), Beginnings()).template


def test_the_template_is_that_of_the_last_question() -> None:
    one, other = (unit_of(chat(f"Name {n}?", "Ed", f"Write poem {n}", "Here is"), Beginnings()) for n in (4, 71))
    assert one.conversation != other.conversation
    assert one.template == other.template == "write poem"


def test_the_template_of_turns_as_text_is_that_of_the_last_turn_alone() -> None:
    request: dict[str, Any] = {"inputs": "[INST] Name 4? [/INST] Ed [INST] Write poem 4 [/INST]"}
    assert unit_of(request, Beginnings()).template == "write poem"


def test_a_prompt_has_a_key_of_80_bits() -> None:
    assert max(unit_of(chat(f"{number}"), Beginnings()).key for number in range(50)).bit_length() in range(70, 81)
