"""The code that runs in Lambda: standard library, boto3, Powertools and pydantic, which runtime and layer bring.

Nothing here knows a technique, a construct or a catalog: every handler does what its request says.
"""
