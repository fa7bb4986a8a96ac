"""Physical names that are known before their resources exist.

An update of an endpoint is rolled back by alarms about that endpoint: the endpoint names its alarms, and they name the
endpoint. CloudFormation makes neither first when both refer to each other, so such a resource has an explicit name,
which changes only with its path in the app.
"""

from __future__ import annotations

import re

from constructs import Construct

from constructs_optim.recipe.keys import sha256

from .stack_context import StackContext, is_token, path_of

_LONGEST = 63
_HASH_DIGITS = 8
# A hyphen and the UUID of a stack's id.
_STACK_PART = 37


def endpoint_name_of(scope: Construct, id: str, name: str | None) -> str:
    """The name of the endpoint ``id`` of ``scope``: ``name``, of which a stack has one, or one made of its path."""
    if name is None:
        return physical_name(scope, id)
    if not is_token(name):
        # CreateEndpoint does not tell upper from lower case (Amazon SageMaker API reference).
        names = StackContext.of(scope).once("endpoint names", dict[str, tuple[Construct, str]])
        first, first_id = names.get(name.lower(), (scope, id))
        if (first, first_id) != (scope, id) and first.node.try_find_child(first_id) is not None:
            raise ValueError(
                f"endpoint_name is {name!r}, and {path_of(first)}/{first_id} has that name: an account has one "
                f"endpoint of a name in a region, upper and lower case alike. Give {path_of(scope)}/{id} another, or "
                "none: one is made of its path then"
            )
        names[name.lower()] = scope, id
    return name


def physical_name(scope: Construct, id: str, *, suffix: str = "", longest: int = _LONGEST) -> str:
    """A name for the child ``id`` of ``scope``: letters, digits and hyphens, and none like it in account and region.

    It is in lower case, as SageMaker's ARNs have it, so that CloudWatch and Application Auto Scaling get the same name
    wherever it is taken from.

    The stack's name is part of it where it is known; for a nested stack, the last part of the stack's id is.
    ``suffix`` is left as it is.
    """
    context = StackContext.of(scope)
    within = path_of(scope).removeprefix(path_of(context.stack)).strip("/")
    parts = [*within.split("/"), id] if within else [id]
    known = not is_token(context.name)
    if known:
        parts = [context.name, *parts]
    longest -= len(suffix) + (0 if known else _STACK_PART)
    words = "-".join(filter(None, (re.sub(r"[^a-zA-Z0-9-]", "", part).strip("-") for part in parts)))
    name = f"{words.lower()[: longest - _HASH_DIGITS - 1].rstrip('-')}-{sha256('/'.join(parts))[:_HASH_DIGITS]}{suffix}"
    return name if known else f"{name}-{context.uuid}"
