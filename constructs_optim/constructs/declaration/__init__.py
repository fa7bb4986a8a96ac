"""Declarations as data: models of the Python API's calls, their JSON Schema, and the files that are read into them."""
