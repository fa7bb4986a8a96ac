"""The code that runs in Lambda, on the standard library, boto3, Powertools, and pydantic (from the runtime and layer).

This code knows no techniques, constructs, or catalogs: every handler takes its instructions from the request.
"""
