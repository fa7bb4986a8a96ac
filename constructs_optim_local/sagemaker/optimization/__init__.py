"""Optimization jobs and the small files that they leave in S3."""
