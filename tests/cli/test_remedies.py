"""What the commands' errors print as a remedy is run as it is printed, and the error is gone."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from constructs_optim.cli.main import app

from ..declaration.test_document import VALID

_MODEL = "meta-textgeneration-llama-3-8b"
_PLAN = f"plan --model {_MODEL} --instance-type ml.g5.12xlarge --accept-eula"
_TARGET = "http://127.0.0.1:9/v1,model=llama"
# What only the user has, for options that an error prints without a value.
_VALUES = {
    "--against": "missing.yaml",
    "--find-limit": "",
    "--input-tokens": "100",
    "--instance-type": "ml.g5.12xlarge",
    "--model": f"{_MODEL} --accept-eula",
    "--output-tokens": "100",
    "--prompts": "prompts.jsonl",
    "--rate": "1",
    "--replay": "",
    "--update": "",
}
_OPTION = r"--[a-z][\w-]*"
_WITH_VALUE = rf"{_OPTION}(?: (?!and\b|or\b|with\b|for\b)[\w.=]+)?"
_ADD = re.compile(
    rf"\b(?:add|needs?|(?:or )?use)(?: an objective:)? ({_WITH_VALUE}(?:(?:,| and|, or| or) {_WITH_VALUE})*)"
)
_ONE_OF = re.compile(rf"use one of ({_OPTION}(?:(?:,| and) {_OPTION})+)")
_LEAVE_OUT = re.compile(rf"leave out ({_OPTION}(?: and {_OPTION})*)")
_SUCH_AS = re.compile(rf"({_OPTION}) '([^']*)': .*?such as (\S+?)(?:,? or .*)?$")
_DID_YOU_MEAN = re.compile(r"(?:[Dd]id you mean|Possible options:|choose from) ([^?)]*)")
_OPTIONS = re.compile(_OPTION)

MISTAKES = [
    "plan",
    f"{_PLAN} --model-s3 s3://models/a/",
    f"{_PLAN} --region us-west-9",
    f"plan --model {_MODEL} --instance-type ml.g5.12xlage --accept-eula",
    f"{_PLAN} --technique awg",
    f"{_PLAN} --tecnique awq",
    f"recommend {_MODEL} --offline --pools 2",
    f"recommend {_MODEL} --offline --update --region us-west-9",
    "lock --model a/b --update server.awq",
    "catalog models --supports egle",
    # Without a valid file or Region, the corrected command ends early.
    "explain missing.yaml --traffic prompts.jsonl",
    "explain missing.yaml --against missing.yaml --markdown --json",
    "synth missing.yaml --code-bucket artifacts",
    "synth broken.yml --output out",
    "synt missing.yaml --output out",
    "synth missing.yaml --otput out",
    f"evaluate {_TARGET} --requests 1 --seconds 1",
    f"evaluate {_TARGET} --concurrency 1 --rate 1",
    f"evaluate {_TARGET} --find-limit",
    f"evaluate {_TARGET} --find-limit --ttft 500ms --seconds 1",
    f"evaluate {_TARGET} --find-limit --ttft 500ms --attainment 1",
    f"evaluate {_TARGET} --burstiness 2",
    f"evaluate {_TARGET} --burstiness 2 --rate 1",
    f"evaluate {_TARGET} --concurrency x",
    f"evaluate {_TARGET} --rate x",
    f"evaluate {_TARGET} --speed 2",
    f"evaluate {_TARGET} --replay",
    f"evaluate {_TARGET} --parameter x",
    "dashboard preview empty --stack Other",
]


def run(words: list[str]) -> Result:
    return CliRunner().invoke(app, words)


def message_of(result: Result) -> str:
    """What is wrong, without the usage before it."""
    return " ".join(result.stderr.rpartition("Error: ")[2].split())


def without(words: list[str], options: list[str]) -> list[str]:
    """The words without options and their values."""
    kept: list[str] = []
    for number, word in enumerate(words):
        is_value = number > 0 and words[number - 1] in options and not word.startswith("-")
        if word not in options and not is_value:
            kept.append(word)
    return kept


def added(words: list[str], options: str) -> Iterator[list[str]]:
    """The words with all options joined by ``and``, or with each of the others."""
    for alternative in re.split(r",? or |, ", options):
        more = [shlex.split(each) for each in alternative.split(" and ")]
        yield [
            *words,
            *(word for each in more for word in (each if len(each) > 1 else [*each, *shlex.split(_VALUES[each[0]])])),
        ]


def remedied(message: str, words: list[str]) -> Iterator[list[str]]:
    """The commands in which each remedy of a message is applied."""
    if found := _ONE_OF.search(message):
        for option in _OPTIONS.findall(found[1]):
            yield without(words, [option])
    elif found := _ADD.search(message):
        yield from added(words, found[1])
    if found := _LEAVE_OUT.search(message):
        yield without(words, _OPTIONS.findall(found[1]))
    if "Remove one of them" in message:
        for option in [each for each in _OPTIONS.findall(message) if each in words]:
            yield without(words, [option])
    if found := _SUCH_AS.search(message):
        yield [found[3] if word == found[2] else word for word in words]
    if found := re.search(r"--attainment 1: use a lower share, such as (\S+)", message):
        yield [found[1] if word == "1" else word for word in words]
    if found := _DID_YOU_MEAN.search(message):
        given = re.search(r"(?:= |command |option: |supports )'?(?:\S+/)?([\w.-]+)", message)
        assert given is not None, message
        for word in re.split(r" or |, ", found[1]):
            yield [word.strip("'") if each == given[1] else each for each in words]
    if found := re.search(r"`constructs-optim (synth) FILE`", message):
        assert run([found[1], "endpoint.yaml", "--output", words[2]]).exit_code == 0
        yield words


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_remedy_that_a_command_prints_works(mistake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "endpoint.yaml").write_text(VALID)
    (tmp_path / "prompts.jsonl").write_text('{"prompt": "a", "at_seconds": 0}\n{"prompt": "b", "at_seconds": 1}\n')
    (tmp_path / "broken.yaml").write_text("stack: a_b")
    (tmp_path / "empty").mkdir()
    refused = run(shlex.split(mistake))
    assert refused.exit_code == 2
    message = message_of(refused)
    commands = list(remedied(message, shlex.split(mistake)))
    assert commands, message
    for command in commands:
        assert command != shlex.split(mistake) or "`" in message
        again = run(command)
        assert again.exception is None or isinstance(again.exception, SystemExit), again.exception
        assert message_of(again) != message, shlex.join(command)
