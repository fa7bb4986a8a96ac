"""The site in a real browser: it fits a phone, loads nothing from elsewhere, and its search finds pages by subject."""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.support.browser import browsed, needs_browser
from tests.support.documents import CHECKOUT, commands, snippets

pytestmark = needs_browser
PAGES = ["", "getting-started/", "tutorial/", "hosting/", "reference/constructs/optimized-endpoint/"]
# What readers type, and the page that they look for.
FOUND = {
    "EagleHead": "/techniques/eagle/",
    "a/b test": "/shadow/",
    "auto scale": "/scaling/",
    "autoscaling": "/scaling/",
    "awq": "/techniques/quantization/",
    "benchmark": "/evaluation/",
    "blue green": "/hosting/",
    "canary": "/hosting/",
    "capacity": "/scaling/",
    "capacity reservation": "/hosting/",
    "cheaper": "/how-to/cut-cost/",
    "clean up": "/operations/",
    "cost": "/how-to/cut-cost/",
    "dashboard": "/dashboards/",
    "delete stack": "/hosting/",
    "deploy without an account": "/tutorial/",
    "diff": "/explain/",
    "draft model": "/techniques/speculative-decoding/",
    "evaluate endpoint": "/evaluation/",
    "existing endpoint": "/adoption/",
    "fine-tune": "/techniques/medusa/",
    "gated model": "/models/",
    "github actions": "/pipelines/",
    "hugging face token": "/models/",
    "int4": "/techniques/quantization/",
    "job failed": "/how-to/failed-job/",
    "kms": "/security/",
    "load test": "/evaluation/",
    "lock file": "/catalog/",
    "logs": "/observability/",
    "mcp": "/agents/",
    "permissions": "/security/",
    "price": "/how-to/cut-cost/",
    "prune": "/operations/",
    "quantize": "/techniques/quantization/",
    "quota": "/preflight/",
    "recommend": "/recommendation/",
    "roll back": "/hosting/",
    "rollback": "/hosting/",
    "schedule": "/scaling/",
    "scheduling": "/scaling/",
    "sglang": "/servers/",
    "share artifacts": "/sharing/",
    "tensorrt": "/techniques/compilation/",
    "training plan": "/hosting/",
    "unit test": "/testing/",
    "vllm": "/servers/",
    "vpc": "/security/",
    "which instance type": "/recommendation/",
    "yaml": "/endpoint-file/",
    "OPT010": "/rules/",
    "OptimizedEndpoint": "/reference/constructs/optimized-endpoint/",
    "alarms": "/alarms/",
    "artifact store": "/sharing/",
    "kv cache": "/techniques/kv-cache/",
    "lora": "/reference/constructs/lora-adapter/",
    "pytest": "/testing/",
    "quantization": "/techniques/quantization/",
    "scale to zero": "/scaling/",
    "shadow": "/shadow/",
    "speculative decoding": "/techniques/speculative-decoding/",
    "terraform": "/terraform/",
    "upgrade": "/upgrades/",
}


class _Silent(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    site = CHECKOUT / "site"
    assert site.is_dir(), "make docs builds it"
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Silent, directory=str(site)))
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()


def seen_by(address: str, width: int, words: list[str]) -> dict[str, Any]:
    return browsed(Path(__file__).with_name("browse.mjs"), address, str(width), json.dumps(PAGES), json.dumps(words))


@pytest.mark.parametrize("width", [390, 1280])
def test_pages_fit_their_window_and_load_nothing_from_elsewhere(address: str, width: int) -> None:
    seen = seen_by(address, width, [])
    assert seen["wider"] == dict.fromkeys(PAGES, 0)
    assert [path for path in seen["loaded"] if "search_index" in path] == [], "the index is for readers who search"
    if width > 1000:
        assert [page for page, blocks in seen["cut"].items() if blocks] == []
    assert seen["elsewhere"] == seen["errors"] == []


def test_the_copy_button_of_a_console_block_copies_commands_alone(address: str) -> None:
    # Pages with output, comments, amounts of dollars at a line's start, and several blocks.
    names = ["getting-started", "explain", "operations", "tutorial", "how-to/cut-cost"]
    blocks = {
        f"{name}/": [each.code for each in snippets(CHECKOUT / "docs" / f"{name}.md") if each.language == "console"]
        for name in names
    }
    expected = {
        page: ["\n".join(command.copied for command in commands(code)) for code in codes]
        for page, codes in blocks.items()
    }
    copied = browsed(Path(__file__).with_name("copy.mjs"), address, json.dumps([*expected]))
    assert copied == expected


def test_the_search_finds_what_a_page_is_about(address: str) -> None:
    hits = seen_by(address, 1280, [*FOUND])["hits"]
    assert {word: pages[0] for word, pages in hits.items()} == FOUND


def test_each_page_has_a_description_of_its_own() -> None:
    pages = [page for page in (CHECKOUT / "site").rglob("*.html") if page.name != "404.html"]
    assert len(pages) > 100
    found = {page: re.findall(r'<meta name="description" content="([^"]+)"', page.read_text()) for page in pages}
    described = [each for each, *_ in found.values()]
    assert len(described) == len(pages)
    assert len({*described}) == len(pages), [each for each, count in Counter(described).items() if count > 1]


def test_the_first_palette_follows_the_system() -> None:
    palettes = re.findall(r'data-md-color-media="([^"]*)"', (CHECKOUT / "site" / "index.html").read_text())
    assert palettes[-3:] == [
        "(prefers-color-scheme)",
        "(prefers-color-scheme: light)",
        "(prefers-color-scheme: dark)",
    ]


def test_every_word_for_the_search_is_of_a_page() -> None:
    words = tomllib.loads((CHECKOUT / "tooling" / "search_words.toml").read_text())
    assert [page for page in words if not (CHECKOUT / "docs" / page).is_file()] == []
    assert len(FOUND) >= 40
