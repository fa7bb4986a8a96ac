"""The runner of pages fails where a reader would."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.documents import Snippet

from .environments import install_lines, installs, made_by, of_a_fresh_machine
from .output import contains, difference
from .page import Marker, PageError, not_run, steps
from .reader import follow
from .standing_in import commands_without, references, words_of


def followed(tmp_path: Path, text: str, environment: dict[str, str]) -> int:
    page, directory = tmp_path / "page.md", tmp_path / "reader"
    page.write_text(text)
    directory.mkdir()
    return follow(page, directory, tmp_path / "work", environment, made=None, give=lambda _: None)


def test_a_page_s_files_and_commands_are_followed_in_their_order(tmp_path: Path, environment: dict[str, str]) -> None:
    text = """
```python title="double.py"
import sys

print(int(sys.argv[1]) * 2)
```

```console
$ export NUMBER=21    # kept
$ python3 double.py $NUMBER
42
```

```diff title="double.py"
-print(int(sys.argv[1]) * 2)
+print(int(sys.argv[1]) * 3)
```

```console
$ python3 double.py \\
    $NUMBER
63
$ echo one && echo two && echo three
one
...
three
```

<!-- printed -->
```text
two
```

<!-- fails -->
```console
$ false
```
"""
    assert followed(tmp_path, text, environment) == 5


@pytest.mark.parametrize(
    ("block", "why"),
    [
        ("```console\n$ echo 43\n42\n```", "prints something else:\n--- the page"),
        ("```console\n$ echo 42\n42\nmore\n```", "prints something else"),
        ("```console\n$ printf 'a\\nb\\n'\nb\na\n```", "prints something else"),
        ("```console\n$ no-such-command\n```", "ended with exit status 127"),
        ("```console\n$ false\n$ true\n```", "'false' ended with exit status 1"),
        ("<!-- fails -->\n```console\n$ true\n```", "'true' ended with exit status 0"),
        ("```console\n$ exit 3\n```", "ended the shell"),
        ("```console\n$ echo a\n```\n\n<!-- printed -->\n```\nb\n```", "did not print this"),
        ('```diff title="app.py"\n-a\n+b\n```', "has not saved"),
        ('```python title="a.py"\nb = 1\n```\n\n```diff title="a.py"\n-a\n+b\n```', "0 times"),
        ("<!-- not run: -->\n```console\n$ echo\n```", "needs a reason"),
        ("<!-- sometimes -->\n```console\n$ echo\n```", "unknown marker: sometimes"),
        ("```console\necho without a prompt\n```", "starts with output"),
        ("```\n$ echo in a block without a language\n```", "its language is console"),
        ("```bash\necho\n```", "its language is console"),
        ("<!-- keeps running -->\n```console\n$ false\n```", "did not start"),
    ],
)
def test_a_page_that_cannot_be_followed_fails(
    tmp_path: Path, environment: dict[str, str], block: str, why: str
) -> None:
    with pytest.raises(PageError) as refused:
        followed(tmp_path, f"{block}\n", environment)
    assert why in str(refused.value)


def test_a_program_that_keeps_running_gives_its_variables_to_the_other_commands_and_is_stopped(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    text = """
```python title="server.py"
import signal

signal.signal(signal.SIGINT, lambda *_: exit(0))
print("export GREETING=hello\\nPress Ctrl-C to stop", flush=True)
signal.pause()
```

<!-- keeps running -->
```console
$ python3 server.py
```

<!-- with SUBJECT=world -->
```console
$ echo $GREETING SUBJECT
hello world
```
"""
    assert followed(tmp_path, text, environment) == 2


def test_a_block_that_is_not_run_is_known_with_its_reason(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- not run: needs a GPU -->\n```console\n$ nvidia-smi\n```\n")
    ((step, reason),) = not_run(page)
    assert (step.commands[0].copied, reason) == ("nvidia-smi", "needs a GPU")
    assert list(steps(page)) == []


def test_a_question_of_a_command_is_answered_and_shown_with_its_answer(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    text = """
<!-- answers n -->
```console
$ printf 'Stop? [y/N]: ' && read answer && echo "It is $answer."
Stop? [y/N]: n
It is n.
```
"""
    assert followed(tmp_path, text, environment) == 1


def test_a_state_of_the_account_is_brought_about_before_its_block(tmp_path: Path, environment: dict[str, str]) -> None:
    page, directory, given = tmp_path / "page.md", tmp_path / "reader", list[str]()
    page.write_text("<!-- given a file -->\n```console\n$ cat file\nhello\n```\n")
    directory.mkdir()

    def give(state: str) -> None:
        given.append(state)
        (directory / "file").write_text("hello\n")

    follow(page, directory, tmp_path / "work", environment, made=None, give=give)
    assert given == ["a file"]


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("the container has 480 s", "the container has 360 s"),
        ("After 12 s: 3 copies", "After 9 s: 3 copies"),
        ("INPROGRESS  2 s", "INPROGRESS  12 s"),
    ],
)
def test_a_duration_is_compared_unless_the_page_marks_it_as_varying(shown: str, printed: str) -> None:
    assert difference(f"{shown}\n", f"{printed}\n")
    assert difference(f"{shown}\n", f"{printed}\n", durations_vary=True) == ""


@pytest.mark.parametrize("durations_vary", [False, True])
def test_milliseconds_are_always_a_figure(durations_vary: bool) -> None:
    shown, printed = "first token within 1000 ms\n", "first token within 900 ms\n"
    assert difference(shown, printed, durations_vary=durations_vary)


def test_a_table_whose_durations_vary_is_compared_without_the_widths_of_its_columns() -> None:
    shown = "Status      Age   Kind\nFAILED      11 s  job\n"
    assert difference(shown, "Status  Age  Kind\nFAILED  2 s  job\n", durations_vary=True) == ""
    assert difference(shown, "Status  Age  Kind\nFAILED  2 s  jobs\n", durations_vary=True)


def test_only_times_ports_and_generated_names_may_differ() -> None:
    shown = "Done in 33 s on 127.0.0.1:4566, optim-048a185ba32c1b50c1909396738b8ac0-ba04a6f0-1\n"
    assert difference(shown, "Done in 4 s on 127.0.0.1:80, optim-048a185ba32c1b50c1909396738b8ac0-00000000-1\n") == ""
    assert difference(shown, "Done in 4 s on 127.0.0.1:80, optim-148a185ba32c1b50c1909396738b8ac0-00000000-1\n")
    assert difference("2 jobs\n", "3 jobs\n")
    assert difference("b\na\n", "a\nb\n", any_order=True) == ""
    assert difference("b\na\n", "a\nb\nb\n", any_order=True)
    assert difference("a\n...\n", "a\n") == ""
    assert difference("...\nb\n", "a\nc\n")
    assert contains("  one\n two\nthree\n", "one\ntwo\n")
    assert not contains("one\nthree\n", "one\ntwo\n")


def test_lines_that_install_are_known(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```console\n$ python3 -m venv .venv && source .venv/bin/activate\n$ pip install x    # it\n"
        "$ .other/bin/pip install y\n$ npm install aws-cdk@2\n$ echo pip install\n```\n"
    )
    assert install_lines(page) == [
        "python3 -m venv .venv && source .venv/bin/activate",
        "pip install x",
        ".other/bin/pip install y",
        "npm install aws-cdk@2",
    ]
    assert not installs("npx cdk deploy")


def test_a_page_s_make_has_nothing_of_the_make_that_runs_the_tests(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("run:\n\t@env -0 >variables\n")
    subprocess.run(["make", "--jobs", "2", "-C", tmp_path], check=True, env={"PATH": os.environ["PATH"]})
    found = dict(each.split("=", 1) for each in (tmp_path / "variables").read_text().split("\0") if each)
    assert "--jobserver" in found["MAKEFLAGS"]
    assert set(of_a_fresh_machine(found)) <= {"PATH", "PWD", "OLDPWD", "SHLVL", "_"}


def test_a_marker_has_several_parts() -> None:
    marker = Marker.of(Snippet(Path("page.md"), 1, "console", "any order; columns 100; with A=b c", ""))
    assert (marker.options, marker.columns, marker.placeholders) == ({"any order"}, 100, {"A": "b c"})


def test_pages_with_the_same_lines_share_an_environment_and_a_failed_one_is_made_anew(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    lines = ["date +%N >made", f"test -e {tmp_path}/network"]
    with pytest.raises(PageError, match="ended with exit status 1"):
        made_by(lines, tmp_path / "environments", environment)
    (tmp_path / "network").touch()
    first = made_by(lines, tmp_path / "environments", environment)
    content = (first / "made").read_text()
    assert made_by(lines, tmp_path / "environments", environment) == first
    assert (first / "made").read_text() == content
    assert made_by([*lines, "true"], tmp_path / "environments", environment) != first


def test_an_environment_begins_with_a_copy_of_what_its_first_lines_make(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    folder = tmp_path / "environments"
    venv = "python3 -m venv --without-pip .venv && source .venv/bin/activate"
    script = ("mkdir .venv/bin/__pycache__", "echo '#!'$VIRTUAL_ENV/bin/python3 >.venv/bin/tool")
    shorter = made_by([venv, *script], folder, environment)
    longer = made_by([venv, *script, "echo $VIRTUAL_ENV >active"], folder, environment)
    for place in (shorter, longer):
        assert (place / ".venv/bin/tool").read_text() == f"#!{place}/.venv/bin/python3\n"
    assert (longer / "active").read_text() == f"{longer}/.venv\n"
    assert not (shorter / "active").exists()


def test_a_command_is_one_of_a_test_that_has_its_sub_commands_and_options(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    block = "<!-- not run: {} -->\n```console\n$ npx cdk drift    # what differs\n$ {}\n```\n"
    drift = "tests/e2e/test_drift.py::test_an_endpoint_that_was_moved_by_hand_has_drifted_and_is_reverted"
    compared = "tests/cli/test_evaluate.py::test_an_endpoint_is_compared_with_its_baseline"
    assert references(f"it needs time; {drift} and {compared} have it") == [drift, compared]
    for command, runs in (
        ("constructs-optim evaluate chat --compare other", True),
        ("constructs-optim evaluate chat --compare other --find-limit", False),
        ("constructs-optim adopt chat", False),
    ):
        page.write_text(block.format("why", command))
        ((step, _),) = not_run(page)
        assert commands_without(step, [drift, compared]) == ([] if runs else [command])


TEST = '''
def test_it() -> None:
    """Runs cdk diff after a deployment."""
    # cdk import
    assert run("cdk", "deploy", "--app", "app.py") == run("make"), "cdk watch"

def by_hand() -> None:
    run("cdk", "deploy")
'''


@pytest.mark.parametrize(
    ("command", "runs"),
    [
        ("npx cdk", True),
        ("make", True),
        ("make pages", False),
        ("make --jobs 2 pages", False),
        ("export STAGE=test", True),
        ("STAGE=test npx cdk deploy", True),
        ("STAGE=test cdk destroy", False),
        ("cdk deploy && cdk deploy --app other.py", True),
        ("cdk deploy && cdk destroy", False),
        ("cdk deploy; cdk destroy", False),
        ("cdk deploy | grep arn", False),
        ("cdk --app app.py", True),
        ("constructs-optim --quiet cdk", False),
        ("cdk diff", False),
        ("cdk import", False),
        ("cdk watch", False),
    ],
)
def test_every_command_of_a_line_must_be_in_the_code_of_the_test(tmp_path: Path, command: str, runs: bool) -> None:
    page, test = tmp_path / "page.md", tmp_path / "test_deployment.py"
    page.write_text(f"<!-- not run: why -->\n```console\n$ {command}\n```\n")
    test.write_text(TEST)
    ((step, _),) = not_run(page)
    assert commands_without(step, [f"{test}::test_it"]) == ([] if runs else [command])


@pytest.mark.parametrize("name", ["test_nothing", "by_hand", "TEST"])
def test_a_block_names_a_test_that_exists(tmp_path: Path, name: str) -> None:
    test = tmp_path / "test_deployment.py"
    test.write_text(f"{TEST}\nTEST = 'cdk deploy'\n")
    with pytest.raises(AssertionError, match=f"there is no test .*{name}"):
        words_of(f"{test}::{name}")


def test_the_comments_of_a_script_are_no_commands(tmp_path: Path) -> None:
    script = tmp_path / "run"
    script.write_text("# Not run: make nightly\nmake lint\n")
    assert "lint" in words_of(str(script))
    assert "nightly" not in words_of(str(script))
