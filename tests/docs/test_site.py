"""What the site is built from: generated pages are up to date, and each page is in the navigation."""

from __future__ import annotations

import inspect
import json
import re
import runpy
import sys
from collections.abc import Iterator
from importlib.metadata import metadata

import constructs_optim
from constructs_optim.recipe.documentation import SITE
from constructs_optim.recipe.settings import Group
from tests.support.documents import CHECKOUT, pages

DOCUMENTS = CHECKOUT / "docs"


def test_the_generated_pages_are_up_to_date() -> None:
    for name, content in runpy.run_path(str(CHECKOUT / "tooling/reference_pages.py"))["pages"]().items():
        assert (DOCUMENTS / name).read_text() == content, "python tooling/reference_pages.py"


def test_the_reference_lists_exactly_the_public_names_and_method_options() -> None:
    listed = [
        line.removeprefix("::: ")
        for page in (DOCUMENTS / "reference").rglob("*.md")
        for line in page.read_text().splitlines()
        if line.startswith("::: ")
    ]
    public = [getattr(constructs_optim, name) for name in constructs_optim.__all__]
    groups = [value for value in public if isinstance(value, Group)]
    public += [kind for group in groups for kind in vars(group).values() if isinstance(kind, type)]
    options = {option for value in public for option in options_of(value)}
    assert {"MetricOptions", "StepOptions", "UpdateOptions"} <= {option.__name__ for option in options}
    assert sorted(listed) == sorted(f"{value.__module__}.{value.__qualname__}" for value in [*public, *options])


def options_of(value: object) -> Iterator[type]:
    """The TypedDicts of ``**options`` that a class's methods take."""
    for _, method in inspect.getmembers(value, inspect.isfunction):
        for parameter in inspect.signature(method).parameters.values():
            if match := re.fullmatch(r"Unpack\[(\w+)\]", str(parameter.annotation)):
                yield getattr(sys.modules[method.__module__], match[1])


def test_each_document_is_in_the_navigation() -> None:
    navigation = (CHECKOUT / "properdocs.yml").read_text().split("\nnav:\n")[1]
    linked = re.findall(r"[\w/-]+\.md", navigation)
    assert len(linked) == len(set(linked))
    existing = {path.relative_to(DOCUMENTS).as_posix() for path in DOCUMENTS.rglob("*.md")}
    assert set(linked) == {*existing, "changelog.md", "contributing.md"}


def test_rules_named_in_the_pages_exist() -> None:
    known = set(re.findall(r"^### (OPT\d{3})$", (DOCUMENTS / "rules.md").read_text(), flags=re.MULTILINE))
    for page in pages():
        assert set(re.findall(r"OPT\d{3}", page.read_text())) <= known, page.name


def test_each_technique_page_has_sections_on_use_cost_and_exclusions() -> None:
    techniques = [page for page in (DOCUMENTS / "techniques").glob("*.md") if page.name != "index.md"]
    assert len(techniques) == 8
    for page in techniques:
        headings = re.findall(r"^## (.*)$", page.read_text(), flags=re.MULTILINE)
        assert headings == ["When to use it", "What it costs", "What it excludes"], page.name


def test_the_examples_page_lists_each_example() -> None:
    listed = re.findall(
        r"^\| \[(\w+\.py)\]\(\.\./examples/\1\) \|", (DOCUMENTS / "examples.md").read_text(), flags=re.MULTILINE
    )
    assert sorted(listed) == sorted(path.name for path in (CHECKOUT / "examples").glob("*.py"))


def test_each_name_of_the_site_is_the_same() -> None:
    typescript = json.loads((CHECKOUT / "typescript" / "package.json").read_text())
    assert f"\nsite_url: {SITE}/\n" in (CHECKOUT / "properdocs.yml").read_text()
    assert typescript["homepage"] == SITE
    assert metadata("constructs-optim")["Project-URL"] == f"Documentation, {SITE}/"
