"""What runs in Lambda. Standard library and boto3 only.

Nothing here knows a technique, a construct or a catalog: every handler carries out the request that reaches
it in its resource properties, and can be called twice at any point.
"""
