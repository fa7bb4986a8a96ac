"""The checks that compare the answers of a pair.

A check of quality decides for each answer whether it is right. The candidate can be worse: in pairs in which only one
answer is right. A check of agreement only decides whether the answers are the same. Sampled answers of the same model
differ, so this check has a bound and covers only requests without sampling.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..documents import is_list, is_object, json_value, list_in, nested, object_in
from ..requests.shadow_properties import CheckKind
from .captures import Document, Pair
from .sequential_test import Counts

AGREEMENT: frozenset[str] = frozenset({"exact_match", "top_token"})

Judge = Callable[[Pair], tuple[bool, bool] | None]
"""Whether the answers of production and candidate are right; None if the judge has no opinion."""


@dataclass(frozen=True)
class Check:
    """A check; for a check of agreement, ``at_least`` is the share of pairs that must agree."""

    kind: CheckKind
    at_least: float | None = None


def outcome(check: Check, pair: Pair, references: Mapping[str, str], judge: Judge | None) -> Counts | None:
    """Return the candidate's outcome in a pair; None if the check does not apply."""
    match check.kind:
        case "exact_match" | "top_token":
            agrees = _same_text(pair) if check.kind == "exact_match" else _same_top_token(pair)
            return None if agrees is None else Counts(equal=1) if agrees else Counts(worse=1)
        case "answered":
            right = _is_answer(pair.production), _is_answer(pair.candidate)
        case "json_valid":
            if not _asks_for_json(pair.request):
                return None
            right = _is_json(answer_of(pair.production)), _is_json(answer_of(pair.candidate))
        case "tool_calls":
            tools = _tools(pair.request)
            expected = _calls(pair.production)
            if not tools or not expected:
                return None
            # Production's answer decides whether to expect a call; the request's schema decides its form.
            right = _fits(expected, tools), _fits(_calls(pair.candidate), tools)
        case "reference":
            reference = references.get(prompt_of(pair.request))
            if reference is None:
                return None
            right = _equals(answer_of(pair.production), reference), _equals(answer_of(pair.candidate), reference)
        case "judge":
            judged = judge(pair) if judge is not None else None
            if judged is None:
                return None
            right = judged
    production, candidate = right
    if production == candidate:
        return Counts(equal=1)
    return Counts(worse=1) if production else Counts(better=1)


def answer_of(response: Document | None) -> str | None:
    """Return the text of a response in the format of OpenAI's chats and completions, or of LMI."""
    choice = _choice(response)
    for text in (
        nested(choice, "message", "content"),
        choice.get("text"),
        object_in(response).get("generated_text"),
    ):
        if isinstance(text, str):
            return text
    return None


def prompt_of(request: Document) -> str:
    """Return the last message of a chat, or the prompt."""
    messages = list_in(request.get("messages"))
    last = nested(messages[-1], "content") if messages else request.get("prompt", request.get("inputs"))
    return last.strip() if isinstance(last, str) else json.dumps(last, sort_keys=True)


def _choice(response: Document | None) -> Document:
    choices = list_in(object_in(response).get("choices"))
    return object_in(choices[0]) if choices else {}


def _is_answer(response: Document | None) -> bool:
    return bool((answer_of(response) or "").strip()) or bool(_calls(response))


def _asks_for_json(request: Document) -> bool:
    return nested(request, "response_format", "type") in ("json_object", "json_schema")


def _is_json(text: str | None) -> bool:
    try:
        value = json_value(text or "")
    except ValueError:
        return False
    return is_object(value) or is_list(value)


def _equals(text: str | None, reference: str) -> bool:
    return text is not None and " ".join(text.split()).casefold() == " ".join(reference.split()).casefold()


def _is_sampled(request: Document) -> bool:
    """Return whether equal models may answer differently: servers sample unless the temperature is zero."""
    parameters = object_in(request.get("parameters"))
    return request.get("temperature", parameters.get("temperature")) not in (0, 0.0)


def _same_text(pair: Pair) -> bool | None:
    if _is_sampled(pair.request):
        return None
    calls = _calls(pair.production), _calls(pair.candidate)
    return answer_of(pair.production) == answer_of(pair.candidate) and calls[0] == calls[1]


def _same_top_token(pair: Pair) -> bool | None:
    """Return whether the most likely first tokens are the same; later tokens have different contexts."""
    tops = _top_token(pair.production), _top_token(pair.candidate)
    return None if None in tops else tops[0] == tops[1]


def _top_token(response: Document | None) -> str | None:
    tokens = list_in(nested(_choice(response), "logprobs", "content"))
    first = object_in(tokens[0]) if tokens else {}
    ranked = [object_in(item) for item in list_in(first.get("top_logprobs"))]
    # Without a ranking, the returned token is the most likely one only if it was not sampled, which is unknown here.
    scored = [(value, item.get("token")) for item in ranked if isinstance(value := item.get("logprob"), int | float)]
    best = max(scored, key=lambda item: item[0], default=(0, None))[1]
    return best if isinstance(best, str) else None


def _tools(request: Document) -> dict[str, Document]:
    functions = [object_in(nested(tool, "function")) for tool in list_in(request.get("tools"))]
    return {
        str(function["name"]): object_in(function.get("parameters")) for function in functions if "name" in function
    }


def _calls(response: Document | None) -> list[tuple[str, Document | None]]:
    calls: list[tuple[str, Document | None]] = []
    for call in list_in(nested(_choice(response), "message", "tool_calls")):
        name, text = nested(call, "function", "name"), nested(call, "function", "arguments")
        try:
            arguments = json_value(text) if isinstance(text, str) else text
        except ValueError:
            arguments = None
        calls.append((str(name), arguments if is_object(arguments) else None))
    return calls


_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}


def _fits(calls: Sequence[tuple[str, Document | None]], tools: Mapping[str, Document]) -> bool:
    """Return whether all calls name a known tool and their arguments match its required names, types, and enums."""
    return bool(calls) and all(
        name in tools and arguments is not None and _fits_schema(arguments, tools[name]) for name, arguments in calls
    )


def _fits_schema(arguments: Document, schema: Document) -> bool:
    properties = object_in(schema.get("properties"))
    # A client writes the schema, and may write anything: only texts can be names.
    if any(isinstance(name, str) and name not in arguments for name in list_in(schema.get("required"))):
        return False
    if schema.get("additionalProperties") is False and set(arguments) - set(properties):
        return False
    for name, value in arguments.items():
        described = object_in(properties.get(name))
        expected = _TYPES.get(str(described.get("type")))
        if expected is not None and (
            not isinstance(value, expected) or (expected is not bool and isinstance(value, bool))
        ):
            return False
        if is_list(allowed := described.get("enum")) and value not in allowed:
            return False
    return True
