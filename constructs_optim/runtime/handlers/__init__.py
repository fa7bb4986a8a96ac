"""The Lambda functions' entry points: one module per function, each with ``handler(event, context)``."""

import gc
import os

if "AWS_LAMBDA_FUNCTION_NAME" in os.environ:
    # A cold start allocates much and frees little, so collection starts after the first invocation (entry_point).
    gc.disable()
    # pydantic would read the metadata of every installed distribution.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
