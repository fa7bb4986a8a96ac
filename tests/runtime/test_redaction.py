from __future__ import annotations

import datetime as dt
import json
import string
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constructs_optim.runtime.redaction import HIDDEN, Redactor

_WORD = string.ascii_letters + string.digits
# What stands in a URL's query once it is percent-encoded; the star is the mark itself.
_QUERY = st.text(_WORD + "-._~%+/=:", min_size=8, max_size=60).map(lambda text: f"MARK{text}")
_PATH = st.lists(st.text(_WORD + "-_%", min_size=1, max_size=12), max_size=4).map("/".join)
_HOST = st.sampled_from(["s3.amazonaws.com", "cloudformation-custom-resource.s3.us-west-2.amazonaws.com", "127.0.0.1"])
_SCHEME = st.sampled_from(["https", "http", "HTTPS", "s3"])
_NAME = st.sampled_from(["X-Amz-Signature", "X-Amz-Security-Token", "X-Amz-Credential", "Signature", "sig", "x"])
_AROUND = st.text(string.printable, max_size=40)


@given(
    scheme=_SCHEME,
    host=_HOST,
    path=_PATH,
    query=st.lists(st.tuples(_NAME, _QUERY), min_size=1, max_size=4),
    before=st.sampled_from(["", "PUT ", "'", '"', "(", "url="]),
    after=st.sampled_from(["", " failed", "'", '"', "\n", ">"]),
)
def test_the_query_of_a_url_is_redacted_and_the_rest_is_kept(
    scheme: str, host: str, path: str, query: list[tuple[str, str]], before: str, after: str
) -> None:
    url = f"{scheme}://{host}/{path}?" + "&".join(f"{name}={value}" for name, value in query)
    text = Redactor().text(before + url + after)
    assert "MARK" not in text
    assert f"{scheme}://{host}/{path}" in text
    assert text.endswith(after)
    assert Redactor().text(text) == text


@given(host=_HOST, user=st.text(_WORD, min_size=1, max_size=9), password=_QUERY.filter(lambda text: "/" not in text))
def test_the_user_and_password_of_a_url_are_redacted(host: str, user: str, password: str) -> None:
    text = Redactor().text(f"cannot reach https://{user}:{password}@{host}/models")
    assert "MARK" not in text
    assert host in text


@given(
    secret=st.text(st.characters(exclude_characters="*'\""), min_size=6, max_size=80).filter(
        lambda text: not text.isdecimal()
    ),
    before=_AROUND,
    after=_AROUND,
)
def test_a_secret_of_the_event_is_redacted_under_any_quoting(secret: str, before: str, after: str) -> None:
    redactor = Redactor()
    redactor.learn({"ResourceProperties": {"Settings": [{"HF_TOKEN": secret}]}})
    for quoted in (
        secret,
        json.dumps(secret),
        repr(secret),
        repr(f"{before} {[secret]} {after}"),
        json.dumps({"Cause": json.dumps({"text": repr(secret)})}),
        quote(secret.encode("utf-8", "surrogatepass")),
        quote_plus(secret.encode("utf-8", "surrogatepass")),
    ):
        assert secret not in redactor.text(before + quoted + after)
        assert quoted.strip("\"'") not in redactor.text(before + quoted + after)


@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=9),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
        max_leaves=9,
    )
)
def test_a_redacted_value_can_be_serialized_as_json(value: Any) -> None:
    redactor = Redactor()
    redactor.learn(value)
    json.dumps(redactor.value({"value": value}))


def test_redacting_thousands_of_backslashes_is_fast() -> None:
    redactor = Redactor()
    redactor.learn({"token": "\\a" * 12 + "\\\\" * 12 + "'" * 12})
    text = "\\" * 5000 + "a" + "'" * 50
    assert redactor.text(text) == text


@pytest.mark.parametrize(
    "name",
    [
        "ResponseURL", "WaitHandle", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "DB_PASSWORD", "client_secret",
        "Authorization", "AWS_SECRET_ACCESS_KEY", "aws_session_token", "x-api-key", "OPENAI_API_KEY", "Credentials",
        "X-Amz-Signature",
    ],
)  # fmt: skip
def test_any_value_under_a_secret_s_name_is_redacted(name: str) -> None:
    assert Redactor().value({"nested": [{name: "x"}]}) == {"nested": [{name: HIDDEN}]}
    assert Redactor().value({name: {"parts": ["x"]}}) == {name: HIDDEN}


@pytest.mark.parametrize(
    "name", ["artifact_key", "KmsKeyArn", "OPTION_MAX_ROLLING_BATCH_PREFILL_TOKENS", "tokenizer", "RecipeKey", "status"]
)
def test_values_under_names_similar_to_secrets_are_kept(name: str) -> None:
    assert Redactor().value({name: "4096"}) == {name: "4096"}


@pytest.mark.parametrize("name", ["Environment", "OptimizationEnvironment", "OverrideEnvironment"])
def test_container_environment_values_are_redacted_and_names_kept(name: str) -> None:
    assert Redactor().value({name: {"OPTION_ROLLING_BATCH": "auto"}}) == {name: {"OPTION_ROLLING_BATCH": HIDDEN}}


def test_an_environment_value_is_redacted_in_service_error_messages() -> None:
    redactor = Redactor()
    redactor.learn({"ResourceProperties": {"Environment": {"MY_SETTING": "not-for-the-log", "OPTION_TASK": "auto"}}})
    text = redactor.text("Value '{MY_SETTING=not-for-the-log}' at 'environment' failed: auto is not allowed")
    assert text == "Value '{MY_SETTING=***}' at 'environment' failed: auto is not allowed"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("the key ASIA1234567890ABCDEF is unknown", "the key *** is unknown"),
        ("HF_TOKEN=abc, OPTION_TASK=auto", "HF_TOKEN=***, OPTION_TASK=auto"),
        ("{'HF_TOKEN': 'abc', 'OPTION_TASK': 'auto'}", "{'HF_TOKEN': '***', 'OPTION_TASK': 'auto'}"),
        ("downloading with hf_abcdefghijklmnop", "downloading with ***"),
        ("Authorization was Bearer abc.def", "Authorization was Bearer ***"),
        ("X-Amz-Security-Token=abc%2Fdef&x=1", "X-Amz-Security-Token=***&x=1"),
    ],
)
def test_text_that_looks_like_a_secret_is_redacted(text: str, kept: str) -> None:
    assert Redactor().text(text) == kept


@pytest.mark.parametrize(
    "text",
    [
        "ExpiredTokenException: The security token included in the request is expired",
        "s3://artifacts/artifacts/0123456789abcdef/model/1/",
        "arn:aws:sagemaker:us-west-2:111122223333:optimization-job/optim-1",
        "An error occurred (ThrottlingException) when calling the CreateModel operation (reached max retries: 8): Rate "
        "exceeded",
        "the model s3://models/llama/ cannot be listed: AccessDenied",
    ],
)
def test_text_that_explains_a_failure_is_kept(text: str) -> None:
    assert Redactor().text(text) == text


def test_the_credentials_of_the_process_are_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "FwoGZXIvYXdzEBYaDH")
    redactor = Redactor()
    redactor.learn({})
    assert redactor.text("wJalrXUtnFEMI/K7MDENG and FwoGZXIvYXdzEBYaDH") == "*** and ***"


def test_the_secrets_of_one_event_are_forgotten_with_the_next() -> None:
    redactor = Redactor()
    redactor.learn({"WaitHandle": "something"})
    redactor.learn({})
    assert redactor.text("something") == "something"


def test_identifiers_are_kept_even_if_they_contain_an_environment_value() -> None:
    redactor = Redactor()
    redactor.learn({"Environment": {"STAGE_NAME": "production", "WHERE": "us-west-2"}})
    line = redactor.value({"stack_id": "arn:aws:cloudformation:us-west-2:1:stack/production/1", "reason": "production"})
    assert line == {"stack_id": "arn:aws:cloudformation:us-west-2:1:stack/production/1", "reason": HIDDEN}


def test_numbers_and_times_are_readable() -> None:
    at = dt.datetime(2026, 11, 21, tzinfo=dt.UTC)
    assert Redactor().value({"status": 403, "done": True, "none": None, "at": at}) == {
        "status": 403,
        "done": True,
        "none": None,
        "at": "2026-11-21 00:00:00+00:00",
    }
