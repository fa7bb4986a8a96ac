"""What secrets look like, by their names and in text: for logs, for containers' variables, and for adopted endpoints.

The recipe's rules import this module too, so that it needs the standard library alone.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property

HIDDEN = "***"
"""The replacement for a secret."""

# Names that describe a secret, or where it is: api_key_header, SECRET_ARN, AWS_WEB_IDENTITY_TOKEN_FILE.
_DESCRIBING = (
    "arn", "budget", "count", "dir", "domain", "enabled", "endpoint", "expiry", "file", "format", "header", "length",
    "limit", "mode", "name", "parameter", "path", "provider", "region", "rotation", "source", "tree", "type", "uri",
    "url", "usage", "version",
)  # fmt: skip
_DESCRIBED = "|".join(f"(?<={word})|(?<={word}s)" for word in _DESCRIBING)
_NOT_DESCRIBED = rf"(?![\w.-]{{0,40}}+(?![\w.-])(?:{_DESCRIBED}))"
# Words before "token" that make it a part of a model's text: eos_token, SM_VLLM_EOS_TOKEN, cost_per_token.
_OF_TEXT = (
    "bos", "cls", "eom", "eos", "eot", "fim", "max", "min", "num", "pad", "per", "sep", "special", "speculative",
    "think_end", "think_start", "unk",
)  # fmt: skip
# The same only where they begin the name: GOOGLE_VISION_TOKEN and FRONT_END_TOKEN are a service's.
_FIRST_OF_TEXT = (
    "audio", "begin", "decoder", "draft", "end", "first", "image", "input", "last", "mask", "middle", "new", "next",
    "output", "prefix", "prompt", "start", "stop", "suffix", "text", "think", "total", "video", "vision",
)  # fmt: skip
_TEXT_BEFORE = "".join(
    [rf"(?<!\b{word}[-_ ]token)(?<!_{word}_token)" for word in _OF_TEXT]
    # After "--", but not after "vision-".
    + [rf"(?<!(?<!\w)(?<!\w-){word}[-_ ]token)" for word in _FIRST_OF_TEXT]
)
_NOT_OF_TEXT = rf"(?:(?<![-_ ]token)|{_TEXT_BEFORE})"

# Without a space, the last ones are no part of a sentence.
_KEY = (
    "(?:(?:api|access|account|private|secret)[-_ ]?key"
    "|(?:auth|encryption|master|signing|ssh|subscription)[-_]?key|client[-_]key[-_]data)"
    f"{_NOT_DESCRIBED}"
)
_PASSWORD = rf"(?:passw(?:or)?d|passphrase|(?<![a-z])pwd){_NOT_DESCRIBED}"
# Not secretary, secretive, secretion, the ARNs of Secrets Manager, which errors name, and the SecretString of a dynamic
# reference, which follows the secret's name.
_SECRET = (
    r"(?<!\d{12}:)secret(?!ari|ary|ive|ion|smanager)(?!(?<=[\w/+=.@-]:secret)string:[\w./-]{0,80}(?:\}\}|:))"
    rf"{_NOT_DESCRIBED}"
)
# Not an AuthorizationError.
_TOKEN = (
    r"(?:authori[sz]ation(?![\w.])|credential|signature|token(?!s|iz|[-_]?ids?(?![a-z]))"
    rf"{_NOT_OF_TEXT}){_NOT_DESCRIBED}"
)


@cache
def _name_of_secret() -> re.Pattern[str]:
    """Return what names of secrets match. Its compilation takes longer than the rest of this module."""
    other = rf"response_?url|wait_?handle|(?:authori[sz]ation|cookie){_NOT_DESCRIBED}"
    return re.compile(rf"{other}|{_PASSWORD}|{_SECRET}|{_KEY}|{_TOKEN}", re.IGNORECASE)


# Names that are secrets' only among environment variables: a recipe key, for example, is none.
_VARIABLE_OF_SECRET = re.compile(
    r"(?:^|_)(?:auth|key|pass|pat|pwd|otlp_(?:(?:logs|metrics|traces)_)?headers)$", re.IGNORECASE
)
_KEY_OF_DATA = re.compile(
    r"(?:^|_)(?:artifact|cache|code|data|foreign|hash|id|input|json|kms|lock|metric|model|object|output|partition"
    r"|primary|prompt|public|range|report|routing|s3|sort|tag)_key$",
    re.IGNORECASE,
)
# Names that leave doubt: many keys are of dictionaries and buckets, and many passes are of training. But a service's
# key is what its clients sign in with.
_SERVICE = (
    "anthropic", "azure", "cohere", "datadog", "deepseek", "gemini", "groq", "hf", "huggingface", "langfuse",
    "langsmith", "mistral", "nvidia", "openai", "openrouter", "replicate", "stripe", "together", "wandb",
)  # fmt: skip
_DOUBTFUL_VARIABLE = re.compile(
    "(?:^|_)(?:" + "".join(f"(?<!{each}_)" for each in _SERVICE) + "key|pass)$", re.IGNORECASE
)
# Names of variables that leave no doubt. Not every name with TOKEN in it, which may be the model's, with SECRET, which
# may name one, and with PASS, which may be a pass of many.
_CERTAIN_VARIABLE = re.compile(
    r"(?:^|_)(?:(?:pg)?passw(?:or)?d\d?|passphrase|secret_?(?:access_?)?key|(?:api|access|account|private)_?key"
    r"|(?:app|auth|client|consumer|jwt|oauth|session|shared|signing|webhook)_secret"
    r"|(?:hf|hugging_?face(?:_?hub)?|auth|access|api|bearer|bot|github|gitlab|gh|npm|refresh|slack|session|vault)_token"
    r"|(?:admin|auth|db|database|git|http|ldap|login|mail|mysql|pg|postgres|proxy|redis|root|smtp|ssh|user)_pass"
    r"|(?:azure|devops|gh|git|github|gitlab)_pat)$"
    r"|_pwd$|^aws_bearer_token_",
    re.IGNORECASE,
)
# References to a secret: an ARN, an alias of a KMS key, an S3 object, a file or a parameter of Systems Manager, another
# variable, or what is to be replaced, such as <your token>. An AWS secret access key may begin with a slash, but its
# parts look random, and a password may begin with a dollar sign or stand in brackets.
_TO_REPLACE = r"api-?key|credentials?|here|insert|keys?|mask|password|placeholder|replace|secrets?|tokens?|value|your"
_REFERENCE = re.compile(
    r"arn:[a-z-]{1,20}:[a-z0-9-]{1,40}:\S{1,2000}|alias/[\w/-]{1,256}|s3://[^\s@?]{1,2000}"
    r"|(?P<path>(?:/[\w.@-]{1,200}+){1,20}/?)"
    r"|\$(?:(?=[A-Z0-9]*(?:_|KEY|PASS|PWD|SECRET|TOKEN))[A-Z_][A-Z0-9_]*|\{[A-Z_][A-Z0-9_]*\})"
    rf"|[<\[](?=[^<>\[\]]*(?<![A-Za-z0-9])(?i:{_TO_REPLACE})(?![A-Za-z0-9]))[^<>\[\]]{{1,80}}[>\]]"
)
# A key of AWS KMS, whose ID and alias are no secrets.
_ENCRYPTION_KEY = re.compile(r"encryption[-_ ]?key", re.IGNORECASE)
_KMS_KEY = re.compile(
    r"arn:[a-z-]{1,20}:kms:\S{1,2000}|alias/[\w/-]{1,256}"
    r"|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|mrk-[0-9a-f]{32}",
    re.IGNORECASE,
)
# A token of a model's text, such as <tool_call> and <|eot_id|>, but not <hunter2>.
_TEXT_TOKEN = re.compile(r"<[/|]?[A-Za-z]{1,40}(?:_[A-Za-z0-9]{1,40}){0,5}\|?>")
# CloudFormation's dynamic references.
_RESOLVED = re.compile(r"\{\{resolve:(?:ssm|ssm-secure|secretsmanager):[^{}]{1,2000}\}\}")
# Values that are not secrets: switches, placeholders that servers accept as "no key", and fields of a format.
_NO_SECRETS = frozenset({
    "", "%s", "...", "0", "1", "basic", "bearer", "dummy", "empty", "false", "no", "none", "not-needed", "null", "off",
    "on", "sk-no-key-required", "true", "yes",
})  # fmt: skip

# Every repetition that can end without a match has a bound, or starts only where the characters before it end: the time
# is proportional to the text's length. Matching the beginning of a secret's name as well would take quadratic time.
_STRONG = rf"(?:{_PASSWORD}|{_SECRET}|{_KEY})[\w.-]{{0,40}}+"
_SCHEME = "(?:basic|bearer|digest|negotiate|token|apikey|aws4-hmac-sha256)"
# Of code, and of Markdown.
_QUOTE = r"""\\{0,7}["'`]?"""
# What may be before a value in quotes: a call, or the prefix of a Python literal.
_BEFORE = r"(?:[\w.]{0,40}\(|[bfru]{1,2})"
_NAME = rf"(?:{_STRONG}|{_TOKEN}[\w.-]{{0,40}}+)"
_DESCRIBED_NAME = (
    r"(?:passw(?:or)?d|passphrase|credential|secret(?!ari|ary|ive|ion|smanager)|(?:api|access|account|private)[-_ ]?key"
    rf"|token(?!s|iz){_NOT_OF_TEXT})[\w.-]{{0,40}}+"
)
# What separates a name from its value, as in settings, Go and Ruby. A structure may have both in members of their own:
# {"Name": "DB_PASSWORD", "Value": "..."}.
_IS = (
    rf"{_QUOTE}\*{{0,2}}(?:[,\s]\s{{0,9}}{_QUOTE}\w{{0,20}}value{_QUOTE})?\s{{0,9}}(?::=|=>|[:=\uff1a])\s{{0,40}}"
    rf"(?:\{{\s{{0,9}}{_QUOTE}value{_QUOTE}\s{{0,9}}[:=]\s{{0,9}})?"
)
# A list of values has a shape of its own.
_LIST = r"\[{1,4}+[^\[\]{}]"
# What stands for a value that is written elsewhere, as in a template.
_NOT_WRITTEN = rf"(?![$<{{%*\[]|{_BEFORE}[\"']|(?:empty|false|none|null|true)\b)"
# A word of a sentence, such as "ring bearer Frodo".
_WORD = r"(?-i:[A-Z]?[a-z]{0,14})(?![\w~+/=-]|\.\w)"
# "Secret: required parameter missing" goes on in words.
_WORDS = "(?-i:[a-z]{1,30} [a-z])"


@dataclass(frozen=True)
class Shape:
    """What a secret looks like in text, what remains of it, and what it is if that is certain from its text alone.

    Only text with one of ``within`` can have the shape.
    """

    expression: str
    replacement: str | Callable[[re.Match[str]], str] = HIDDEN
    flags: int = 0
    kind: str | None = None
    within: tuple[str, ...] = ("",)

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The compiled expression. To compile all of them would slow down the start of every function."""
        return re.compile(self.expression, self.flags)

    def may_be_in(self, text: str) -> bool:
        """Return whether text can have the shape. Faster than the expression, which it does not compile."""
        return any(each in text for each in self.within)

    def hidden_in(self, text: str) -> str:
        """Return text without secrets of this shape."""
        return self.pattern.sub(self.replacement, text) if self.may_be_in(text) else text


_USER = re.compile(r"://[^\s/?@]+@")


def _public_url(match: re.Match[str]) -> str:
    """Return a URL without user information and query, which holds the signature of a pre-signed URL."""
    address, query, _ = match[0].partition("?")
    return _USER.sub(f"://{HIDDEN}@", address) + (f"?{HIDDEN}" if query else "")


def _value_as_hidden(match: re.Match[str]) -> str:
    """Hide what follows a secret's name, the first group, in the quotes of the second, if there is one."""
    quote = match[2] if match.re.groups > 1 else ""
    value = match[0][len(match[1]) + len(quote) : len(match[0]) - len(quote)]
    plain = value.strip().rstrip(")")
    is_none = plain.lower() in _NO_SECRETS
    # At the end of a sentence.
    plain = plain.rstrip(".")
    is_none = is_none or (plain.startswith(("arn:", "alias/")) and is_reference(plain))
    is_public = is_none or _is_public(match[1], plain) or _is_code(value)
    return match[0] if is_public else f"{match[1]}{quote}{HIDDEN}{quote}"


def _is_public(name: str, value: str) -> bool:
    """Return whether the text with a secret's name shows that its value is a KMS key, or a token of a model's text."""
    is_token = name.rstrip("\\\"'`*:=> \t\r\n").lower().endswith("token")
    return _is_kms_key(name, value) or (is_token and _TEXT_TOKEN.fullmatch(value) is not None)


def _is_kms_key(name: str, value: str) -> bool:
    """Return whether a value is the ID, ARN or alias of a KMS key, under the name of an encryption key."""
    return bool(_ENCRYPTION_KEY.search(name) and _KMS_KEY.fullmatch(value))


def _is_code(value: str) -> bool:
    """Return whether a value is the name of a secret in a call's parentheses, as in the lines of a stack trace."""
    return value.endswith(")") and value.rstrip(")").replace("_", "a").isalpha() and is_name_of_secret(value)


def _variable_as_hidden(match: re.Match[str]) -> str:
    """Hide the value of a variable whose name is a secret's only among variables. A pass may be one of many."""
    name, value = match[2], match[3]
    is_secret = is_secret_by_name(name, value, is_variable=True) and (
        name[-3:] == "KEY" or _CERTAIN_VARIABLE.search(name)
    )
    return f"{match[1]}{HIDDEN}" if is_secret and not value.isdecimal() and not is_reference(value) else match[0]


def _list_as_hidden(match: re.Match[str]) -> str:
    """Hide the values of a list, unless they are references to secrets, stand for none, or are words or numbers."""
    is_hidden = any(_is_hidden_in_list(match[1], value) for value in match[2].split(","))
    return f"{match[1]}{HIDDEN}" if is_hidden else match[0]


# Also as NumPy writes them: np.float64(0.5).
_NUMBER = re.compile(r"(?:[a-z]{1,10}\.)?(?:[a-z]{1,10}\d{0,3}\()?[-+]?[\d.]{1,40}(?:e[-+]?\d{1,4})?\)?", re.IGNORECASE)


def _is_hidden_in_list(name: str, written: str) -> bool:
    """Return whether a value of a list is in quotes, or has a word that is long, with a digit, and no number."""
    value = written.strip("\\ \t\r\n\"'")
    if is_reference(value) or _is_public(name, value):
        return False
    return '"' in written or "'" in written or any(map(_is_like_a_key, value.split()))


def _is_like_a_key(value: str) -> bool:
    """Return whether a value is long, with a digit, and neither a number nor, unless it looks random, a path."""
    is_long = len(value) >= 8 and any(map(str.isdecimal, value)) and not _NUMBER.fullmatch(value)
    return is_long and ("/" not in value or is_random(value))


_LOCATION = re.compile(
    r"(?:dir|endpoint|file|path|ur[il])s?=$|^--\S*(?:dir|endpoint|file|path|ur[il])s?\s+$", re.IGNORECASE
)


def _described_as_hidden(match: re.Match[str]) -> str:
    """Hide what cannot be what its name says: random text, and a location without any punctuation of one."""
    value = match[2]
    is_misnamed = _LOCATION.search(match[1]) and not re.search(r"[/.:~\\]", value)
    is_hidden = is_random_value(value) or (is_misnamed and not is_reference(value))
    return f"{match[1]}{HIDDEN}" if is_hidden else match[0]


def _random_as_hidden(match: re.Match[str]) -> str:
    return HIDDEN if is_random(match[0]) else match[0]


def _user_as_hidden(match: re.Match[str]) -> str:
    """Hide what is the base64 of ``user:password``, and keep words, such as those after "a basic"."""
    try:
        decoded = base64.b64decode(match[2], validate=True)
    except ValueError:
        return match[0]
    return f"{match[1]}{HIDDEN}" if b":" in decoded and decoded.isascii() else match[0]


def _private_key_as_hidden(match: re.Match[str]) -> str:
    begin = match[0][:64].rstrip("=")
    return HIDDEN if b"PRIVATE KEY" in base64.b64decode(begin[: len(begin) // 4 * 4]) else match[0]


def _key_as_hidden(match: re.Match[str]) -> str:
    """Hide what looks random after a secret's name and a space."""
    value = match[2]
    is_hex = re.fullmatch(r"[0-9a-f]{32,}", value) and not value.isdecimal()
    is_secret = (is_hex or is_random(value)) and not is_reference(value) and not _is_public(match[1], value)
    return f"{match[1]}{HIDDEN}" if is_secret else match[0]


_GROUP = re.compile(r"[a-z_][a-z_-]{0,31}")
_REQUEST = re.compile(r"curl|wget|http|://")


def _password_as_hidden(match: re.Match[str]) -> str:
    """Hide a user's password, but not the group of a container's user, as in ``--user app:staff``."""
    is_group = _GROUP.fullmatch(match[0], len(match[1]))
    near = match.string[max(0, match.start() - 200) : match.end() + 200] if is_group else ""
    return match[0] if is_group and not _REQUEST.search(near) else f"{match[1]}{HIDDEN}"


# Names of models and buckets have hyphens or slashes.
_SHORTEST_RANDOM = 20
_UNBROKEN = re.compile(rf"[A-Za-z0-9+=]{{{_SHORTEST_RANDOM},}}")
_LONG_WORD = re.compile(r"[a-z]{7}")


def is_random(text: str) -> bool:
    """Return whether text looks random: upper case, lower case and digits, and no words or paths."""
    kinds = [any(map(test, text)) for test in (str.islower, str.isupper, str.isdecimal)]
    return all(kinds) and not _LONG_WORD.search(text) and text.count("/") <= 3


# Names such as xai-grok2instruct70b are in lower case, with a word.
_NO_NAME = r"(?:(?=[\w-]*[A-Z])|(?![\w-]*[a-z]{7}))"

SHAPES: dict[str, Shape] = {
    "private key": Shape(
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----[^-]*(?:-(?!-)[^-]*)*"
        r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?",
        kind="a private key",
        within=("-----BEGIN ",),
    ),
    "password in a URL": Shape(
        r"""(?<=://)[^\s/?#@:"',]*:[^\s/?#"',]+@""", f"{HIDDEN}@", kind="a URL with a password", within=("://",)
    ),
    # As in a Kubernetes Secret. A certificate begins in the same way.
    "private key in base64": Shape(
        r"(?<![A-Za-z0-9+/])LS0tLS1CRUdJTi[A-Za-z0-9+/]{16,}={0,2}", _private_key_as_hidden, within=("LS0tLS1CRUdJTi",)
    ),
    # Of AWS, CloudFront and Azure.
    "signature in a URL": Shape(
        r"""([?&](?:X-Amz-Signature|X-Amz-Security-Token|Signature|sig)=)[^\s"'&<>]{16,}""",
        rf"\1{HIDDEN}",
        kind="a signed URL",
        within=("=",),
    ),
    # Of URLs' queries, connection strings, and lists of headers.
    "parameter": Shape(
        r"((?:^|[?&;,]|=[^\s=?&;,]{1,200}\s{1,9})"
        r"(?:passw(?:or)?d|pwd|(?:account|api|shared_?access)[-_]?key|(?:access|auth)[-_]?token|client[-_]?secret)"
        rf"\s?=\s?){_NOT_WRITTEN}[^\s\"'&,;<>{{}}(]{{4,}}",
        rf"\1{HIDDEN}",
        re.IGNORECASE,
        kind="a password or key in a URL, connection string, or header",
        within=("=",),
    ),
    "Slack webhook": Shape(
        r"(?<=://hooks\.slack\.com/)(?:services|workflows|triggers)/[\w/+-]{20,}",
        kind="a Slack webhook",
        within=("hooks.slack.com",),
    ),
    "Discord webhook": Shape(
        r"(?<=/api/webhooks/)\d{15,22}/[\w-]{40,}", kind="a Discord webhook", within=("/api/webhooks/",)
    ),
    "URL": Shape(r"""\b[a-z][a-z0-9+.-]{0,20}://[^\s"'<>\\]*""", _public_url, re.IGNORECASE, within=("://",)),
    "header": Shape(
        rf"""(authorization{_QUOTE}\s{{0,4}}[:=]\s{{0,4}}{_QUOTE}{_SCHEME}\s{{1,4}})(?!{_WORD}){_NOT_WRITTEN}"""
        r"""[^\s"',;\\]{4,}""",
        rf"\1{HIDDEN}",
        re.IGNORECASE,
        kind="a header with credentials",
        within=(":", "="),
    ),
    "authorization": Shape(
        rf"""(authorization{_QUOTE}\s{{0,4}}[:=]\s{{0,4}}{_QUOTE}(?:{_SCHEME}\s{{1,4}})?)"""
        # Not a scheme alone, nor what other shapes are of.
        rf"""(?!{_SCHEME}\s{{0,4}}(?:["'\\]|$)|{_BEFORE}["']|[\[{{=>|])"""
        r"""[^\s"',;\\]+(?: [\w.~+/=-]{16,})?""",
        rf"\1{HIDDEN}",
        re.IGNORECASE,
        within=(":", "="),
    ),
    "cookie": Shape(
        r"""(cookie["']?\s{0,4}[:=]\s{0,4}["']?)"""
        r"""(?=[^\s;="']{1,80}=|(?=[A-Za-z]{0,80}\d)[A-Za-z0-9]{16,}(?!\w))[^\r\n"']+""",
        rf"\1{HIDDEN}",
        re.IGNORECASE,
        within=(":", "="),
    ),
    # As in AWS's answers.
    "XML": Shape(
        rf"({_NAME}>(?:\s{{0,9}}<!\[CDATA\[)?)[^<>]+?(?=(?:\]\]>\s{{0,9}})?</)",
        _value_as_hidden,
        re.IGNORECASE,
        within=("</",),
    ),
    "list": Shape(rf"({_NAME}{_IS}\[{{1,4}}+)([^\[\]{{}}]+)", _list_as_hidden, re.IGNORECASE, within=("[",)),
    # As in JSON and Python, and in JSON inside of JSON, whose quotes are escaped. The end may be cut off.
    "quoted value": Shape(
        rf"""({_NAME}{_IS}(?:[\w.\[\]]{{1,40}}\s=\s{{0,4}})?{_BEFORE}?)"""
        r"""(\\{0,7}(?:\"\"\"|'''|["']))(?:.*?(?<!\\)\2|[^\s"']+$)""",
        _value_as_hidden,
        re.IGNORECASE,
        within=('"', "'"),
    ),
    # {"value": "...", "name": "DB_PASSWORD"}
    "value before its name": Shape(
        rf"""((?<!\w)value(\\{{0,7}}["'])\s{{0,4}}:\s{{0,4}}\2)(?:(?!\2).){{1,400}}"""
        rf"""(?=\2,\s{{0,9}}\2(?:key|name)\2\s{{0,4}}:\s{{0,4}}\2[\w.-]{{0,40}}?{_NAME}\2)""",
        rf"\1{HIDDEN}",
        re.IGNORECASE,
        within=("VALUE", "Value", "value"),
    ),
    # A pair, whose value has a digit: ("password", "username") are two names.
    "pair": Shape(
        rf"""(\(b?["'][\w-]{{0,20}}?{_NAME}["'],\s{{0,4}}b?["'])(?=[^"'\d]{{0,80}}\d)[^"']+(?=["']\))""",
        rf"\1{HIDDEN}",
        re.IGNORECASE,
        within=("(",),
    ),
    # As in queries, shells, and AWS's messages. Not a call with a value in quotes, which has been hidden.
    "name=value": Shape(
        rf"""({_NAME}=)(?!{_BEFORE}["']|{_LIST})[^\s"'&,;}}\]]+(?:(?<=[({{=$])["'][^"'\r\n]+)?""",
        _value_as_hidden,
        re.IGNORECASE,
        within=("=",),
    ),
    "variable": Shape(
        r"""((?<![\w-])([A-Z][A-Z0-9_]{0,60}_(?:AUTH|KEY|PASS|PAT|PWD))["']?\s{0,3}[:=]\s{0,3}["']?)([^\s"'&,;}\]]{4,})""",
        _variable_as_hidden,
        within=(":", "="),
    ),
    # As in headers, YAML, and settings. Words about tokens are ordinary, so their values must have a digit.
    "name: value": Shape(
        rf"""({_STRONG}{_IS}(?:[|>][+-]?\s{{1,40}})?)(?!["'\\\s]|{_LIST}|{_WORDS})[^\s"',;}}\]]{{4,}}""",
        _value_as_hidden,
        re.IGNORECASE,
        within=(":", "=", "\uff1a"),
    ),
    "token: value": Shape(
        rf"""({_NAME}{_IS}(?:[|>][+-]?\s{{1,40}})?)(?!{_LIST})(?=[^\s\d]{{0,80}}\d)(?!\d{{1,11}}\b)[^\s"',;}}\]]{{8,}}""",
        _value_as_hidden,
        re.IGNORECASE,
        within=(":", "=", "\uff1a"),
    ),
    "password value": Shape(
        rf"""({_PASSWORD}\s{{1,4}}(?:(?:is|was)\s{{1,4}})?)(?=[^\s\d]{{0,80}}\d)(?!\d{{1,11}}\b)[^\s"',;:/=]{{6,}}""",
        _value_as_hidden,
        re.IGNORECASE,
    ),
    "name value": Shape(
        # AWS's tokens of idempotency are in its messages.
        rf"(?<!client )(?<!idempotency )({_NAME}\s{{1,4}}(?:(?:is|was)\s{{1,4}})?)"
        rf"((?:[0-9a-f]{{32,}}|[\w+/=-]{{20,}})(?![\w+/=-]))",
        _key_as_hidden,
        re.IGNORECASE,
    ),
    "--option value": Shape(
        rf"""((?<![\w-])--[\w-]{{0,30}}{_NAME}\s{{1,9}})(?!-)[^\s"']+""",
        _value_as_hidden,
        re.IGNORECASE,
        within=("--",),
    ),
    # As in a list of arguments, and in shells.
    "--option, value": Shape(
        rf"""((?<![\w-])--[\w-]{{0,30}}{_NAME}(?:\\{{0,7}}["'],\s{{0,9}}|\s{{1,9}})\\{{0,7}}["'])(?!-)[^"'\\]+""",
        _value_as_hidden,
        re.IGNORECASE,
        within=("--",),
    ),
    # Names that describe a secret, or where it is, with values that are none of that.
    "described value": Shape(
        rf"""((?<![\w-])--[\w-]{{0,30}}{_DESCRIBED_NAME}\s{{1,9}}(?!-)"""
        rf"""|{_DESCRIBED_NAME}{_QUOTE}\s{{0,4}}[:=]\s{{0,4}}{_QUOTE})"""
        r"""([^\s"'&,;)}\]\\]+)""",
        _described_as_hidden,
        re.IGNORECASE,
        within=("--", ":", "="),
    ),
    # Not a container's user and group, such as 1000:1000 and node:node.
    "-u user:password": Shape(
        r"""((?<![\w-])(?:(?:-u|--user)[\s=]\s{0,4}["']?|-u(?=[A-Za-z][\w.@-]{0,80}:[^\s"'\d]{0,80}\d))"""
        r"""([^\s:"'/]{1,80}):)(?!\d{1,9}(?:\s|$)|//|\2(?:\s|$))[^\s"']+""",
        _password_as_hidden,
        within=(":",),
    ),
    # Not "bearer of news" and "a bearer token".
    "bearer": Shape(rf"\b(bearer\s{{1,9}})(?!{_WORD})[\w.~+/=-]+", _value_as_hidden, re.IGNORECASE),
    # Also in Docker's configuration: {"auth": "..."}.
    "basic": Shape(
        r"""\b(basic\s{1,9}|auth\\{0,7}["']\s{0,4}:\s{0,4}\\{0,7}["'])([A-Za-z0-9+/]{8,}={0,2})""",
        _user_as_hidden,
        re.IGNORECASE,
    ),
    # sagemaker-core's token generator, and Bedrock's of the same form.
    "AWS bearer token": Shape(
        r"\b(?:(?:sagemaker|bedrock)-api-key-(?=[\w.~+/=-]{0,200}[A-Z])[\w.~+/=-]+|ABSK[A-Za-z0-9+/]{60,}={0,2})",
        kind="an AWS bearer token",
    ),
    # In base64, they begin with the names of their fields.
    "AWS session token": Shape(
        r"(?<![\w/+=])(?:FwoGZXIvYXdz|IQoJb3JpZ2lu)[A-Za-z0-9+/]{40,}={0,2}", kind="an AWS session token"
    ),
    "AWS access key ID": Shape(r"\b(?:A[KS]IA|A(?:BI|CC)A(?=[A-Z]{0,15}\d))[A-Z0-9]{16}\b", kind="an AWS access key"),
    "AWS secret access key": Shape(r"(?<![\w/+=.-])[A-Za-z0-9/+]{40}(?![\w/+=.-])", _random_as_hidden),
    # GitHub's documentation, "About authentication to GitHub": token formats.
    "GitHub": Shape(r"\b(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{20,})", kind="a GitHub token"),
    # GitLab's documentation, "Token overview": token prefixes.
    "GitLab": Shape(
        rf"(?<![\w-])gl(?:agent|cbt|dt|ffct|ft|imt|oas|pat|ptt|rt|soat)-{_NO_NAME}"
        r"[\w-]{16,}(?:\.[0-9a-z]{2}\.?[0-9a-z]{7,9}\b)?",
        kind="a GitLab token",
    ),
    "Slack": Shape(r"(?<![\w-])x(?:ox[abeprs]|app)-(?=[\w-]*\d)[\w-]{10,}", kind="a Slack token"),
    # Not hf_transfer and hf_tokenizers.
    "Hugging Face": Shape(r"\b(?:hf|api_org)_[A-Za-z0-9]{16,}", kind="a Hugging Face token"),
    # With a digit or a capital letter, and more than words between hyphens: sk-learn-text-classification-v1 is a name.
    "sk-": Shape(
        r"(?<![\w-])[sr]k[-_](?=[\w-]*[A-Z\d])"
        r"(?:(?=[\w-]*[A-Za-z0-9]{16})|(?=[\w-]*\d)(?=[\w-]*[A-Z])(?![\w-]*[a-z]{7})|(?=[\w-]*[0-9a-f]{8}-[0-9a-f]{4}-))[\w-]{16,}",
        kind="an API key",
    ),
    # The prefixes of other services' keys, such as nvapi- and gsk_, as in gitleaks' rules.
    "prefixed key": Shape(
        r"(?<![\w-])(?:AGE-SECRET-KEY-1|(?:dapi|fw_|r8_)(?![\w-]*[a-z]{7})|csk-|dckr_[op]at_|do[opr]_v1_|e2b_|figd_"
        r"|gl(?:c|sa)_|gsk_|gto_|HRKU-|hv[bs]\.|jina_|lin_(?:api|oauth)_|lsv2_[ps][kt]_|NRAK-|ntn_|nvapi-|PMAK-|pplx-"
        r"|pscale_(?:oauth|pw|tkn)_|rubygems_|sbp_|shp(?:at|ca|pa|ss)_|sntry[su]_|tskey-(?:api|auth|client)-"
        r"|tvly-(?:dev-|prod-)?|wandb_v1_|xai-)"
        rf"{_NO_NAME}(?=[\w-]*\d)(?=[\w-]*[A-Za-z0-9]{{16}})[\w=-]{{20,}}",
        kind="an API key",
    ),
    "Google": Shape(r"(?<![\w.-])(?:AIza[\w-]{30,}|ya29\.[\w.-]{10,})", kind="a Google key"),
    "SendGrid": Shape(r"(?<![\w.-])SG\.[\w-]{16,}\.[\w-]{16,}", kind="a SendGrid key", within=("SG.",)),
    "npm and PyPI": Shape(r"\b(?:npm_[A-Za-z0-9]{30,}|pypi-AgE[\w-]{40,})", kind="a package registry's token"),
    # Telegram's bots, HCP Terraform, Stripe's webhooks, Doppler, Airtable, Mailgun, Twilio, and Notion.
    "keys of other forms": Shape(
        r"(?<!\d)\d{8,10}:AA[\w-]{33}(?![\w-])"
        r"|(?<![\w-])(?:[A-Za-z0-9]{14}\.atlasv1\.[\w-]{60,}|whsec_(?=\w*\d)[A-Za-z0-9+/]{24,}={0,2}"
        r"|dp\.(?:audit|ct|pt|sa|scim|st)\.(?:[\w-]{2,35}\.)?[A-Za-z0-9]{40,44}|pat[A-Za-z0-9]{14}\.[0-9a-f]{64}"
        r"|key-[0-9a-f]{32}|SK[0-9a-f]{32}|secret_(?=\w*\d)(?=\w*[A-Z])[A-Za-z0-9]{40,50})(?![\w-])",
        kind="an API key",
    ),
    # RFC 7519: three parts in base64url, of which the first begins with {".
    "JSON Web Token": Shape(r"(?<![\w-])eyJ[\w-]{5,}\.[\w-]{5,}\.[\w-]*", kind="a JSON Web Token", within=("eyJ",)),
}
"""What secrets look like. The tests have examples of each, and of text that looks similar."""


def is_name_of_secret(name: str, *, is_variable: bool = False) -> bool:
    """Return whether a value with this name may be a secret; ``is_variable`` for the name of a variable."""
    of_variable = is_variable and _VARIABLE_OF_SECRET.search(name) and not _KEY_OF_DATA.search(name)
    return bool(of_variable or _name_of_secret().search(name))


def is_secret_by_name(name: str, value: str, *, is_variable: bool) -> bool:
    """Return whether a value may be a secret by its name, and by itself where the name leaves doubt."""
    if not is_name_of_secret(name, is_variable=is_variable):
        return False
    if _CERTAIN_VARIABLE.search(name):
        return True
    is_sure = is_name_of_secret(name) or not _DOUBTFUL_VARIABLE.search(name)
    return not _is_public(name, value) if is_sure else _is_like_a_key(value)


def is_random_value(value: str) -> bool:
    """Return whether a variable's value may be a secret whatever its name: unbroken text that looks random."""
    return bool(_UNBROKEN.fullmatch(value)) and is_random(value)


def kind_of_secret(name: str, value: str) -> str | None:
    """Return what a variable's value certainly is, such as "a GitHub token"; None if it may be no secret."""
    written = _RESOLVED.sub("", value)
    certain = (shape for shape in SHAPES.values() if shape.kind is not None and shape.may_be_in(written))
    kinds = (shape.kind for shape in certain if shape.pattern.search(written))
    by_name = _CERTAIN_VARIABLE.search(name) and not is_reference(value)
    return next(kinds, None) or ("a secret, judging by its name" if by_name else None)


def is_reference(value: str) -> bool:
    """Return whether a value refers to a secret, or stands for none."""
    found = _REFERENCE.fullmatch(value)
    if found is not None and (found["path"] is None or len(value) < _SHORTEST_RANDOM or not is_random(value)):
        return True
    return bool(_RESOLVED.search(value)) or value.lower() in _NO_SECRETS


def may_be_secret(name: str, value: str) -> bool:
    """Return whether a variable may hold a secret, judging by its name or its value."""
    by_name = is_secret_by_name(name, value, is_variable=True)
    likely = by_name and not is_reference(value) and not value.isdecimal()
    return likely or is_random_value(value) or kind_of_secret(name, value) is not None or _has_secret(value)


def _has_secret(value: str) -> bool:
    """Return whether a part of a value is hidden in logs, such as a header; a URL's query alone is not a secret."""
    written = _RESOLVED.sub("", value)
    shapes = (shape for name, shape in SHAPES.items() if name != "URL")
    return any(shape.hidden_in(written) != written for shape in shapes)
