"""Every component of the bill of materials has a license."""

from __future__ import annotations

from importlib.metadata import distribution
from typing import Any

import pytest

from tooling.bill_of_materials import LICENSES, completed

MIT = [{"license": {"id": "MIT", "acknowledgement": "declared"}}]


def bill(**licenses: list[dict[str, Any]]) -> dict[str, Any]:
    components = [{"name": name.replace("_", "-"), "licenses": found} for name, found in licenses.items()]
    return {"bomFormat": "CycloneDX", "components": components}


def test_a_license_that_only_a_file_states_is_added() -> None:
    found = completed(bill(pydantic=MIT, promql_parser=[]))
    assert [each["licenses"] for each in found["components"]] == [
        MIT,
        [{"license": {"id": "MIT", "acknowledgement": "concluded"}}],
    ]


def test_a_component_without_a_license_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^no license: one, other\. Add them to bill_of_materials\.py"):
        completed(bill(other=[], pydantic=MIT, one=[]))


def test_a_license_that_the_metadata_names_by_now_is_no_longer_stated() -> None:
    with pytest.raises(ValueError, match=r"^the metadata names a license: promql-parser\. Remove"):
        completed(bill(promql_parser=MIT))


@pytest.mark.parametrize("name", LICENSES)
def test_a_stated_license_is_that_of_the_packages_file(name: str) -> None:
    found = distribution(name)
    (file,) = found.metadata.get_all("License-File") or []
    text = found.read_text(f"licenses/{file}") or ""
    assert text.startswith(f"The {LICENSES[name]} License")
    assert "License-Expression" not in found.metadata
