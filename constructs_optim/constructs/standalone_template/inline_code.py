"""A function's code as a single module that a template can contain."""

from __future__ import annotations

import base64
import json
import zlib
from modulefinder import ModuleFinder
from pathlib import Path

# The handlers read data files, so the modules are written to files too.
_INDEX = """\
import base64, json, pathlib, sys, tempfile, zlib
root = pathlib.Path(tempfile.mkdtemp())
for name, text in json.loads(zlib.decompress(base64.b85decode("{packed}"))).items():
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text, encoding="utf-8")
sys.path.insert(0, str(root))
from {module} import {function}
"""


def inline_source(folder: Path, handler: str) -> str:
    """Return the source of a module ``index`` with a function's handler for ``Code.ZipFile``, up to 4 MB.

    It contains the modules that the handler imports, and all files of the folder that are not modules. Source of the
    limit: CloudFormation template reference, ``AWS::Lambda::Function Code``.

    Args:
        folder: the folder of the function's code.
        handler: the handler in Lambda's notation: ``runtime.handlers.job_handler.handler``.
    """
    folder, (module, _, function) = folder.resolve(), handler.rpartition(".")
    finder = ModuleFinder(path=[str(folder)])
    finder.import_hook(module)
    # Built-in modules have no file.
    modules = [Path(file) for found in finder.modules.values() if (file := vars(found)["__file__"])]
    data = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".py"]
    texts = {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in sorted([*modules, *data])}
    packed = base64.b85encode(zlib.compress(json.dumps(texts).encode(), 9)).decode()
    return _INDEX.format(packed=packed, module=module, function=function)
