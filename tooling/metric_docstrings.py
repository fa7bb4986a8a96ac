"""Write the docstrings of the ``metric_<name>`` methods from the metrics' definitions, because editors do not run code.

Run it when a metric changes: ``python tooling/metric_docstrings.py``.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from constructs_optim.constructs.monitoring.endpoint_metrics import MeasuredResource

SOURCE = Path(__file__).resolve().parent.parent / "constructs_optim/constructs/monitoring/endpoint_metrics.py"
_METHOD = re.compile(r'(?P<method>^    (?P<name>metric_\w+) = _\w+\("\w+"\)\n)(    """[^"]*"""\n)?', re.MULTILINE)


def documented(source: str) -> str:
    """Return the module's source with a docstring after each assignment of a method."""

    def with_docstring(found: re.Match[str]) -> str:
        text = textwrap.fill(
            f'"""{getattr(MeasuredResource, found["name"]).__doc__}"""',
            width=120,
            initial_indent=" " * 4,
            subsequent_indent=" " * 4,
            break_on_hyphens=False,
        )
        return f"{found['method']}{text}\n"

    return _METHOD.sub(with_docstring, source)


def main() -> None:
    """Write the docstrings."""
    SOURCE.write_text(documented(SOURCE.read_text()))


if __name__ == "__main__":
    main()
