"""The site in a real browser: it fits a phone, loads nothing from elsewhere, and its search finds pages by subject."""

from __future__ import annotations

import json
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
PAGES = ["", "tutorial/", "hosting/", "reference/constructs/optimized-endpoint/"]
FOUND = {
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
