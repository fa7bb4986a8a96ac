"""Optimization jobs and the small files that they write to S3."""
