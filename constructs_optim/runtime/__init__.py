"""What runs in Lambda. Standard library, boto3, Powertools and pydantic only: what the runtime and its layer bring.

Nothing here knows a technique, a construct or a catalog: every handler carries out the request that reaches
it in its resource properties, and can be called twice at any point.
"""
