"""Count the resources and bytes of the benchmark's templates, and write them into docs/performance.md.

They depend on nothing but the library, unlike times. ``python bench/template_figures.py`` writes the tables anew;
``tests/docs/test_performance_figures.py`` fails if the page differs by more than a tenth.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

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
_COUNTS = (1, 50, 200)


@dataclass(frozen=True)
class Size:
    """The size of a template: its resources, its bytes as written by default, and without white space."""

    resources: int
    written: int
    compact: int


@dataclass(frozen=True)
class Figures:
    """The templates of one endpoint and of a full stack of endpoints of a kind."""

    one: Size
    full: Size

    def resources(self, endpoints: int) -> int:
        """Return the resources of an app of so many endpoints, in stacks of ``ENDPOINTS_A_STACK``."""
        stacks, rest = divmod(endpoints, ENDPOINTS_A_STACK)
        return stacks * self.full.resources + (self.of(rest).resources if rest else 0)

    @property
    def further(self) -> Size:
        """What each further endpoint of a stack adds."""
        others = ENDPOINTS_A_STACK - 1
        return Size(
            round((self.full.resources - self.one.resources) / others),
            (self.full.written - self.one.written) // others,
            (self.full.compact - self.one.compact) // others,
        )

    def of(self, endpoints: int) -> Size:
        """Return the size of a stack of so many endpoints."""
        further, one, more = self.further, self.one, endpoints - 1
        return Size(
            one.resources + more * further.resources,
            one.written + more * further.written,
            one.compact + more * further.compact,
        )

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
    with ThreadPoolExecutor(2) as pool:
        sizes = {
            (kind, count): pool.submit(_size, app, count)
            for kind, app in KINDS.items()
            for count in (1, ENDPOINTS_A_STACK)
        }
    return {kind: Figures(sizes[kind, 1].result(), sizes[kind, ENDPOINTS_A_STACK].result()) for kind in KINDS}


def _size(app: str, endpoints: int) -> Size:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "app.py").write_text(app, encoding="utf-8")
        path = {"CDK_OUTDIR": "cdk.out", "CDK_VALIDATION": "false", "PYTHONPATH": str(CHECKOUT), "HOME": folder}
        path["PATH"] = f"{Path(sys.executable).parent}:/usr/bin:/bin"
        command = [sys.executable, "app.py", str(endpoints)]
        subprocess.run(command, cwd=folder, env=path, check=True, capture_output=True)
        text = (Path(folder) / "cdk.out" / "Bench0.template.json").read_text(encoding="utf-8")
    template = json.loads(text)
    resources = [each for each in template["Resources"].values() if each["Type"] != "AWS::CDK::Metadata"]
    compact = json.dumps(template, separators=(",", ":"), ensure_ascii=False)
    return Size(len(resources), len(text.encode()), len(compact.encode()))


def table(found: dict[str, Figures]) -> str:
    """Return the page's table."""
    headings = [
        "app", *(f"resources of {count}" for count in _COUNTS), "resources of each further one",
        "KB of each further one (without white space)", "endpoints in a stack (without white space)",
    ]  # fmt: skip
    rows = [
        [
            kind,
            *(f"{each.resources(count):,}" for count in _COUNTS),
            str(each.further.resources),
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
