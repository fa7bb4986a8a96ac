"""Count the calls, resources and bytes of the benchmark's apps, and write them into docs/performance.md.

They depend on nothing but the library, unlike times. ``python bench/template_figures.py`` writes the tables anew;
``tests/docs/test_performance_figures.py`` fails if the page differs by more than a tenth.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import astuple, dataclass
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

from jsii._kernel.providers.process import _NodeProcess

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT / "bench"))

from synth_apps import BARE, ENDPOINTS_A_STACK, EVALUATED, FULL, OURS  # noqa: E402 - not a package

PAGE = CHECKOUT / "docs" / "performance.md"
_BLOCK = re.compile(r"(?<=<!-- written by bench/template_figures.py -->\n).*?(?=<!-- end -->)", re.DOTALL)
# CloudFormation user guide, "Understand CloudFormation quotas".
MOST_RESOURCES, MOST_BYTES = 500, 1_000_000
KINDS = {
    "bare": BARE,
    "scaled on concurrency, as in the README": OURS,
    "evaluated after each deployment and daily": EVALUATED,
    "every feature": FULL,
}


@dataclass(frozen=True)
class Size:
    """The size of an app of one stack: its calls to Node, and its template's resources and bytes.

    Bytes are those that are written by default, and those without white space.
    """

    calls: int
    resources: int
    written: int
    compact: int


@dataclass(frozen=True)
class Figures:
    """The apps of one endpoint and of a full stack of endpoints of a kind."""

    one: Size
    full: Size

    @property
    def further(self) -> Size:
        """What each further endpoint of a stack adds."""
        others = ENDPOINTS_A_STACK - 1
        differences = zip(astuple(self.full), astuple(self.one), strict=True)
        return Size(*(round((full - one) / others) for full, one in differences))

    def of(self, endpoints: int) -> Size:
        """Return the size of a stack of so many endpoints."""
        sums = zip(astuple(self.one), astuple(self.further), strict=True)
        return Size(*(one + (endpoints - 1) * further for one, further in sums))

    def most(self, *, compact: bool) -> int:
        """Return how many endpoints a stack holds."""
        count = 1
        while (size := self.of(count + 1)) and size.resources <= MOST_RESOURCES:
            if (size.compact if compact else size.written) > MOST_BYTES:
                break
            count += 1
        return count


def figures() -> dict[str, Figures]:
    """Synthesize the apps, and return the figures of each kind."""
    return {kind: Figures(_size(app, 1), _size(app, ENDPOINTS_A_STACK)) for kind, app in KINDS.items()}


def _size(app: str, endpoints: int) -> Size:
    declared: dict[str, Any] = {}
    with _counted_calls() as calls, redirect_stdout(StringIO()), patch.object(sys, "argv", ["app.py", str(endpoints)]):
        exec(compile(app, "app.py", "exec"), declared)
    assembly = Path(declared["app"].synth().directory)
    text = (assembly / "Bench0.template.json").read_text(encoding="utf-8")
    template = json.loads(text)
    resources = [each for each in template["Resources"].values() if each["Type"] != "AWS::CDK::Metadata"]
    compact = json.dumps(template, separators=(",", ":"), ensure_ascii=False)
    return Size(len(calls), len(resources), len(text.encode()), len(compact.encode()))


@contextmanager
def _counted_calls() -> Iterator[list[object]]:
    """Append each request to Node to the list."""
    calls: list[object] = []
    send = _NodeProcess.send

    def counting(self: Any, request: Any, response_type: Any) -> Any:
        calls.append(request)
        return send(self, request, response_type)

    with patch.object(_NodeProcess, "send", counting):
        yield calls


def table(found: dict[str, Figures]) -> str:
    """Return the page's table."""
    headings = [
        "app", "resources of 1", "resources of each further one", "calls of each further one",
        "KB of each further one (without white space)", "endpoints in a stack (without white space)",
    ]  # fmt: skip
    rows = [
        [
            kind,
            str(each.one.resources),
            str(each.further.resources),
            str(each.further.calls),
            f"{each.further.written / 1000:.0f} ({each.further.compact / 1000:.0f})",
            f"{each.most(compact=False)} ({each.most(compact=True)})",
        ]
        for kind, each in found.items()
    ]
    lines = [headings, ["---", *["---:"] * (len(headings) - 1)], *rows]
    return "\n" + "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n\n"


def written(text: str) -> str:
    """Return the table that the page has."""
    (found,) = _BLOCK.findall(text)
    return found


if __name__ == "__main__":
    content = PAGE.read_text(encoding="utf-8")
    new = table(figures())
    PAGE.write_text(_BLOCK.sub(lambda _: new, content), encoding="utf-8")
