"""Findings of cdk-nag in a synthesized app."""

from __future__ import annotations

import json
from pathlib import Path

from aws_cdk import App


def nag_findings(app: App, directory: Path) -> list[str]:
    try:
        app.synth()
    except Exception as error:
        if "Validation failed" not in str(error) and "ValidationFailed" not in str(error):
            raise
    report = json.loads((directory / "validation-report.json").read_text())
    return [violation["ruleName"] for plugin in report["pluginReports"] for violation in plugin["violations"]]
