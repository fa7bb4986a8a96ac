"""The results, the report and the verdict of an evaluation."""
