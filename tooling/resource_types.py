"""Write constructs_optim/recipe/catalog/resource_types.json from the installed cfn-lint's schemas.

Run it after upgrading cfn-lint: ``python tooling/resource_types.py``. tests/recipe/test_catalog.py fails if the file is
out of date.
"""

from __future__ import annotations

import datetime as dt
import json
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

CATALOG = Path(__file__).parent.parent / "constructs_optim" / "recipe" / "catalog" / "resource_types.json"
# Declared types that some Regions lack. AWS::SageMaker::Endpoint, EndpointConfig and Model are older than the registry
# with the schemas, so Regions without their schemas (me-central-1, us-gov-east-1) also have them.
TYPES = ("AWS::SageMaker::AIWorkloadConfig", "AWS::SageMaker::InferenceComponent")


def content() -> dict[str, Any]:
    """Return the file's content without its date."""
    schemas = {
        path.name.removesuffix(".json"): json.loads(path.read_text())
        for path in (files("cfnlint") / "data" / "schemas" / "providers").iterdir()
        if path.name.endswith(".json") and path.name != "sam.json"
    }
    return {
        "source": f"the lists of resource types by region in cfn-lint {version('cfn-lint')} "
        "(CloudFormation's registry); written by tooling/resource_types.py",
        "regions": sorted(schemas),
        "types": {name: sorted(region for region, known in schemas.items() if name in known) for name in TYPES},
    }


if __name__ == "__main__":
    CATALOG.write_text(json.dumps({"date": dt.datetime.now(dt.UTC).date().isoformat(), **content()}, indent=1) + "\n")
