from __future__ import annotations

import base64
import datetime as dt
import json
import re
import string
import time
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from botocore.credentials import ReadOnlyCredentials
from hypothesis import given
from hypothesis import strategies as st

from constructs_optim.evaluator.bearer_token import bearer_token
from constructs_optim.runtime.redaction import Redactor
from constructs_optim.runtime.secret_shapes import HIDDEN, SHAPES, kind_of_secret, may_be_secret

from ..support.sampling import one_in

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
    redactor.learn({"ResourceProperties": {"Environment": {"MY_AUTH": "not-for-the-log", "OPTION_TASK": "auto"}}})
    text = redactor.text("Value '{MY_AUTH=not-for-the-log}' at 'environment' failed: auto is not allowed")
    assert text == "Value '{MY_AUTH=***}' at 'environment' failed: auto is not allowed"


RANDOM = "q7" + "Xr9Kb2Mz4Wn8Tp5Vd1Hs6Jc3"


@pytest.mark.parametrize(
    ("variables", "text"),
    [
        (
            {"MODEL": "meta-textgeneration-llama-3-8b"},
            "the document of meta-textgeneration-llama-3-8b names no artifact",
        ),
        ({"HF_MODEL_ID": "Qwen/Qwen3-32B-Instruct"}, "Qwen/Qwen3-32B-Instruct does not exist"),
        ({"DATA": "s3://models-of-the-team/llama/"}, "s3://models-of-the-team/llama/ cannot be listed"),
        ({"SM_VLLM_QUANTIZATION": "compressed-tensors"}, "compressed-tensors is no quantization"),
        ({"AWS_ROLE": "arn:aws:iam::111122223333:role/Chat"}, "arn:aws:iam::111122223333:role/Chat may not"),
    ],
)
def test_what_a_message_is_about_is_no_secret_because_it_is_in_the_environment(
    variables: dict[str, str], text: str
) -> None:
    redactor = Redactor()
    redactor.learn({"ResourceProperties": {"Environment": variables}})
    assert redactor.text(text) == text


@pytest.mark.parametrize(
    "environment",
    [
        {"DB_PASSWORD": "correct horse"},
        {"SERVICE_AUTH": "correct horse"},
        {"SIGNING_KEY": "correct horse"},
        {"GIT_PAT": "correct horse"},
        [{"Name": "HF_TOKEN", "Value": "correct horse"}],
        [{"name": "HF_TOKEN", "value": "correct horse"}],
        {"API_KEYS": ["correct horse"]},
        {"nested": {"client_secret": {"value": "correct horse"}}},
    ],
)
def test_a_variable_with_a_secret_s_name_is_a_secret(environment: Any) -> None:
    redactor = Redactor()
    redactor.learn({"ResourceProperties": {"OverrideEnvironment": environment}})
    assert redactor.text("correct horse is wrong") == f"{HIDDEN} is wrong"


@pytest.mark.parametrize("label", ["Name", "name"])
def test_the_name_of_a_listed_variable_is_no_secret(label: str) -> None:
    redactor = Redactor()
    redactor.learn({"Environment": [{label: "HF_TOKEN", "Value": "correct horse"}]})
    assert redactor.text("HF_TOKEN is no setting") == "HF_TOKEN is no setting"


@pytest.mark.parametrize(
    "properties",
    [{"Label": "q7Xr9Kb2Mz4Wn8Tp5Vd1"}, [{"Name": "HF_TOKEN", "Value": "correct horse"}]],
    ids=["random_text", "listed"],
)
def test_outside_an_environment_neither_random_text_nor_a_label_makes_a_secret(properties: Any) -> None:
    redactor = Redactor()
    redactor.learn({"ResourceProperties": properties})
    for text in ("q7Xr9Kb2Mz4Wn8Tp5Vd1 is taken", "correct horse is taken"):
        assert redactor.text(text) == text


@pytest.mark.parametrize(
    ("value", "is_hidden"),
    [
        ("12345", False),
        ("abcde", False),
        ("abcdef", True),
        ("12345678901", False),
        ("123456789012", True),
        ("us-west-2", False),
        ("us-west-3", True),
        ("arn:of-my-own", True),
    ],
)
def test_short_values_short_numbers_and_the_region_are_kept_in_messages(
    monkeypatch: pytest.MonkeyPatch, value: str, *, is_hidden: bool
) -> None:
    monkeypatch.setenv("AWS_REGION", "us-west-2")
    redactor = Redactor()
    redactor.learn({"Environment": {"DB_PASSWORD": value}})
    assert redactor.text(f"with {value}.") == (f"with {HIDDEN}." if is_hidden else f"with {value}.")


def test_random_text_in_the_environment_is_a_secret_whatever_its_name() -> None:
    redactor = Redactor()
    redactor.learn({"Environment": {"MY_SETTING": RANDOM}})
    assert redactor.text(f"{RANDOM} is wrong") == f"{HIDDEN} is wrong"


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


# No text here is the secret of anything: the parts are joined so that scanners of repositories do not take it for one.
_40 = "wJalrXUtnFEMI/K7MDENG/bPxRfi" + "CYEXAMPLEKEY"
_JWT = "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxIn0." + "c2lnbmF0dXJlMTIz"
_PEM = "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEowIBAAKCAQEA\nabc+/=\n-----END RSA " + "PRIVATE KEY-----"
# For each shape: texts with MARK or a token in it, and texts that look similar and stay.
EXAMPLES: dict[str, tuple[list[str], list[str]]] = {
    "private key": (
        [
            _PEM,
            _PEM.replace("\n", "\\n"),
            _PEM[:60],
            _PEM.replace("RSA ", ""),
            _PEM.replace("RSA ", "PGP ").replace("KEY-", "KEY BLOCK-"),
        ],
        ["-----BEGIN PUBLIC KEY-----", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----"],
    ),
    "password in a URL": (
        ["https://user:MARK@host/x", "redis://:MARK@cache:6379", "postgres://me:MARK:b@db/x", "amqp://u:p@MARK@mq"],
        ["http://h:80", "http://h:80/a@b", "http://h:80 a@b"],
    ),
    "private key in base64": (
        [
            base64.b64encode(f"-----BEGIN {kind}PRIVATE KEY-----\nMIIEowIBAAKC".encode()).decode()
            for kind in ("", "EC ", "RSA ")
        ],
        [base64.b64encode(b"-----BEGIN CERTIFICATE-----\nMIIEowIBAAKCAQEA").decode()],
    ),
    "signature in a URL": (
        [
            "https://b.s3.amazonaws.com/k?X-Amz-Expires=60&X-Amz-Signature=MARK" + "0a1b" * 16,
            "https://d.cloudfront.net/k?Expires=1&Signature=MARK" + "aB3-" * 20 + "&Key-Pair-Id=K1",
            "https://a.blob.core.windows.net/c?sv=2022-11-02&sig=MARK" + "aB3%2F" * 8,
        ],
        ["see ?sig=short", "sig=0123456789abcdef0123456789abcdef"],
    ),
    "parameter": (
        [
            "jdbc:postgresql://h/db?user=u&password=MARK9",
            "jdbc:sqlserver://h:1433;databaseName=d;user=sa;password=MARKx;",
            "host=h password=MARKxyz",
            "Server=h;User Id=sa;Pwd = MARKxyz;",
            "api-key=MARKxyz,x-team=chat",
            "AccountName=a;AccountKey=MARKa1B2==;EndpointSuffix=core.windows.net",
            "Endpoint=sb://b/;SharedAccessKeyName=root;SharedAccessKey=MARKa1B2=",
        ],
        [
            "user=u;password=%s",
            "api-key=EMPTY",
            "&password=true",
            "max_tokens=512",
        ],
    ),
    "Slack webhook": (
        ["https://hooks.slack.com/services/" + "T01MARK89/B0123456789/" + "a1B2" * 6],
        ["https://hooks.slack.com/services/", "https://slack.com/services/T01234567/B0123456789/index"],
    ),
    "Discord webhook": (
        ["https://discord.com/api/webhooks/123456789012345678/" + "MARKa1B2-" * 7],
        ["https://discord.com/api/webhooks/", "https://discord.com/api/webhooks/123456789012345678"],
    ),
    "URL": (
        ["https://user:MARK@host/x", "https://b.s3.amazonaws.com/k?X-Amz-Signature=MARK", "redis://:MARK@cache:6379"],
        ["https://example.com/a/b.html", "s3://bucket/key@2", "git@github.com:team/repository"],
    ),
    "header": (
        [
            '{"Authorization": "Bearer MARKhunter2"}',
            "authorization=Basic MARKdXNlcjpwYXNz",
            r"{\"Authorization\": \"Token MARK\"}",
            "Authorization: Bearer MARKa.b-c",
        ],
        ["Authorization was denied", "Which authorization? Bearer or basic"],
    ),
    "authorization": (
        [
            "Authorization: Basic MARKdXNlcjpwYXNz",
            "authorization=Digest MARK",
            '"Authorization": "Token MARK"',
            r"{\"Authorization\": \"Basic MARK\"}",
            "Proxy-Authorization: MARK",
        ],
        [
            "Authorization was denied",
            "a basic understanding",
            "the authorization of users",
            "{'Authorization': 'Bearer '}",
        ],
    ),
    "cookie": (
        [
            "Cookie: session=MARK; other=MARK",
            "Set-Cookie: id=MARK; Path=/",
            "cookie = a=MARK",
            "Cookie: 0MARK5e6f7a8b9c0d1e",
        ],
        ["the cookie: see below", "a cookie policy"],
    ),
    "XML": (
        [
            "<SessionToken>FwoGMARK==</SessionToken>",
            "<SecretAccessKey>MARK</SecretAccessKey>",
            "<password>MARK</password>",
            "<ns:db.password>MARK</ns:db.password>",
            "<password><![CDATA[MARK]]></password>",
            "<password>\n  <![CDATA[MARK]]>\n</password>",
        ],
        ["<eos_token></eos_token>", "<Tokens>word</Tokens>", "password > 3 < 5", "<Code>InvalidToken</Code>"],
    ),
    "list": (
        [
            "{'host': '0.0.0.0', 'api_key': ['MARK-abc'], 'model': 'x'}",
            "Namespace(api_key=['MARK'], hf_token=None)",
            '{"passwords": ["hunter2", "MARK"]}',
            r"{\"api_key\": [\"MARK\"]}",
            "api_key = [ b'MARK' ]",
            "password=[MARKhunter2",
            "api_keys: [team, 4fMARK8a9c]",
            "api_keys: [[MARK8f3a9c]]",
            "access_token=['MARK', 0.5]",
        ],
        [
            "api_key=[None]",
            "'api_key': []",
            "{'stop_token_ids': [1, 2]}",
            "secrets: [arn:aws:secretsmanager:us-west-2:111122223333:secret:hub]",
            '{"secrets": [{"name": "HUB"}]}',
            "inter_token_latencies: [0.0123, 0.0456]",
            '"inter_token_latency": [12.5, 13.1]',
            '"token_logprobs": [-0.1, -0.2]',
            "token_logprobs=[[-0.123456789, -2.5e-05], [-0.3]]",
            "accepted_token_lens: [1, 2, 3]",
            "generated_token_times = [0.1, 0.2]",
            "generated_token_times = [0.12345678 0.23456789]",
            "generated_token_times = [np.float64(0.12345678)]",
            "token_classes: [ORG, PER]",
            "Signature: [input_ids, mask]",
            "encryption_keys: [1234abcd-12ab-34cd-56ef-1234567890ab]",
        ],
    ),
    "quoted value": (
        [
            '{"password": "MARK"}',
            "{'client_secret': 'MARK it'}",
            'password = """MARK"""',
            "password = '''MARK it'''",
            r"{\"password\": \"MARK\"}",
            r'{"token": "a\"MARK"}',
            r'"{\\\"api_key\\\": \\\"MARK\\\"}"',
            'api_key = "MARK"',
            '{"access-key": "MARK"}',
            "{'password': b'MARK'}",
            "Config(api_key=SecretStr('MARK'), x=1)",
            '{"Name": "DB_PASSWORD", "Value": "MARK"}',
            '{"name":"HF_TOKEN","value":"MARK"}',
            '{"ParameterKey": "DbPassword", "ParameterValue": "MARK"}',
            '<add key="ApiKey" value="MARK"/>',
            '{"password": {"value": "MARK"}}',
            'password := "MARK it"',
            "'password' => 'MARK'",
            'encryption_key: "MARK"',
            '{"password": "1234abcd-12ab-34cd-56ef-1234567890ab"}',
        ],
        [
            'encryption_key: "alias/aws/sagemaker"',
            '{"EncryptionKey": "1234abcd-12ab-34cd-56ef-1234567890ab"}',
            '{"tool_call_token": "<tool_call>"}',
            '{"max_tokens": "512"}',
            '{"artifact_key": "0123456789abcdef"}',
            '{"tokenizer": "llama"}',
            '{"password": {"type": "string"}}',
            '{"Name": "MAX_TOKENS", "Value": "512"}',
            "{'api_key': None, 'password': ''}",
        ],
    ),
    "value before its name": (
        [
            '{"value": "MARK", "name": "DB_PASSWORD"}',
            '{"Value":"MARK it","Key":"hf_token"}',
            r"{\"value\": \"MARK\", \"name\": \"API_KEY\"}",
        ],
        ['{"value": "chat", "name": "MODEL"}', '{"value": "512", "name": "MAX_TOKENS"}'],
    ),
    "pair": (
        ["[(b'x-api-key', b'MARKxyz1')]", "('X-Auth-Token', 'MARK1')"],
        ["('password', 'username')", "(b'accept', b'text/html1')", "insert into t (token, n1)"],
    ),
    "name=value": (
        [
            "password=MARK&x=1",
            "export API_KEY=MARK",
            "AWS_SECRET_ACCESS_KEY=MARK",
            "passphrase=MARK",
            "AccountKey=MARK==;x",
            "my_pwd=MARK",
            "GOOGLE_VISION_TOKEN=MARK",
            "front-end-token=MARK",
            "tool_call_token=<MARK9>",
            "password=<MARK>",
            "api_key=1234abcd-12ab-34cd-56ef-1234567890ab",
        ],
        [
            "ArtifactStore(..., encryption_key=...)",
            "ArtifactStore(encryption_key=alias/team)",
            "encryption_key=1234abcd-12ab-34cd-56ef-1234567890ab",
            "TOOL_CALL_TOKEN=<tool_call>",
            "image_token=<|image|>",
            "SM_VLLM_EOS_TOKEN=</s>",
            "token=%s",
            "api_key=EMPTY",
            "max_tokens=512",
            "tokenizer=llama",
            "key=value",
            "secretary=Johnson",
        ],
    ),
    "variable": (
        [
            "DB_PASS=MARKs3cret",
            "ENCRYPTION_KEY=MARKabcdef",
            "OPENAI_KEY: MARKabcdef1",
            "export OPENAI_KEY='MARKabcdef1'",
            "LICENSE_KEY=MARK-8F3A-9C2B",
            "SERVICE_KEY=MARKaB3/xY9zQ1w==",
            "MY_PWD=MARKabcdef",
        ],
        [
            "PARTITION_KEY=customer",
            "S3_OBJECT_KEY=models/llama",
            "FORWARD_PASS=complete",
            "SMOKE_TEST_PASS: everything",
            "SORT_KEY=123456",
            "OPENAI_KEY=$OPENAI_API_KEY",
            "PRESS_ANY_KEY",
            "OUTPUT_KEY=out/2026/11/29/x.json",
            "MODEL_DATA_KEY=models/llama.tar.gz",
            "REPORT_KEY=shadows/abc/report.md",
            "RESULT_KEY=results/2026/11/29/x.json",
            "CODE_KEY=code/v12345678.zip",
            "TAG_KEY=project",
            "METRIC_KEY=latency",
            "SM_HP_OUTPUT_KEY=x/y/z",
            "GROUP_KEY=customer",
        ],
    ),
    "name: value": (
        [
            "password: MARKhunter",
            "X-Api-Key: MARK",
            "secret:MARK",
            "{a: {SecretString:MARKhunter}}",
            "db.password: MARK",
            "private_key: MARK",
            "My API key: MARKabcd1234",
            "Secret key: MARK",
            "pwd: MARKhunter",
            "x-api-key = MARK",
            "password: hunterMARK is wrong",
            "password: |\n  hunterMARK",
            "api_key: >-\n  MARK8f3a9c",
            "Ocp-Apim-Subscription-Key: MARK0123",
            "X-Auth-Key: MARK8f3a",
            "client-key-data: MARKLS0t",
            "- name: DB_PASSWORD\n  value: hunterMARK",
            "password:                         hunterMARK",
        ],
        [
            "Which password? None",
            "The secret: be kind",
            "a key: value",
            "passwords are not: ever",
            "the secretary: Johnson",
            "Secret: required parameter missing",
            "the secretariat: Geneva",
            "The master key: Frodo",
            "the encryption key: a value",
            "encryption_key: alias/aws/sagemaker",
            "EncryptionKey: 1234abcd-12ab-34cd-56ef-1234567890ab",
            "encryption_key: mrk-1234abcd12ab34cd56ef1234567890ab",
            "there is no encryption_key: 1234abcd-12ab-34cd-56ef-1234567890ab.",
            "f(secret=secret_value)",
            "OpenAI(api_key=api_key)",
        ],
    ),
    "token: value": (
        [
            "token: MARK12345",
            "X-Amz-Security-Token: MARK+abc/1",
            "credential: MARK9999",
            "- name: HF_TOKEN\n  value: MARK12345",
        ],
        ["token: a word or a part", "max_tokens: 512", "token_count: 1048576", "the token: see below"],
    ),
    "password value": (
        ["password hunter2MARK", "the passphrase MARK12345", "the password is hunter2MARK"],
        ["password must have 8 characters", "a password 12345678", "password arn:aws:secretsmanager:x:1:secret:a1"],
    ),
    "name value": (
        ["WANDB_API_KEY " + "0a1b2c3d" * 5, "the token is " + "0a1b2c3d" * 4, "my api key is a1B2c3D4e5F6g7H8i9J0MARK"],
        [
            "the secret is in a-bucket-of-the-team-2-of-3",
            "secret hf-token-for-llama-3-8b-instruct-model",
            "the token is a word of the vocabulary",
            "artifact key " + "0a1b2c3d" * 8,
            "the client token " + "0a1b2c3d" * 4,
            "encryption key 1234abcd-12ab-34cd-56ef-1234567890ab",
        ],
    ),
    "--option value": (
        ["curl --token MARK", "run --api-key MARK -v", "--db-password  MARK", "--client-secret MARK"],
        ["--max-tokens 512", "--image-token x9", "--api-key EMPTY", "--tokenizer llama", "--token --verbose"],
    ),
    "--option, value": (
        [
            "['vllm', 'serve', '--api-key', 'MARK']",
            '["--hf-token", "MARK it"]',
            r'{"cmd": "[\"--api-key\", \"MARK\"]"}',
        ],
        ["['--max-tokens', '512']", "['--api-key', '--verbose']", "['--tokenizer', 'llama']", "['--api-key', 'EMPTY']"],
    ),
    "described value": (
        [
            "db.password.file=hunterMARK",
            "DATABASE_PASSWORD_URL=MARK",
            "run --password-file MARK",
            "--api-key-path=MARK",
            "api_key_version: MARKa1B2c3D4e5F6g7H8i9",
        ],
        [
            "TOKEN_URL=https://host/token",
            "--api-key-file /run/secrets/key",
            "password_file=key.txt",
            "--tokenizer-path llama",
            "tokenizer_path=llama",
            "secret_path: missing",
            "API_KEY_HEADER=X-Api-Key1",
            "password_file=$PASSWORD_FILE",
        ],
    ),
    "-u user:password": (
        [
            "curl -u user:MARK https://h",
            "curl -u 'user:MARK'",
            "--user me:MARK",
            "--user=me:MARK",
            "curl -uadmin:MARK2xyz",
            "curl -u user:hunter -s",
            "--user app:hunter2",
        ],
        [
            "--user app:staff",
            "docker run --user app:www-data image",
            "docker run -u 1000:1000",
            "run --user 0:0",
            "-u root",
            "-u https://host",
            "--user node:node",
            "-unit:test",
        ],
    ),
    "bearer": (
        ["Bearer MARK", "bearer MARK.abc", "bearer correct-horse1", "Bearer abcdefghijklmnop"],
        [
            "bearers of news",
            "forbearer",
            "the bearer of news",
            "a bearer token is missing",
            "the ring bearer Frodo walked",
            "standard bearer Smith.",
            "bearer bonds, bearer shares",
        ],
    ),
    "basic": (
        ["Basic dXNlcjpwYXNz", "basic TUFSSzpwYXNzd29yZA=="],
        ["a basic understanding", "basic settings", "Basic Latin", "basic abcdefgh"],
    ),
    "AWS bearer token": (
        ["bad key sagemaker-api-key-MARKc2FnZW1ha2Vy+/=", "bedrock-api-key-MARKYmVk", "ABSK" + "a1B2" * 30 + "=="],
        ["sagemaker-api-reference", "the sagemaker API key", "sagemaker-api-key-rotation-of-the-team"],
    ),
    "AWS session token": (
        ["the token FwoGZXIvYXdz" + "EBYaDHqa0AP1" * 9 + "== is expired", "IQoJb3JpZ2lu" + "X2VjEJr+/a1B2" * 9],
        ["FwoGZXIvYXdz", "IQoJb3JpZ2luX2Vj"],
    ),
    "AWS access key ID": (
        ["AKIAIOSFODNN7" + "EXAMPLE", "ASIA" + "Y34FZKBOKMUTVV7A"],
        ["AKIA", "AKIAIOSFODNN7EXAMPLES", "ACCAPTEDBYEVERYTEAMX"],
    ),
    "AWS secret access key": (
        [_40, f"it is {_40}.".replace(".", ""), f"({_40})"],
        [
            "0123456789abcdef0123456789abcdef01234567",
            "models/Meta/Llama3/Instruct/v1/files4567",
            "MyApplicationChatEndpointExecutionRole12",
            f"{_40}x",
            "a" * 40,
        ],
    ),
    "GitHub": (
        ["ghp_" + "MARK" + "a1B2" * 8, "gho_" + "a1B2" * 9, "github_pat_" + "11ABCDEFG0" * 3],
        ["ghp_short", "github_patches", "sighp_"],
    ),
    "GitLab": (
        [
            "glpat-" + "a1B2" * 5,
            "glpat-" + "a1B2" * 7 + ".01.0MARKab12".lower(),
            "glrt-" + "a1B2" * 5,
            "glcbt-64_" + "a1B2" * 5,
        ],
        ["glpat-", "glpat", "agl-dt-of-the-whole-team-of-ours", "glft-x", "glft-mistral-7b-instruct-v0-2-awq"],
    ),
    "Slack": (
        ["xoxb-" + "123456789012-abc", "xapp-" + "1-A012BCDEF-abc"],
        ["xoxo-love-and-kisses", "xoxb-1", "xapp-server-configuration"],
    ),
    "Hugging Face": (
        ["hf_" + "abcdefghijklmnop", "api_org_" + "abcdefghijklmnop"],
        ["hf_token", "hf_model", "hf_transfer", "hf_tokenizers", "shf_abcdefghijklmnop"],
    ),
    "sk-": (
        [
            "sk-" + "MARK" * 5,
            "sk-proj-" + "a1B2-_" * 8,
            "sk-ant-api03-" + "x" * 30,
            "sk_live_" + "a1B2" * 6,
            "sk-lf-" + "01234567-89ab-cdef-0123-456789abcdef",
        ],
        [
            "sk-learn",
            "risk-adjusted-return-on-capital",
            "task_of_the_next_release_candidate",
            "sk-learn-based-pipelines-are-nice",
            "sk-learn-text-classification-v1",
            "sk-Llama-3-8B-Instruct",
        ],
    ),
    "prefixed key": (
        [
            "nvapi-" + "a1B2" * 16,
            "gsk_" + "a1B2" * 13,
            "dapi" + "0a1b" * 8,
            "hvs." + "a1B2" * 24,
            "r8_" + "a1B2" * 9,
            "tskey-auth-k" + "a1B2" * 8,
            "figd_" + "a1B2" * 8,
            "csk-" + "0a1b" * 12,
            "wandb_v1_" + "a1B2" * 9,
        ],
        [
            "nvapi-catalog",
            "gsk_is_not_a_key_but_a_long_name_1",
            "dapi_settings",
            "fw_firmwareversion123456",
            "gsk_model_llama31instruct70b",
            "xai-grok2instruct70bchatv1",
            "gldt-detectionmodel-large-v1",
        ],
    ),
    "Google": (
        ["AIza" + "SyA1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q", "ya29." + "a0AfH6SMB-x_y.z1234567"],
        ["AIza", "AIzawa is a town", "ya29.short"],
    ),
    "SendGrid": (["SG." + "a1B2c3D4e5F6g7H8" + "." + "i9J0k1L2m3N4o5P6"], ["SG.x", "SG.1.2", "MSG.a"]),
    "npm and PyPI": (
        ["npm_" + "a1B2" * 9, "pypi-" + "AgEIcHlwaS5vcmc" * 4],
        ["npm_config_registry", "pypi-server-of-the-whole-company-and-its-many-teams"],
    ),
    "keys of other forms": (
        [
            "https://api.telegram.org/bot123456789:AA" + "F-a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P" + "/send",
            "a1b2c3d4e5f6g7.atlasv1." + "a1B2" * 16,
            "whsec_" + "a1B2" * 8,
            "dp.st.prd." + "a1B2" * 10,
            "pat" + "a1B2c3D4e5F6g7." + "0a1b" * 16,
            "key-" + "0a1b" * 8,
            "SK" + "0a1b" * 8,
            "secret_" + "a1B2" * 10,
        ],
        [
            "123456789:AAF",
            "a.atlasv1.b",
            "whsec_is_the_team_that_is_a_name",
            "secret_of_the_team_that_has_a_name_of_forty_words",
            "key-0a1b",
            "dp.st.prd",
        ],
    ),
    "JSON Web Token": ([_JWT, f"jwt={_JWT}"], ["eyJ", "eyJhbGciOiJIUzI1NiJ9", "heyJude.and.others"]),
}


def test_every_shape_of_a_secret_has_examples() -> None:
    assert list(EXAMPLES) == list(SHAPES)
    assert all(secret and ordinary for secret, ordinary in EXAMPLES.values())


@pytest.mark.parametrize(("shape", "text"), [(name, text) for name, (each, _) in EXAMPLES.items() for text in each])
def test_a_secret_is_hidden_by_its_shape(shape: str, text: str) -> None:
    found = SHAPES[shape]
    assert found.pattern.sub(found.replacement, text) == found.hidden_in(text) != text, "the shape itself matches"
    for around in ("{}", "before {} after", "{}\n", "({})"):
        redacted = Redactor().text(around.format(text))
        assert HIDDEN in redacted
        assert "MARK" not in redacted
        assert redacted == Redactor().text(redacted)


@pytest.mark.parametrize("text", [text for _, each in EXAMPLES.values() for text in each])
def test_text_similar_to_a_secret_is_kept(text: str) -> None:
    assert Redactor().text(text) == text


@pytest.mark.parametrize("shape", [name for name, shape in SHAPES.items() if shape.kind is not None])
def test_a_variable_whose_value_is_certainly_a_secret_is_hidden_and_refused_and_left_out(shape: str) -> None:
    for text in EXAMPLES[shape][0]:
        assert kind_of_secret("SETTING", text) == SHAPES[shape].kind
        assert may_be_secret("SETTING", text)
    for text in EXAMPLES[shape][1]:
        assert kind_of_secret("SETTING", text) is None


@pytest.mark.parametrize(
    ("name", "is_certain"),
    [
        *((name, True) for name in ("HF_TOKEN", "DB_PASSWORD", "DB_PASS", "MY_PWD", "GIT_PAT", "CLIENT_SECRET")),
        *((name, True) for name in ("OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "AccountKey", "STORAGE_ACCOUNT_KEY")),
        *((name, False) for name in ("OPENAI_KEY", "SERVICE_AUTH", "CHAT_TOKEN", "DB_SECRET", "SESSION_COOKIE")),
        *((name, False) for name in ("GOOGLE_VISION_TOKEN", "AZURE_TEXT_TOKEN", "FRONT_END_TOKEN", "AI_NEXT_TOKEN")),
        *((name, True) for name in ("HUGGINGFACE_TOKEN", "PGPASSWORD", "SLACK_BOT_TOKEN", "AWS_BEARER_TOKEN_BEDROCK")),
        *((name, False) for name in ("ENCRYPTION_KEY", "OTEL_EXPORTER_OTLP_TRACES_HEADERS")),
        *((name, False) for name in ("FILE_PAT", "ACCESS_KEY_ID")),
    ],
)
def test_a_variable_with_a_secrets_name_is_hidden_and_left_out_and_refused_if_it_leaves_no_doubt(
    name: str, is_certain: bool
) -> None:
    redactor = Redactor()
    redactor.learn({"Environment": {name: "correct horse"}})
    assert redactor.text("correct horse is wrong") == f"{HIDDEN} is wrong"
    assert may_be_secret(name, "correct horse")
    assert (kind_of_secret(name, "correct horse") is not None) is is_certain
    for reference in ("", "EMPTY", "arn:aws:secretsmanager:x", "{{resolve:secretsmanager:x}}"):
        assert not may_be_secret(name, reference)
        assert kind_of_secret(name, reference) is None


@pytest.mark.parametrize("name", ["OPENAI_KEY", "LICENSE_KEY", "ENCRYPTION_KEY", "STAGE_PASS", "KEY"])
@pytest.mark.parametrize("value", ["8F3A-9C2B-77D1", "horse-battery9", RANDOM, "aB3/xY9zQ1w=="])
def test_a_key_or_pass_with_a_value_that_looks_like_one_is_hidden_and_left_out(name: str, value: str) -> None:
    redactor = Redactor()
    redactor.learn({"Environment": {name: value}})
    assert redactor.text(f"{value} is wrong") == f"{HIDDEN} is wrong"
    assert may_be_secret(name, value)
    assert kind_of_secret(name, value) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OUTPUT_KEY", "out/2026/11/29/x.json"),
        ("RESULT_KEY", "results/2026/11/29/x.json"),
        ("MODEL_DATA_KEY", "models/llama.tar.gz"),
        ("METRIC_KEY", "latency_p99"),
        ("TAG_KEY", "project"),
        ("GROUP_KEY", "customer"),
        ("STEP_KEY", "0.12345678"),
        ("EXPERIMENT_PASS", "first-of-all"),
        ("SERVER_KEY", "alias/aws/sagemaker"),
        ("TOOL_CALL_TOKEN", "<tool_call>"),
    ],
)
def test_a_key_or_pass_or_token_with_another_value_is_none_of_these(name: str, value: str) -> None:
    redactor = Redactor()
    redactor.learn({"Environment": {name: value}})
    assert redactor.text(f"{value} is wrong") == f"{value} is wrong"
    assert redactor.text(f"{name}={value}") == f"{name}={value}"
    assert not may_be_secret(name, value)


@pytest.mark.parametrize(
    "key",
    [
        "1234abcd-12ab-34cd-56ef-1234567890ab",
        "mrk-1234abcd12ab34cd56ef1234567890ab",
        "alias/aws/sagemaker",
        "arn:aws:kms:us-west-2:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab",
    ],
)
def test_a_kms_key_is_no_secret(key: str) -> None:
    redactor = Redactor()
    redactor.learn({"ResourceProperties": {"EncryptionKey": key, "Environment": {"ENCRYPTION_KEY": key}}})
    assert redactor.text(f"KMS key {key} is disabled") == f"KMS key {key} is disabled"
    assert redactor.value({"EncryptionKey": key}) == {"EncryptionKey": key}
    assert not may_be_secret("encryption_key", key)
    redactor.learn({"ResourceProperties": {"Password": "1234abcd-12ab-34cd-56ef-1234567890ab"}})
    assert redactor.text("1234abcd-12ab-34cd-56ef-1234567890ab") == HIDDEN


@pytest.mark.parametrize(
    "name",
    [
        "TOKENIZER", "SM_VLLM_MAX_TOKENS", "SECRETARY", "KEYS", "PASSAGE", "SM_VLLM_MODEL",
        # Tokens of a model's text.
        "EOS_TOKEN", "PAD_TOKEN", "PAD_TOKEN_ID", "SM_VLLM_STOP_TOKEN_IDS", "THINK_END_TOKEN", "IMAGE_TOKEN",
        "MAX_TOKEN", "COST_PER_TOKEN", "TOKEN_BUDGET", "TOKEN_TYPE",
        # What describes a secret, or where it is.
        "SECRET_NAME", "SECRET_ARN", "TokenSecretArn", "API_KEY_HEADER", "HF_TOKEN_PATH", "PASSWORD_FILE", "TOKEN_URL",
        "AWS_WEB_IDENTITY_TOKEN_FILE", "CREDENTIAL_SOURCE", "SIGNATURE_NAME", "COOKIE_DOMAIN",
        # Keys of data.
        "PARTITION_KEY", "S3_OBJECT_KEY", "CACHE_KEY", "KMS_KEY", "ARTIFACT_KEY",
    ],
)  # fmt: skip
def test_a_variable_with_another_name_is_none_of_these(name: str) -> None:
    assert_is_no_secret(name)


DESCRIBING = (
    "ARN BUDGET COUNT DIR DOMAIN ENABLED ENDPOINT EXPIRY FILE FORMAT HEADER LENGTH LIMIT MODE NAME PARAMETER PATH "
    "PROVIDER REGION ROTATION SOURCE TREE TYPE URI URL USAGE VERSION"
)
BEFORE_TOKEN = "BOS CLS EOM EOS EOT FIM MAX MIN NUM PAD PER SEP SPECIAL SPECULATIVE THINK_END THINK_START UNK"
AT_FIRST = (
    "AUDIO BEGIN DECODER DRAFT END FIRST IMAGE INPUT LAST MASK MIDDLE NEW NEXT OUTPUT PREFIX PROMPT START STOP SUFFIX "
    "TEXT THINK TOTAL VIDEO VISION"
)


def test_words_that_describe_a_secret_or_belong_to_a_model_s_text_make_a_name_of_no_secret() -> None:
    for word in DESCRIBING.split():
        assert_is_no_secret(f"SECRET_{word}")
        assert_is_no_secret(f"API_KEY_{word}S")
    for word in BEFORE_TOKEN.split():
        assert_is_no_secret(f"SM_VLLM_{word}_TOKEN")
    for word in AT_FIRST.split():
        assert_is_no_secret(f"{word}_TOKEN")
        assert may_be_secret(f"SERVICE_{word}_TOKEN", "correct horse"), "the service's"


SERVICES = (
    "ANTHROPIC AZURE COHERE DATADOG DEEPSEEK GEMINI GROQ HF HUGGINGFACE LANGFUSE LANGSMITH MISTRAL NVIDIA OPENAI "
    "OPENROUTER REPLICATE STRIPE TOGETHER WANDB"
)


def test_the_key_of_a_known_service_is_a_secret_whatever_its_value() -> None:
    assert not may_be_secret("CONSUMER_KEY", "customer")
    for service in SERVICES.split():
        assert may_be_secret(f"{service}_KEY", "customer"), service


SWITCHES = "%s ... 0 1 basic bearer dummy empty false no none not-needed null off on sk-no-key-required true yes"


def test_switches_and_placeholders_are_no_secrets_under_any_name() -> None:
    for value in ["", *SWITCHES.split()]:
        for name in ("DB_PASSWORD", "HF_TOKEN", "OPENAI_KEY"):
            assert not may_be_secret(name, value), value
            assert kind_of_secret(name, value.upper()) is None, value


def assert_is_no_secret(name: str) -> None:
    redactor = Redactor()
    redactor.learn({"Environment": {name: "correct horse"}})
    assert redactor.text("correct horse is wrong") == "correct horse is wrong"
    assert not may_be_secret(name, "correct horse")


@pytest.mark.parametrize(
    "reference",
    [
        "arn:aws:secretsmanager:us-west-2:111122223333:secret:hub-AbCdEf",
        "arn:aws-us-gov:ssm:us-gov-west-1:111122223333:parameter/prod/token",
        "/prod/hub/token",
        "/run/secrets/hf-token_2",
        "s3://bucket/Llama-3.1-8B/token.json",
        "{{resolve:secretsmanager:hub:SecretString:token}}",
        "Bearer {{resolve:ssm-secure:/prod/hf:1}}",
        "$HF_TOKEN",
        "${HF_TOKEN}",
        "$TOKEN",
        "<your token>",
        "<API_KEY>",
        "[insert here]",
        "[MASK]",
        "EMPTY",
    ],
)
def test_a_reference_to_a_secret_is_not_one(reference: str) -> None:
    assert kind_of_secret("HF_TOKEN", reference) is None
    assert not may_be_secret("HF_TOKEN", reference)
    assert Redactor().text(f"cannot read {reference}.") == f"cannot read {reference}."


def test_the_arn_of_a_secret_in_the_environment_is_kept_in_messages() -> None:
    arn = "arn:aws:secretsmanager:us-west-2:111122223333:secret:hub-AbCdEf"
    redactor = Redactor()
    redactor.learn({"Environment": {"DB_PASSWORD": arn}})
    assert redactor.text(f"{arn} cannot be read") == f"{arn} cannot be read"


@pytest.mark.parametrize(
    "value",
    [
        "/" + _40[1:],
        "arn: my password",
        "{{resolve:nothing}}",
        "{{resolve",
        "s3://key:password@bucket",
        "$ecret",
        "$HUNTER2",
        "<hunter2>",
        "[hunter2]",
        "<monkey99>",
        "hunter2",
        "hf_" + "a1B2" * 8 + "{{resolve:secretsmanager:hub}}",
    ],
)
def test_a_secret_that_looks_similar_to_a_reference_is_refused(value: str) -> None:
    assert kind_of_secret("AWS_SECRET_ACCESS_KEY", value) is not None
    assert may_be_secret("AWS_SECRET_ACCESS_KEY", value)


def test_a_password_of_a_url_may_be_a_reference() -> None:
    url = "postgresql://user:{{resolve:secretsmanager:db:SecretString:password}}@db:5432/chat"
    assert kind_of_secret("DATABASE", url) is None
    assert not may_be_secret("DATABASE", url)


@pytest.mark.parametrize(
    "value",
    [
        "Authorization=Bearer " + "abcdef" * 4,
        '{"Authorization": "Bearer abcdef"}',
        '{"api_key": "correct horse"}',
        "--api-key correct-horse",
        "host=db password=hunter2",
        _40,
    ],
)
def test_a_variable_that_contains_a_secret_is_left_out(value: str) -> None:
    assert may_be_secret("SETTING", value)


@pytest.mark.parametrize(
    "value",
    [
        "sha256:" + "0a1b" * 16,
        "0a1b" * 16,
        "0123456789abcdef0123456789abcdef01234567",
        "01234567-89ab-cdef-0123-456789abcdef",
        "01234567-89AB-CDEF-0123-456789ABCDEF",
        "s3://models/Llama-3.1/8B/",
        "111122223333.dkr.ecr.us-west-2.amazonaws.com/vllm@sha256:" + "0a1b" * 16,
        "763104351884.dkr.ecr.us-west-2.amazonaws.com/djl-inference:0.36.0-lmi18.0.0-cu128",
        "hf-internal-testing/tiny-random-LlamaForCausalLM",
        "https://hub.example.com/v1?region=us-west-2",
        '{"method": "eagle3", "num_speculative_tokens": 5}',
        '{"eos_token": "</s>", "pad_token_id": 128001}',
        "{% for m in messages %}{{ m['content'] }}{{ eos_token }}{% endfor %}",
        "sql=s3://adapters/Sql1/V2",
        "sha384-" + "a1B2" * 16,
        "<|eot_id|>",
    ],
)
def test_an_identifier_or_a_setting_is_no_secret(value: str) -> None:
    assert kind_of_secret("SETTING", value) is None
    assert not may_be_secret("SETTING", value)


@given(st.binary(min_size=30, max_size=30))
def test_nearly_every_secret_access_key_is_hidden(key: bytes) -> None:
    """Those that stay have a word of seven letters, no digit, or no letter of a case: 1 in 10 at most."""
    text = base64.b64encode(key).decode()
    is_random = all(any(map(test, text)) for test in (str.islower, str.isupper, str.isdecimal))
    if is_random and not re.search("[a-z]{7}", text) and text.count("/") <= 3:
        assert Redactor().text(f"the key {text} is wrong") == f"the key {HIDDEN} is wrong"


def forms_of(name: str, value: str) -> list[str]:
    """A name and its value as settings, code, documents, requests, commands and structures write them."""
    option = f"--{name.replace('_', '-')}"
    lists = [[{"Name": name, "Value": value}], [{"name": name, "value": value}], [option, value]]
    documents: list[Any] = [{name: value}, {name: [value]}, {name: {"value": value}}, *lists]
    code: list[Any] = [*documents, {name: value.encode()}, {name: (value,)}, {name: [value, value]}, [(name, value)]]
    return [
        *(f"{name}{sign}{value}" for sign in ("=", ": ", " = ", ":", ":\t", ": |\n    ", ": >-\n  ", ": " + " " * 30)),
        *(f"{name}{sign}{quote}{value}{quote}" for sign in ("=", ": ", " := ", " => ") for quote in "'\""),
        *(json.dumps(each, indent=indent) for each in documents for indent in (None, 2)),
        *(json.dumps({"a": json.dumps(each)}) for each in documents),
        *(json.dumps({"a": json.dumps({"b": json.dumps(each)})}) for each in documents),
        *map(repr, code),
        repr([(name.encode(), value.encode())]),
        *(f"f(a=1, {name}={call})" for call in (f"'{value}'", f"['{value}']", f"S('{value}')", f'a.S("{value}")')),
        f"<{name}>{value}</{name}>",
        f"<a:{name}>\n  {value}\n</a:{name}>",
        f'<add key="{name}" value="{value}"/>',
        f"- name: {name}\n  value: {value}",
        f'- name: {name}\n  value: "{value}"',
        f"{option} {value}",
        f"{option}={value}",
        f"{option} '{value} it'",
        f"https://host/path?{name}={value}&a=1",
        f"a=b&{name}={value}",
        f"a=b;{name}={value};",
        f"export {name}='{value} it'",
        f"**{name}**: {value}",
        f"`{name}`: `{value}`",
    ]


@pytest.mark.parametrize(
    "name",
    [
        "password", "api_key", "x-api-key", "HF_TOKEN", "client_secret", "SessionToken", "DB_PASSWORD", "dbPassword",
        "aws_secret_access_key", "hf-token", "Authorization", "encryption_key", "Ocp-Apim-Subscription-Key",
    ],
)  # fmt: skip
def test_a_secret_s_name_announces_its_value_in_every_form(name: str) -> None:
    shown = [text for text in forms_of(name, "MARKhorse9") if "MARK" in Redactor().text(f"before {text} after")]
    assert shown == []


@pytest.mark.parametrize("name", ["max_tokens", "artifact_key", "tokenizer", "EOS_TOKEN", "model", "secretary"])
def test_another_name_announces_nothing_in_any_form(name: str) -> None:
    # But a URL's query is hidden.
    texts = [text for text in forms_of(name, "chat9") if "://" not in text]
    assert [text for text in texts if Redactor().text(f"before {text} after") != f"before {text} after"] == []


@pytest.mark.parametrize(
    "text",
    ["{'x': 'y', 'password': 'MARK", '{"api_key": "MARK', r'"{\"password\": \"MARK', "SecretStr: password='MARK"],
)
def test_a_value_that_is_cut_off_is_hidden(text: str) -> None:
    assert "MARK" not in Redactor().text(text)


@pytest.mark.parametrize(
    "value",
    [
        "jdbc:postgresql://h/db?user=u&password=${PASSWORD}",
        "jdbc:postgresql://h/db?user=u&password={{resolve:secretsmanager:db:SecretString:password}}",
        "host=h password=<yours>",
        "api-key=$API_KEY,x-team=chat",
        "api-key={{resolve:ssm-secure:/prod/key:1}}",
        '{"Authorization": "Bearer $TOKEN"}',
        '{"Authorization": "Bearer {{resolve:secretsmanager:hub}}"}',
        "Authorization: Bearer <token>",
        "Authorization=Bearer token",
        "Tell me how to set password=hunter2",
    ],
)
def test_text_with_a_place_for_a_secret_is_not_certainly_one(value: str) -> None:
    assert kind_of_secret("SETTING", value) is None


def test_the_library_s_own_bearer_tokens_are_hidden() -> None:
    token = bearer_token(ReadOnlyCredentials("AKIDEXAMPLE", "secret", "session"), "us-west-2")
    assert Redactor().text(f"bad key {token}.").startswith(f"bad key {HIDDEN}")


REPEATED = [
    "secret", "token", "password-", "password_file=", "--token-file ", "_vision_token", "<key", "$KEY",
    "a://", "a://b@", "://", "eyJ", "eyJ-", "eyJabcdef.", "-----BEGIN PRIVATE KEY-----",
    "-----BEGIN ", "--", "-", "--token ", 'token":"', "token':\"", 'token\\":\\"', "password: ", "password:", "bearer ",
    "authorization:", "authorization: basic ", "sk-", "ghp_", "AIza", "npm_", "xoxb-", "pypi-", "\\", '"', "A1a", "hf_",
    "a" * 39 + "/", "key=", "1:", "a.a@", "sagemaker-api-key-", " ", "\n", "api_key\\", "secret='", "cookie:a",
    "cookie:", "-u a:", "-u ", "basic a", "basic ", "password a", "pwd", "api key",
    "{{resolve:", "{{resolve:ssm:", "eos_token", "token_", "secretstring:", "secret_", "&sig=", "gl", "glpat-a",
    "secret>", "secret>a<", "<secret>", "secret=[", "secret=['", "secret: {", 'secret": {"value":"', "('secret', '",
    "secret', 'value", "secret, value: ", 'name": "secret", "value": "', "--secret', '", "--secret', 'a", "A_KEY",
    "A_KEY=", "A_", "A_KEY=abcd", "&password=", "?password=a", " pwd=abcd", ";", "authorization: bearer ",
    "authorization: bearer a1", "-ua:", "-ua1:b", "/api/webhooks/1", "1" * 15, "FwoGZXIvYXdz", "IQoJb3JpZ2lua", "1:AA",
    ".atlasv1.", "whsec_", "secret := ", "secret =>", "secret: |\n", "secret: >-\n  ", "secret=SecretStr('",
    "secret=a(", "secret=b'", "password is ", "bearer A", "encryption_key", "auth", "secret: " + " " * 30, "secret,",
    "secret=a.b('", "secret=br'", "secret: a = '", "**secret**: ", "`secret`:", "authorization", "authorization='",
    "secret=$'a", "secret=a{'b", "--secret 'a", "a@b:c@", "://a:@",
    "secret=[[", "secret=[[a1", "encryption_key=alias/", "token=<a_", "--user a:b", "--user a:b ", "A_KEY=a/1",
    "nvapi-", "nvapi-a1", "hvs.", "hooks.slack.com/", "://hooks.slack.com/", "secret.a-",
    "sk-lf-a-", "sk-a", "sk-1", "xapp-", "ya29.", "SG.", "SG.a-", "://a:", ":", "@", "secret ", "secret: a",
    "secret is ", "secret>]", "secret><![CDATA[", "secret><![CDATA[a]]>", "LS0tLS1CRUdJTi", "LS0tLS1CRUdJTia",
    'value":"', 'value":"a', 'value\\": \\"', 'value":"a","name":"', "secret=\'\'\'", 'secret="""', "cookie: a",
    'auth":"', 'auth":"a', "tskey-auth-", "dp.st.a-", "SK", "key-", "secret\uff1a",
]  # fmt: skip


@pytest.mark.parametrize("part", one_in(18, REPEATED))
def test_the_time_is_proportional_to_the_length(part: str) -> None:
    """Four times the text takes four times as long; in quadratic time, it takes sixteen times as long."""

    def seconds(length: int) -> float:
        text = (part * length)[:length]
        began = time.process_time()
        Redactor().text(text)
        return time.process_time() - began

    # The least of several measurements is nearly free of other processes' effects.
    short, long = (min(seconds(length) for _ in range(4)) for length in (6_000, 24_000))
    assert long < 9 * max(short, 0.002)


@pytest.mark.parametrize(
    "text",
    [
        "ExpiredTokenException: The security token included in the request is expired",
        "s3://artifacts/artifacts/0123456789abcdef/model/1/",
        "arn:aws:sagemaker:us-west-2:111122223333:optimization-job/optim-1",
        "An error occurred (ThrottlingException) when calling the CreateModel operation (reached max retries: 8): Rate "
        "exceeded",
        "the model s3://models/llama/ cannot be listed: AccessDenied",
        "the secret arn:aws:secretsmanager:us-west-2:111122223333:secret:hub-AbCdEf cannot be read",
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
    redactor.learn({"Environment": {"STAGE_AUTH": "production", "WHERE": "us-west-2"}})
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
