"""The site that ``make docs`` has built: its reference shows the public classes, and its links lead somewhere."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from importlib.metadata import metadata
from typing import TypeVar

import constructs_optim
from constructs_optim.recipe.documentation import SITE
from constructs_optim.recipe.settings import Group
from tests.support.documents import CHECKOUT

_DOCUMENTS = CHECKOUT / "docs"
_SITE = CHECKOUT / "site"


def test_each_class_of_the_reference_is_shown_with_the_parameters_of_its_constructor() -> None:
    seen = 0
    for page in (_DOCUMENTS / "reference").rglob("*/*.md"):
        shown = (_SITE / page.relative_to(_DOCUMENTS).with_suffix("") / "index.html").read_text()
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
    shown = "".join(page.read_text() for page in (_SITE / "reference").rglob("*.html"))
    unlinked = {*re.findall(r'<span title="(constructs_optim[\w.]*)\.(_?[A-Z]\w*[a-z]\w*)">\2</span>', shown)}
    assert len(unlinked) > 5
    listed = {*constructs_optim.__all__, "Technique", "ServerSettings"}
    for module, name in unlinked:
        assert name not in listed
        assert isinstance(getattr(import_module(module), name), type | TypeVar), name


def test_llms_txt_lists_each_page_of_the_navigation_with_a_sentence_and_its_links_lead_somewhere() -> None:
    assert _SITE.is_dir(), "make docs builds it"
    lines = (_SITE / "llms.txt").read_text().splitlines()
    assert lines[0] == "# constructs-optim"
    assert lines[2].startswith("> ")
    assert {line[:3] for line in lines[3:] if line} == {"## ", "- ["}
    entries = [re.fullmatch(r"- \[([^\]]+)\]\(([^)]+)\): .+\.", line) for line in lines if line.startswith("- ")]
    links = [entry[2] if entry is not None else "" for entry in entries]
    navigation = (CHECKOUT / "properdocs.yml").read_text().split("\nnav:\n")[1]
    assert len(links) == len(set(links)) == len(re.findall(r"[\w/-]+\.md", navigation))
    for link in links:
        assert (_SITE / link / "index.html" if link.endswith("/") else _SITE / link).is_file(), link


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
        found = _SITE / page
        found = found / "index.html" if found.is_dir() else found
        assert found.is_file(), page
        assert not anchor or f'id="{anchor}"' in found.read_text(), f"{page}#{anchor}"


def test_the_markdown_of_the_site_has_links_that_lead_somewhere() -> None:
    for page in _SITE.rglob("*.md"):
        for link in re.findall(r"\]\(([\w./-]+\.(?:md|png|json))(?:#[\w-]+)?\)", page.read_text()):
            found = (page.parent / link).resolve()
            assert found.is_file() or found.with_suffix("").joinpath("index.html").is_file(), f"{page.name}: {link}"
