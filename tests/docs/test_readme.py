"""The README: short, and with the app that ``make demo`` deploys. tests/pages follows its commands."""

from __future__ import annotations

from tests.support.documents import CHECKOUT, commands, readme_example, snippets

README = CHECKOUT / "README.md"


def test_the_readme_has_at_most_150_lines() -> None:
    assert len(README.read_text().splitlines()) <= 150


def test_the_readme_s_app_is_the_one_of_make_demo() -> None:
    assert readme_example() == (CHECKOUT / "app.py").read_text()


def test_the_readme_begins_with_the_two_commands_of_a_fresh_machine() -> None:
    first = next(snippet for snippet in snippets(README))
    assert [command.copied for command in commands(first.code)] == ["make demo", "make test"]
