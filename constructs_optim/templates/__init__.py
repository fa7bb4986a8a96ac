"""Reads synthesized CloudFormation templates: resources, references, the text of intrinsic functions, and endpoints.

What validates, explains or draws templates builds on it. It knows template syntax and this library's resource types,
and decides nothing.
"""
