"""No variable holds a secret in silence: what certainly is one is refused, and what may be one gets advice."""

from __future__ import annotations

import pytest

from constructs_optim.recipe import Model, Recipe, TrainingCompute
from constructs_optim.recipe.rules import check, warnings

from ..runtime.test_redaction import EXAMPLES
from .recipes import recipe

REFUSED, ADVISED = "OPT034", "OPT270"


def found(environment: dict[str, str]) -> list[str]:
    """The rules about secrets with a finding for these variables."""
    subject = Recipe(**recipe(environment=environment))
    rules = [violation.rule for violation in check(subject)]
    rules += [advice.id.removeprefix("constructs-optim:") for advice in warnings(subject)]
    return [rule for rule in rules if rule in (REFUSED, ADVISED)]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (
            "AZURE_STORAGE_CONNECTION_STRING",
            "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=a1B2c3D4==;EndpointSuffix=core.windows.net",
        ),
        ("JDBC_URL", "jdbc:postgresql://h/db?user=u&password=hunter2xyz"),
        ("DSN", "host=h password=hunter2xyz"),
        ("CONNECTION", "Server=h;User Id=sa;Pwd = Hunter2x;"),
        ("EXTRA_HEADERS", '{"Authorization":"Bearer abc123def456"}'),
        ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=abcdef123"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer abc123"),
        ("ALERTS", "https://discord.com/api/webhooks/123456789012345678/" + "a1B2-" * 12),
    ],
)
def test_what_certainly_is_a_secret_is_refused(name: str, value: str) -> None:
    assert found({name: value}) == [REFUSED]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ENCRYPTION_KEY", "correct horse"),
        ("LICENSE_KEY", "8F3A-9C2B-77D1"),
        ("ENCRYPTION_KEY", "0123456789abcdef"),
        ("STAGE_PASS", "hunter2xyz"),
        ("CHAT_TOKEN", "correct horse"),
        ("SPRING_ARGUMENTS", "spring.datasource.password=hunter2xyz"),
        ("ARGUMENTS", "--api-key hunter2xyz"),
        ("EXTRA", '{"api_key": "hunter2"}'),
        ("EXTRA_HEADERS", "x-api-key: hunter2xyz"),
        ("EXTRA_HEADERS", '{"Authorization":"Bearer sometoken"}'),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-honeycomb-team=abcdef1234567890"),
        ("SETTING", "q7" + "Xr9Kb2Mz4Wn8Tp5Vd1Hs6Jc3"),
    ],
)
def test_what_may_be_a_secret_is_advised_on(name: str, value: str) -> None:
    assert found({name: value}) == [ADVISED]
    advice = {each.id: each.message for each in warnings(Recipe(**recipe(environment={name: value})))}
    message = advice[f"constructs-optim:{ADVISED}"]
    assert message.startswith(f"environment.{name} = '(not shown)': this may be a secret")
    assert "If it is one, leave it out" in message
    assert value not in message


@pytest.mark.parametrize("text", [text for shape, (each, _) in EXAMPLES.items() for text in each])
def test_no_secret_is_silent(text: str) -> None:
    assert found({"SETTING": text}) in ([REFUSED], [ADVISED])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("EOS_TOKEN", "</s>"),
        ("ENCRYPTION_KEY", "arn:aws:kms:us-west-2:111122223333:key/01234567-89ab-cdef-0123-456789abcdef"),
        ("ENCRYPTION_KEY", "{{resolve:secretsmanager:hub}}"),
        ("DSN", "host=h password={{resolve:secretsmanager:db:SecretString:password}}"),
        ("EXTRA_HEADERS", '{"Authorization": "Bearer {{resolve:secretsmanager:hub}}"}'),
        ("CACHE_KEY", "chat"),
        ("PROMPT_KEY", "prompt"),
        ("JSON_KEY", "text"),
        ("INPUT_KEY", "text"),
        ("TAG_KEY", "team"),
        ("OUTPUT_KEY", "reports/x"),
        ("OUTPUT_KEY", "out/2026/11/29/x.json"),
        ("EXPERIMENT_PASS", "first"),
        ("TOOL_CALL_TOKEN", "<tool_call>"),
        ("ARGS", "--user app:staff"),
        ("ENCRYPTION_KEY", "alias/aws/sagemaker"),
        ("ENCRYPTION_KEY", "1234abcd-12ab-34cd-56ef-1234567890ab"),
        ("HF_ENDPOINT", "https://hub.example/api?region=us-west-2"),
        ("OPENAI_API_KEY", "EMPTY"),
        ("MODEL", "sk-learn-text-classification-v1"),
    ],
)
def test_what_is_no_secret_is_not_mentioned(name: str, value: str) -> None:
    assert found({name: value}) == []


def test_a_job_s_variables_are_looked_at_too() -> None:
    compute = TrainingCompute(environment={"SIGNING_KEY": "correct horse"})
    model = Model.huggingface("Qwen/Qwen3-32B", revision="0123456789abcdef0123456789abcdef01234567", compute=compute)
    advice = {
        each.id: each.message
        for each in warnings(Recipe(**recipe(model=model, techniques=[], instance_type="ml.g7e.24xlarge")))
    }
    message = advice[f"constructs-optim:{ADVISED}"]
    assert message.startswith("model.compute.environment.SIGNING_KEY")
    assert "token_secret_arn" in message
