"""Makes a package of this folder under any path, for a script in it that was started as a file.

Otherwise, the folder's modules would have top-level names such as ``data`` or ``model``, which other packages may use.
"""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

NAME = "constructs_optim_training"
_HERE = Path(__file__).resolve().parent

if not __package__ and NAME not in sys.modules:
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != _HERE]
    _spec = spec_from_file_location(NAME, _HERE / "__init__.py", submodule_search_locations=[str(_HERE)])
    assert _spec is not None  # noqa: S101 - the file is beside this one
    assert _spec.loader is not None  # noqa: S101 - the specification of a file always has one
    sys.modules[NAME] = module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules[NAME])
