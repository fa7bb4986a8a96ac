"""Writes down every request of a function of a local cloud, with the parameters that its code gave.

Python imports it by its name when a process starts whose ``PYTHONPATH`` has this folder.
"""

import json
import os

if "REQUESTS_OF_FUNCTIONS" in os.environ and "AWS_LAMBDA_FUNCTION_NAME" in os.environ:
    from pathlib import Path

    import botocore.session

    def record(params, model, **_):
        said = {"service": model.service_model.service_name, "operation": model.name, "request": params}
        with Path(os.environ["REQUESTS_OF_FUNCTIONS"], f"{os.getpid()}.jsonl").open("a") as file:
            # Dates in their own form; what is read from, and bytes, as nothing: their type alone is checked.
            file.write(json.dumps(said, default=lambda value: getattr(value, "isoformat", str)()) + "\n")

    unrecorded = botocore.session.get_session

    def recorded(*arguments):
        session = unrecorded(*arguments)
        session.register("before-parameter-build", record)
        return session

    botocore.session.get_session = recorded
