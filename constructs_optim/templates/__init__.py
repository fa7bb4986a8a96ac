"""Reads synthesized CloudFormation templates: resources, references, the text of intrinsic functions, and endpoints."""
