"""Complete the licenses in the bill of materials, and refuse one with a component that has none.

    python tooling/bill_of_materials.py dist/constructs-optim.cdx.json

``cyclonedx-py`` reads licenses from a package's metadata. Some packages only have a license file.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

LICENSES = {
    # https://github.com/messense/py-promql-parser/blob/main/LICENSE
    "promql-parser": "MIT",
}
"""SPDX identifiers of packages whose metadata names no license, from their license files."""


def completed(bill: dict[str, Any]) -> dict[str, Any]:
    """Return a bill of materials with a license for each component.

    Raises:
        ValueError: if the license of a component is unknown, or a license of ``LICENSES`` is not needed.
    """
    unlicensed = {each["name"]: each for each in bill["components"] if not each.get("licenses")}
    if unknown := sorted(unlicensed.keys() - LICENSES.keys()):
        raise ValueError(f"no license: {', '.join(unknown)}. Add them to {Path(__file__).name}, from their files")
    stated = {each["name"] for each in bill["components"]} & LICENSES.keys()
    if known := sorted(stated - unlicensed.keys()):
        raise ValueError(f"the metadata names a license: {', '.join(known)}. Remove them from {Path(__file__).name}")
    licenses = {name: [{"license": {"id": LICENSES[name], "acknowledgement": "concluded"}}] for name in unlicensed}
    components = [
        {**each, "licenses": licenses[each["name"]]} if each["name"] in licenses else each
        for each in bill["components"]
    ]
    return {**bill, "components": components}


def main() -> None:
    """Complete the file that the command names."""
    path = Path(sys.argv[1])
    try:
        bill = completed(json.loads(path.read_text(encoding="utf-8")))
    except ValueError as error:
        sys.exit(f"{path}: {error}")
    path.write_text(json.dumps(bill, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
