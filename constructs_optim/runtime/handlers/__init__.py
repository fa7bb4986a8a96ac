"""The Lambda functions' entry points: one module a function, each with ``handler(event, context)``."""

import gc
import os

if "AWS_LAMBDA_FUNCTION_NAME" in os.environ:
    # A cold start allocates much and frees little: garbage is collected after the first invocation (entry_point).
    gc.disable()
    # pydantic would read the metadata of every installed distribution.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
