"""The rule about secrets: a template is read by many, and so is what it makes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from constructs_optim.recipe.given import is_mapping
from constructs_optim.recipe.recipe import Recipe
from constructs_optim.recipe.rules.registry import Finding, rule
from constructs_optim.recipe.tokens import is_token

# Not every name with TOKEN in it: a model's EOS_TOKEN is none of a user's.
_NAME = re.compile(
    r"(^|_)(passw(or)?d|secret_?(access_?)?key|client_secret|(api|private)_?key"
    r"|(hf|hugging_?face_hub|auth|access|api|bearer|github|gh|session)_token)$",
    re.IGNORECASE,
)
_SHAPES = (
    (re.compile(r"\bhf_[A-Za-z0-9]{20,}"), "a Hugging Face token"),
    (re.compile(r"\b(AKIA|ASIA)[A-Z0-9]{16}\b"), "an AWS access key"),
    # With a digit and a capital: sk-learn is a name.
    (re.compile(r"\bsk-(?=[\w-]*\d)(?=[\w-]*[A-Z])[\w-]{20,}"), "an API key"),
    (re.compile(r"\b(gh[opsu]_[A-Za-z0-9]{30,}|github_pat_\w{30,})"), "a GitHub token"),
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----"), "a private key"),
    (re.compile(r"""[a-z][a-z0-9+.-]*://[^/\s:@"',]+:[^/\s@"',]+@""", re.IGNORECASE), "a URL with a password"),
)
# Where a secret is, which is none: a reference that CloudFormation resolves, an ARN, a file, an object in S3.
_REFERENCES = ("arn:", "/", "s3://")
_RESOLVED = re.compile(r"\{\{resolve:[^}]*\}\}")
# What stands where a secret might: switches, and what servers take for "none is needed".
_NO_SECRETS = frozenset({"0", "1", "dummy", "empty", "false", "no", "none", "null", "off", "on", "true", "yes"})


@rule(
    "OPT034",
    title="An environment holds no secrets",
    reason="the template has it in plain text, and so have the model and its job for everybody who may describe them",
    link="https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/dynamic-references-secretsmanager.html",
)
def _environments_hold_no_secrets(recipe: Recipe) -> Iterator[Finding]:
    yield from _secrets("environment", recipe.environment)
    for place, technique in recipe.trained_techniques:
        yield from _secrets(f"{place}.compute.environment", technique.compute.environment)


def _secrets(place: str, environment: object) -> Iterator[Finding]:
    if not is_mapping(environment):
        return
    for name, value in environment.items():
        found = _kind_of_secret(name, value)
        if found is None:
            continue
        yield Finding(
            f"{place}.{name}",
            # Errors are kept by consoles and build logs.
            "(not shown)",
            "leave it out, for files come from the artifact store and no hub is asked; or name a secret, which "
            'CloudFormation looks up: SecretValue.secrets_manager("<name>").unsafe_unwrap()',
            reason=f"this is {found}; the template would have it in plain text, and so would the model and its job for "
            "everybody who may describe them",
        )


def _kind_of_secret(name: object, value: object) -> str | None:
    if not isinstance(value, str) or not value or is_token(value) or value.startswith(_REFERENCES):
        return None
    if _RESOLVED.search(value) or value.lower() in _NO_SECRETS:
        return None
    shape = next((kind for pattern, kind in _SHAPES if pattern.search(value)), None)
    return shape or ("a secret by its name" if isinstance(name, str) and _NAME.search(name) else None)
