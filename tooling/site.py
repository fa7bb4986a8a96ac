"""A hook of properdocs that adds pages for files that docs/ links to, because docs/ is written for the repository.

For language models, it also adds each page as Markdown, and a list of them: llms.txt (https://llmstxt.org). properdocs
calls its functions by name.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.nav import Navigation, Section
from mkdocs.structure.pages import Page

CHECKOUT = Path(__file__).parent.parent
_LANGUAGES = {".py": "python", ".yml": "yaml", ".yaml": "yaml", ".ts": "typescript"}
# Pages that mkdocstrings fills are linked as HTML.
_GENERATED = "\n::: "
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_SENTENCE = re.compile(r"(?!```)[A-Za-z`*].*?\.(?=\s|$)", re.DOTALL)
# Search weights: guides rank above pages that mention everything.
_SEARCH_BOOSTS = {
    "techniques/": 3,
    "reference/": 0.1,
    "examples/": 0.1,
    "coming-from/": 0.2,
    "likely-mistakes": 0.2,
    "index.md": 0.2,
    "rules.md": 0.3,
    "metrics.md": 0.3,
    "changelog": 0.1,
    "contributing": 0.1,
}
# Types of parameters whose values a page lists, and which have no page of their own.
_LISTED_TYPES = {
    "techniques/index.md": "constructs_optim.recipe.techniques.base.Technique",
    "servers.md": "constructs_optim.recipe.servers.ServerSettings",
}
_WORDS: dict[str, list[str]] = tomllib.loads(Path(__file__).with_name("search_words.toml").read_text(encoding="utf-8"))
_navigation: list[Navigation] = []
_markdown: dict[str, str] = {}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each example in all its languages, one for the changelog, and one for contributing."""
    examples: dict[Path, list[Path]] = {}
    for example in sorted(path for path in (CHECKOUT / "examples").rglob("*") if path.suffix in _LANGUAGES):
        # For example, eagle_in_two_stacks.py also has eagle_in_two_stacks.serving.yaml and .training.yaml.
        examples.setdefault(example.with_name(example.name.partition(".")[0]), []).append(example)
    for name, files_of_it in examples.items():
        content = f"# {name.name}\n" + "".join(map(_tab, files_of_it))
        place = name.relative_to(CHECKOUT).with_suffix(".md").as_posix()
        page = File.generated(config, place, content=content)
        page.inclusion = InclusionLevel.NOT_IN_NAV
        files.append(page)
    for name in ("CHANGELOG.md", "CONTRIBUTING.md"):
        content = (CHECKOUT / name).read_text().replace("](docs/", "](")
        files.append(File.generated(config, name.lower(), content=content))
    return files


def _tab(example: Path) -> str:
    code = f"```{_LANGUAGES[example.suffix]}\n{example.read_text()}```\n"
    return f'\n=== "{example.name}"\n\n{indent(code, "    ")}'


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links to example pages, hide columns of links on the home page, and rank guides first in the search."""
    if page.is_homepage:
        page.meta["hide"] = ["navigation", "toc"]
    boost = next((boost for prefix, boost in _SEARCH_BOOSTS.items() if page.file.src_uri.startswith(prefix)), 1)
    page.meta["search"] = {"boost": boost}
    page.meta["tags"] = _WORDS.get(page.file.src_uri, [])
    if "description" not in page.meta and (described := _description(markdown, page.file.src_uri)):
        page.meta["description"] = described
    if name := _LISTED_TYPES.get(page.file.src_uri):
        markdown = f"[](){{#{name}}}\n\n{markdown}"
    linked = re.sub(r"\]\(((?:\.\./)+)examples/([\w/-]+)\.(?:[\w.]+)\)", _to_page, markdown)
    _markdown[page.file.src_uri] = linked
    return linked


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Have the search's index loaded only when a reader searches."""
    return _with_late_search(output)


def on_post_template(output_content: str, template_name: str, config: MkDocsConfig) -> str:
    """Do the same on the page for addresses that do not exist."""
    return _with_late_search(output_content) if template_name == "404.html" else output_content


def _with_late_search(page: str) -> str:
    # Before the theme's own script, which asks for the index at once.
    return re.sub(
        r'(?=<script src="([^"]*)assets/javascripts/bundle)', r'<script src="\1late_search.js"></script>', page
    )


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> Navigation:
    """Keep the navigation for llms.txt."""
    _navigation[:] = [nav]
    return nav


def on_post_build(config: MkDocsConfig) -> None:
    """Write llms.txt and the pages that it links to."""
    for name, markdown in _markdown.items():
        if _GENERATED not in markdown:
            (Path(config.site_dir) / name).write_text(markdown, encoding="utf-8")
    (nav,) = _navigation
    lines = [f"# {config.site_name}", "", f"> {config.site_description}", *_listed("Documentation", nav.items)]
    (Path(config.site_dir) / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _listed(title: str, items: list) -> Iterator[str]:
    """Yield a section of llms.txt and its subsections."""
    yield from ["", f"## {title}", ""]
    for page in (item for item in items if isinstance(item, Page)):
        markdown = _markdown[page.file.src_uri]
        place = page.url if _GENERATED in markdown else page.file.src_uri
        about = _first_sentence(markdown)
        yield f"- [{page.title}]({place})" + (f": {about}" if about else "")
    for section in (item for item in items if isinstance(item, Section)):
        yield from _listed(section.title, section.children)


def _description(markdown: str, place: str) -> str | None:
    """Return a page's description for search engines; None for the site's own, on the home page."""
    if place == "index.md":
        return None
    heading = re.search(r"^# (.+)$", markdown, re.MULTILINE)
    name = heading[1].strip("`") if heading is not None else Path(place).stem.replace("-", " ")
    about = _first_sentence(markdown)
    # Other pages can begin with the same sentence.
    return (
        f"{name}: {about.replace('`', '')}"
        if about
        else f"{name} in constructs-optim, AWS CDK constructs for LLM endpoints"
    )


def _first_sentence(markdown: str) -> str | None:
    """Return the first sentence below the heading, without links."""
    for paragraph in re.split(r"\n\s*\n", markdown):
        if found := _SENTENCE.match(_LINK.sub(r"\1", paragraph)):
            return " ".join(found[0].split())
    return None


def _to_page(link: re.Match[str]) -> str:
    up = link[1].removeprefix("../")
    return f"]({up}examples/{link[2]}.md)"
