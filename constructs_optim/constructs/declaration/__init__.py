"""Declarations as data: models of the Python API's calls, their JSON Schema, and files in this form."""
