"""An evaluation's results, report, and verdict."""
