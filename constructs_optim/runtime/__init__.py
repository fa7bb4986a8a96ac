"""The code that runs in Lambda, on the standard library, boto3, Powertools, and pydantic (from the runtime and layer).

This code does not depend on techniques, constructs, or catalogs: each request contains the handler's instructions.
"""
