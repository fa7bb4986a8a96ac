"""What the errors of rules print as a remedy is applied to the recipe that caused them, and the error is gone."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from typer.testing import CliRunner

from constructs_optim.cli.main import app
from constructs_optim.recipe import (
    Compilation,
    Medusa,
    Model,
    PreOptimized,
    Quantization,
    Recipe,
    Sharding,
    SpeculativeDecoding,
    Technique,
    Violation,
    servers,
)
from constructs_optim.recipe.catalog import instances
from constructs_optim.recipe.catalog.lock import Lock, RecordedModel
from constructs_optim.recipe.recipe import JobSettings
from constructs_optim.recipe.rules import check, warnings
from constructs_optim.recipe.servers import Server, ServerSettings
from constructs_optim.recipe.techniques.parsing import parse

from .recipes import recipe
from .test_rules import BAD

_COMMIT = "f" * 40
_CLASSES = (Compilation, Medusa, Model, PreOptimized, Quantization, Server, Sharding, SpeculativeDecoding)
_NAMES: dict[str, Any] = {each.__name__: each for each in _CLASSES}
_PART = re.compile(r"(?P<name>[\w.*-]+)|\[(?P<index>\d+)\]")
_CALL = re.compile(
    r"\b(?:Compilation|Medusa|Model|PreOptimized|Quantization|Server|Sharding|SpeculativeDecoding)\b[.\w]*\("
)
_LOCK = re.compile(r"`constructs-optim lock --model (\S+)`")
_VALUE = r"(?P<quote>['\"]?)(?P<value>[\w:/.*-]*[\w/*])(?P=quote)"
_SUCH_AS = re.compile(rf"\bsuch as {_VALUE}(?: or (\S+))?")
_SMALLEST = re.compile(r"^(?:(?P<partition>mig-\S+) of )?(?P<type>ml\.\S+), the smallest type that fits$")
_LAST_TYPE = re.compile(r"(?:^|, or )(ml\.\w+\.\w+)$")
_RANGE = re.compile(
    r"^(?:at most )?(?P<least>\d+)(?: to (?P<most>\d+))?(?: or (?:less|more)\b| characters| seconds| variables|$|;)"
)
_DURATION = re.compile(r"Duration\.(seconds|minutes|days)\((\d+)\)")
_LEFT_OUT = re.compile(r"\b(?:leave (?:it|the \w+) out|leave (?P<name>\w+) out|leave out this variable)")
_OTHER_NAME = re.compile(r"^([A-Z][A-Z0-9_]+), or server=")
# Their remedies are examples and spellings, with which other rules can find something else at the same location.
_EXAMPLES = frozenset({"OPT010", "OPT011", "OPT028", "OPT055", "OPT069"})
# What only the user has: other data, another model, or a decision between parts of the recipe. By rule and location.
NOT_CODE: dict[tuple[str, str], tuple[str, ...]] = {
    ("OPT001", "model"): ('Model.huggingface("<owner>/<name>"), ',),
    ("OPT001", "techniques[0].checkpoint"): ("Model.huggingface(...) or Model.s3(...)",),
    ("OPT002", "model"): ("`constructs-optim catalog models` lists the model IDs", "the ID as a string"),
    ("OPT005", "model.uri"): ("unpack the archive", "a URI of at most 1024 characters"),
    ("OPT009", "model.encryption_key_arn"): ("key.key_arn, or an ARN such as",),
    ("OPT010", "instance_type"): ("the type as a string",),
    ("OPT020", "techniques[0]"): (
        "speculative_decoding=speculator needs model=...",
        "settings of quantization=awq: ",
        "a kind of technique: ",
        "one of Quantization.awq(), ",
        "SpeculativeDecoding.jumpstart_draft(model_id=...)",
        "Medusa(training_data=...)",
    ),
    ("OPT023", "techniques[0]"): ("the model without this technique", "a model from `constructs-optim catalog models "),
    ("OPT030", "techniques"): ("fewer techniques",),
    ("OPT030", "techniques[0]"): ("Quantization.w4a16(calibration_data=...), which runs",),
    ("OPT032", "techniques[0].ignored_layers"): ("a shorter value",),
    ("OPT035", "jobs['awq']"): ("remove 'awq' from jobs in optim.lock.json",),
    ("OPT035", "servers['awq']"): ("remove 'awq' from servers in optim.lock.json",),
    ("OPT037", "server"): ("a server: ",),
    ("OPT040", "techniques[1]"): ("either compilation or speculative decoding",),
    ("OPT048", "jobs.capacity_reservation.arn"): ("a training plan in us-east-1",),
    ("OPT054", "instance_type"): ("an instance type with 1 or 2",),
    ("OPT058", "server.adapters"): ("Server.vllm(adapters=...) or Server.lmi(adapters=...)",),
    ("OPT060", "techniques[0]"): ("Model.jumpstart(...), or SpeculativeDecoding.custom_draft(...)",),
    ("OPT064", "techniques[0].accept_eula"): ("read its license, then accept it",),
    ("OPT067", "techniques[0]"): ("Model.jumpstart(...)",),
    ("OPT071", "techniques[0].checkpoint"): (
        "Quantization.mxfp4(checkpoint=...)",
        "Quantization.nvfp4(checkpoint=...)",
        "RedHatAI/Meta-Llama-3.1-8B-quantized.w8a8 as the model",
    ),
    ("OPT072", "techniques[0].checkpoint"): ("a checkpoint of acme/mine",),
    ("OPT167", "techniques[0].calibration_data"): ("the S3 prefix of a few hundred samples",),
    ("OPT169", "model.compute.environment.TOKEN_SECRET_ARN"): ("Model.huggingface(..., token_secret_arn=",),
    ("OPT211", "techniques[0].training_data.period"): ("a day or a month in the past",),
    ("OPT212", "techniques[0].training_data"): ("DataCapture(requests=True, responses=True)",),
    ("OPT212", "techniques[0].training_data.encryption_key"): ("data_capture without encryption_key, or a copy",),
    ("OPT250", "environment.NOTE"): ("the value without this line",),
    ("OPT296", "model"): ("a JumpStart model for speech recognition",),
    ("OPT029", "environment.SM_VLLM_SPECULATIVE_CONFIG"): ("num_speculative_tokens: a number, greater than 0",),
    ("OPT289", "model"): ("another model", "SpeculativeDecoding.speculator(model=...) of the model"),
    ("OPT290", "model"): ("the model's weights in 16 bits",),
    ("OPT290", "instance_type"): ("the model's weights in 16 bits",),
    ("OPT291", "model"): ("review the Python files", "another model"),
    ("OPT302", "environment.SM_VLLM_SPECULATIVE_CONFIG"): (
        *('"model" beside the method, or a technique', '"num_speculative_tokens" beside the method'),
        '"prompt_lookup_min" of ',
    ),
    ("OPT302", "environment.SM_VLLM_KV_TRANSFER_CONFIG"): ('"kv_role": "kv_both", ',),
    ("OPT307", "model"): ("another model, or ", "another model"),
    ("OPT292", "environment.SM_VLLM_DTYPE"): ("auto",),
    ("OPT305", "model"): ("a copy of its files in S3", "its own weights. After a change, "),
    ("OPT306", "model.allow_pickle"): ("a model with safetensors weights",),
    ("OPT306", "techniques[0].model.allow_pickle"): ("a model with safetensors weights",),
}


def _seconds(duration: re.Match[str]) -> str:
    return str(int(duration[2]) * {"seconds": 1, "minutes": 60, "days": 86_400}[duration[1]])


def replaced(of: Any, path: list[str | int], value: Any) -> Any:
    """Return a value with another value at a path; None removes a setting."""
    if not path:
        return value
    first, *rest = path
    if isinstance(of, list | tuple):
        changed = [replaced(each, rest, value) if index == first else each for index, each in enumerate(of)]
        return [each for each in changed if each is not None]
    if isinstance(of, dict):
        inner = replaced(of.get(first), rest, value)
        return {
            **{key: each for key, each in of.items() if key != first},
            **({first: inner} if inner is not None else {}),
        }
    inner = replaced(getattr(of, str(first)), rest, value)
    if hasattr(of, "model_copy"):
        default = type(of).model_fields[str(first)].get_default(call_default_factory=True)
        return of.model_copy(update={str(first): default if inner is None else inner})
    return replace(of, **{str(first): inner})


def parts_of(location: str) -> list[str | int]:
    """Return the path of a location: ``techniques[0].compute``."""
    found = re.findall(r"([^.\[\]]+)|\[(\d+)\]", location)
    return [int(index) if index else name for name, index in found]


def named(kind: Any, text: str) -> str | int:
    """Return text as the type of the value that it replaces."""
    return int(text) if isinstance(kind, int) and not isinstance(kind, bool) and text.isdigit() else text


def calls(fix: str) -> Iterator[Any]:
    """Return the values of a fix's complete Python calls."""
    for found in _CALL.finditer(fix):
        depth, end = 0, found.end() - 1
        for end in range(found.end() - 1, len(fix)):
            depth += {"(": 1, ")": -1}.get(fix[end], 0)
            if depth == 0:
                break
        code = fix[found.start() : end + 1]
        # A call inside of another one is a part of it.
        if "..." not in code and "<" not in code and fix[found.start() - 1 : found.start()] != "=":
            yield eval(code, dict(_NAMES))


def remedied(violation: Violation, given: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return the recipes in which each remedy of an error is applied, with the remedy."""
    fix, path = violation.suggestion, parts_of(violation.location)

    def at(place: list[str | int], value: Any) -> dict[str, Any]:
        name = str(place[0])
        return {**given, name: replaced(given.get(name), place[1:], value)}

    if violation.rule == "OPT017":
        (model,) = _LOCK.findall(fix)
        without = at([*path[:-1], "revision"], None) if fix.startswith("leave revision out") else given
        yield "lock", {**without, "containers": Lock(models={model: RecordedModel(revision=_COMMIT)})}
        yield "revision", at(path, _COMMIT)
        return
    if found := _OTHER_NAME.match(fix):
        yield found[1], {**given, "environment": {found[1]: given["environment"][str(path[1])]}}
    if fix.startswith("did you mean"):
        words = fix.partition("?")[0].removeprefix("did you mean ").split(" or ")
        for word in words:
            if violation.location.startswith("environment.") and word.isupper():
                value = given["environment"][path[1]]
                yield word, {**given, "environment": {word: value}}
            elif word.startswith("{"):
                yield word, at(path, word)
            elif "," in str(violation.value) and isinstance(violation.value, str):
                text = re.sub(r",(\w+)=", f",{word}=", violation.value)
                parsed = parse(text) if violation.rule == "OPT020" else servers.parse(text)
                yield word, at(path, parsed)
            elif violation.location.endswith(("model", "checkpoint")) and "/" in word:
                yield word, at(path, Model.huggingface(word, revision=_COMMIT))
            elif violation.rule == "OPT002":
                yield word, at(path, Model.jumpstart(word, accept_eula=True))
            elif violation.location == "server":
                yield word, at(path, getattr(Server, word)())
            elif violation.rule == "OPT020":
                yield word, at(path, parse(f"{word},calibration_data=s3://b/c/" if "w4a16" in word else word))
            else:
                yield word, at(path, word)
        return
    if found := _SMALLEST.search(fix):
        if violation.location == "accelerator_partition":
            yield fix, {**given, "partition": found["partition"], "instance_type": found["type"]}
        else:
            yield fix, at(path, found["type"])
    if path == ["instance_type"] and (found := _LAST_TYPE.search(fix)):
        yield found[1], at(path, found[1])
    if found := _LEFT_OUT.search(fix):
        place = path if found["name"] is None or found["name"] == path[-1] else [found["name"]]
        yield found[0], at(place, None) if place != ["server"] else {k: v for k, v in given.items() if k != "server"}
    if found := re.match(r"^(?:a string: )?(['\"]?)((?:arn|s3):\S+?|\d+)\1$", fix):
        value = found[2] if found[1] or ":" in found[2] else int(found[2])
        arn = violation.location == "jobs.capacity_reservation.arn"
        yield found[2], {**given, "jobs": JobSettings(training_plan_arn=found[2])} if arn else at(path, value)
    if fix.startswith("a Region other than"):
        yield "us-west-2", {**given, "region": "us-west-2"}
    if fix.startswith("spot=False"):
        yield "spot", at(path, False)
    if fix.startswith('{"NAME"'):
        yield fix, at(path, ast.literal_eval(fix))
    if found := re.match(r"^environment=(\{.*\})", fix):
        yield found[1], {**given, "environment": {**(given.get("environment") or {}), **ast.literal_eval(found[1])}}
    if fix.startswith("a string, or"):
        yield "a string", at(path, "value")
    for value in calls(fix):
        if isinstance(value, Model):
            model = value if value.kind != "huggingface" else value.model_copy(update={"revision": _COMMIT})
            is_model = (
                "as the model" in fix and str(value.name) in fix.partition(" as the model")[0].rpartition(" or ")[2]
            )
            place: list[str | int] = ["model"] if violation.location.startswith("model") or is_model else path
            if violation.location.startswith("techniques") and len(path) < 3 and not is_model:
                continue
            yield value.name, at(place, model)
        elif isinstance(value, ServerSettings):
            yield type(value).__name__, {**given, "server": value}
        elif isinstance(value, Technique) and fix.startswith("the model without"):
            left = [each for each in given["techniques"] if type(each) is not type(value)]
            yield fix, {**given, "techniques": left}
        elif isinstance(value, Technique) and len(path) == 2 and not fix.startswith(("one of", "add ", "techniques=")):
            yield value.name, at(path, with_commit(value)) if " alone" not in fix else {**given, "techniques": [value]}
        elif isinstance(value, Technique) and fix.startswith("techniques="):
            yield value.name, {**given, "techniques": [value]}
        elif isinstance(value, Technique) and path == ["instance_type"]:
            instead = [value if each.kind == value.kind else each for each in given["techniques"]]
            yield value.name, {**given, "techniques": instead}
        elif isinstance(value, Technique) and fix.startswith("add "):
            yield value.name, {**given, "techniques": [*given["techniques"], value]}
    if (found := _SUCH_AS.search(fix)) and not (violation.location == "model" or "${" in str(violation.value)):
        names = [found["value"], *(part for part in [found[3]] if part)]
        for name in (
            names if violation.location != "environment" and not violation.location.endswith(".environment") else ()
        ):
            yield name, at(path, named(violation.value, name))
    if fix.startswith("the value on one line"):
        yield fix, at(path, str(violation.value).replace("\n", " "))
    if fix.startswith("a value without it"):
        yield fix, at(path, str(violation.value).rstrip("="))
    if fix.startswith("one value"):
        yield fix, at(path, "a=/x")
    if found := _RANGE.match(_DURATION.sub(_seconds, fix)):
        for bound in {found["least"], found["most"]} - {None}:
            if "characters" in found[0]:
                yield bound, at(path, "x" * int(bound))
            elif violation.location.startswith("jobs."):
                yield bound, {**given, "jobs": replace(given["jobs"], **{f"{path[-1]}_seconds": int(bound)})}
            elif "variables" in found[0]:
                yield bound, at(path, {f"A{number}": "" for number in range(int(bound))})
            elif not violation.location.startswith("environment") or path[-1] in given["environment"]:
                is_text = violation.location.startswith("environment")
                yield bound, at(path, str(bound) if is_text else int(bound))
    if fix.startswith("one of ") and fix.removeprefix("one of ")[:1].isdigit():
        for each in fix.removeprefix("one of ").split(", "):
            yield each, at(path, each if violation.location.startswith("environment") else int(each))
    if found := re.search(r"families (?P<all>.*?)(?:, such as|$)", fix):
        for family in found["all"].split(", "):
            types = [name for name, row in instances.by_name().items() if row.family == family and row.hosts_endpoints]
            assert types, f"no type of the family {family} hosts endpoints"
            larger = max(types, key=lambda name: instances.by_name()[name].total_accelerator_memory_gb)
            yield family, at(path, larger)
    if violation.rule == "OPT029":
        text = {
            "a whole number": "4",
            "a number": "0.5",
            "JSON": "{}",
            "a whole number, 1 or greater": "1",
            "a whole number, -1 or greater": "-1",
            "a number, 0 or greater": "0",
            "a number, greater than 0 and 1 or less": "1",
        }.get(fix)
        if text is not None:
            yield fix, at(path, text)
    if found := re.match(r"^keep only one .*: techniques\[(\d)\] or this one$", fix):
        for kept in (int(found[1]), path[1]):
            yield fix, {**given, "techniques": [given["techniques"][int(kept)]]}
    if found := re.match(r"^a name such as ([A-Z_]+)$", fix):
        yield found[1], at(path, {found[1]: "8192"})
    if found := re.match(r"^an ID such as '(.*)'$", fix):
        yield found[1], at(path, Model.huggingface(found[1], revision=_COMMIT))
    if fix.startswith("also set manifest_uri"):
        yield fix, at([*path[:-1], "manifest_uri"], "s3://models/manifest.csv")
    if found := re.match(r"^(\d) for all techniques, or set it on only one$", fix):
        first = given["techniques"][0]
        yield found[1], {**given, "techniques": [with_degree(each, int(found[1])) for each in given["techniques"]]}
        yield fix, {**given, "techniques": [first, *(with_degree(each, None) for each in given["techniques"][1:])]}
    if fix == "either spot or keep_alive_seconds":
        for name in ("spot", "keep_alive_seconds"):
            yield name, at([*path[:-1], name], None)
    if " alone, or " in fix and path[0] == "techniques" and len(path) == 2:
        yield fix, {**given, "techniques": [given["techniques"][int(path[1])]]}
    if "token_secret_arn=secret.secret_arn" in fix and path[0] == "model" and len(path) == 2:
        yield fix, at(["model", "token_secret_arn"], "arn:aws:secretsmanager:us-west-2:111122223333:secret:a")
    if found := re.match(r"one of the Regions (?P<all>.*), or your own", fix):
        for region in found["all"].split(", "):
            yield region, {**given, "region": region}


def with_degree(technique: Technique, degree: int | None) -> Technique:
    """Return a technique with another tensor parallel degree."""
    return technique.model_copy(update={"tensor_parallel_degree": degree})


def with_commit(technique: Technique) -> Technique:
    """Return a technique with a commit for its checkpoint."""
    checkpoint = technique.ready_made
    if checkpoint is None or checkpoint.revision is not None:
        return technique
    return technique.model_copy(update={"checkpoint": checkpoint.model_copy(update={"revision": _COMMIT})})


def violations(arguments: dict[str, Any], rule: str, location: str) -> list[Violation]:
    return [each for each in check(Recipe(**recipe(**arguments))) if (each.rule, each.location) == (rule, location)]


@pytest.mark.parametrize(
    ("rule", "changed", "location"),
    [(rule, changed, location) for rule, changed, location, _ in BAD],
    ids=[f"{rule}-{number}" for number, (rule, *_) in enumerate(BAD)],
)
def test_a_remedy_that_an_error_prints_works(rule: str, changed: dict[str, Any], location: str) -> None:
    (violation, *_) = violations(changed, rule, location)
    given = recipe(**changed)
    remedies = list(remedied(violation, given))
    for remedy, arguments in remedies:
        left = [each for each in check(Recipe(**recipe(**arguments))) if each.location == location]
        again = [str(each) for each in left if each.rule == rule or rule not in _EXAMPLES]
        assert again == [], f"{remedy!r} of {violation.suggestion!r}"
    if not remedies:
        excused = NOT_CODE.get((rule, location), ())
        assert violation.suggestion.startswith(excused or "?"), f"not applied: {violation.suggestion}"


@pytest.mark.parametrize("environment", [{"SM_VLLM_MAX_MODEL_LEN": "1M"}, {"SM_VLLM_MAX_MODEL_LEN": "200000"}])
def test_the_remedy_of_a_context_that_does_not_fit_is_one_with_which_the_server_starts(
    environment: dict[str, str],
) -> None:
    """Qwen3 32B has fewer positions than fit in memory."""
    model = Model.huggingface("Qwen/Qwen3-32B", revision=_COMMIT)
    given = recipe(model=model, techniques=[], instance_type="ml.g6e.12xlarge", environment=environment)
    about = ("constructs-optim:OPT053", "constructs-optim:OPT057")
    refused = [violation.suggestion for violation in check(Recipe(**given))]
    (advised, *_) = [*refused, *(each.message for each in warnings(Recipe(**given)) if each.id in about)]
    (most,) = set(re.findall(r"\b(\d+) or less", advised))
    shortened = recipe(**{**given, "environment": {"SM_VLLM_MAX_MODEL_LEN": most}})
    assert check(Recipe(**shortened)) == []
    assert [each.message for each in warnings(Recipe(**shortened)) if each.id in about] == []


@pytest.mark.parametrize(
    "command",
    sorted(
        {
            found[1]
            for rule, changed, location, _ in BAD
            for violation in violations(changed, rule, location)
            for found in [re.search(r"`constructs-optim ((?:catalog) [^`]*)`", violation.suggestion)]
            if found is not None
        }
    ),
)
def test_a_command_that_an_error_prints_runs(command: str) -> None:
    result = CliRunner().invoke(app, shlex.split(command))
    assert result.exit_code == 0, result.output
    assert len(result.output.splitlines()) > 1


def test_the_remedies_that_are_left_to_the_reader_are_few_and_known() -> None:
    left = set[tuple[str, str, str]]()
    for rule, changed, location, _ in BAD:
        violation = violations(changed, rule, location)[0]
        if not list(remedied(violation, recipe(**changed))):
            left.add((rule, location, violation.suggestion))
    for (rule, location), texts in NOT_CODE.items():
        for text in texts:
            assert any(each[:2] == (rule, location) and each[2].startswith(text) for each in left), text
    assert len(left) < 0.2 * len(BAD)
