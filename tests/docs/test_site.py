"""The site: generated pages are up to date, and each page is in the navigation."""

from __future__ import annotations

import inspect
import json
import re
import runpy
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import metadata
from typing import TypeVar

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


def test_each_class_of_the_reference_is_shown_with_the_parameters_of_its_constructor() -> None:
    seen = 0
    for page in (DOCUMENTS / "reference").rglob("*/*.md"):
        shown = (CHECKOUT / "site" / page.relative_to(DOCUMENTS).with_suffix("") / "index.html").read_text()
        for block in page.read_text().split("\n::: ")[1:]:
            module, _, name = block.partition("\n")[0].rpartition(".")
            cls = getattr(import_module(module), name)
            if "merge_init_into_class: false" not in block and not isinstance(cls, Group):
                fields = getattr(cls, "model_fields", None) or inspect.signature(cls.__init__).parameters
                names = {*fields} - {"self", "args", "kwargs", "violations"}
                missing = {field for field in names if f">{field}<" not in shown}
                assert missing == set(), f"{page.name}: {name}"
                seen += len(names)
    assert seen > 250


def test_types_in_signatures_are_linked_if_they_are_public_and_never_aliases() -> None:
    shown = "".join(page.read_text() for page in (CHECKOUT / "site" / "reference").rglob("*.html"))
    unlinked = {*re.findall(r'<span title="(constructs_optim[\w.]*)\.(_?[A-Z]\w*[a-z]\w*)">\2</span>', shown)}
    assert len(unlinked) > 5
    listed = {*constructs_optim.__all__, "Technique", "ServerSettings"}
    for module, name in unlinked:
        assert name not in listed
        assert isinstance(getattr(import_module(module), name), type | TypeVar), name


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


def test_llms_txt_lists_each_page_of_the_navigation_with_a_sentence_and_its_links_lead_somewhere() -> None:
    site = CHECKOUT / "site"
    assert site.is_dir(), "make docs builds it"
    lines = (site / "llms.txt").read_text().splitlines()
    assert lines[0] == "# constructs-optim"
    assert lines[2].startswith("> ")
    assert {line[:3] for line in lines[3:] if line} == {"## ", "- ["}
    entries = [re.fullmatch(r"- \[([^\]]+)\]\(([^)]+)\): .+\.", line) for line in lines if line.startswith("- ")]
    links = [entry[2] if entry is not None else "" for entry in entries]
    navigation = (CHECKOUT / "properdocs.yml").read_text().split("\nnav:\n")[1]
    assert len(links) == len(set(links)) == len(re.findall(r"[\w/-]+\.md", navigation))
    for link in links:
        assert (site / link / "index.html" if link.endswith("/") else site / link).is_file(), link


def test_links_to_the_site_lead_to_its_pages() -> None:
    text = str(metadata("constructs-optim").get_payload()) + "".join(
        path.read_text()
        for folder in ("constructs_optim", "constructs_optim_local", "typescript/src", "terraform")
        for path in (CHECKOUT / folder).rglob("*")
        if path.suffix in (".py", ".toml", ".ts", ".tf", ".md")
    )
    links = {*re.findall(rf"{SITE}/([\w./-]*)(?:#([\w-]+))?", text)}
    assert len(links) > 20
    for page, anchor in links:
        found = CHECKOUT / "site" / page
        found = found / "index.html" if found.is_dir() else found
        assert found.is_file(), page
        assert not anchor or f'id="{anchor}"' in found.read_text(), f"{page}#{anchor}"


def test_each_name_of_the_site_is_the_same() -> None:
    typescript = json.loads((CHECKOUT / "typescript" / "package.json").read_text())
    assert f"\nsite_url: {SITE}/\n" in (CHECKOUT / "properdocs.yml").read_text()
    assert typescript["homepage"] == SITE
    assert metadata("constructs-optim")["Project-URL"] == f"Documentation, {SITE}/"


def test_the_markdown_of_the_site_has_links_that_lead_somewhere() -> None:
    for page in (CHECKOUT / "site").rglob("*.md"):
        for link in re.findall(r"\]\(([\w./-]+\.(?:md|png|json))(?:#[\w-]+)?\)", page.read_text()):
            found = (page.parent / link).resolve()
            assert found.is_file() or found.with_suffix("").joinpath("index.html").is_file(), f"{page.name}: {link}"
