"""What the site adds to docs/, which is written to be read in the repository: pages for the files that it links to.

A hook of properdocs; its functions are called by their names.
"""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

CHECKOUT = Path(__file__).parent.parent
_LANGUAGES = {".py": "python", ".yml": "yaml"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """A page for each example, beside those of the documents, and one for the changelog."""
    for example in sorted(path for path in (CHECKOUT / "examples").rglob("*") if path.suffix in _LANGUAGES):
        content = f"# {example.name}\n\n```{_LANGUAGES[example.suffix]}\n{example.read_text()}```\n"
        place = example.relative_to(CHECKOUT).with_suffix(".md").as_posix()
        page = File.generated(config, place, content=content)
        page.inclusion = InclusionLevel.NOT_IN_NAV
        files.append(page)
    changelog = (CHECKOUT / "CHANGELOG.md").read_text().replace("](docs/", "](")
    files.append(File.generated(config, "changelog.md", content=changelog))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links to examples lead to their pages."""
    return re.sub(r"\]\(((?:\.\./)+)examples/([\w/-]+)\.(?:py|yml)\)", _to_page, markdown)


def _to_page(link: re.Match[str]) -> str:
    up = link[1].removeprefix("../")
    return f"]({up}examples/{link[2]}.md)"
