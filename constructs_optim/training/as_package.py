"""Makes a package of this folder under any path, for a script in it that was started as a file.

Otherwise, the folder's modules would have top-level names such as ``data`` or ``model``, which other packages may use.
The folder above is a package too, without the code of its ``__init__.py``: it has what the folders share.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path

_ABOVE = "constructs_optim_job"
_HERE = Path(__file__).resolve().parent
NAME = f"{_ABOVE}.{_HERE.name}"

if not __package__ and _ABOVE not in sys.modules:
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != _HERE]
    _spec = ModuleSpec(_ABOVE, None, is_package=True)
    _spec.submodule_search_locations = [str(_HERE.parent)]
    sys.modules[_ABOVE] = module_from_spec(_spec)
    import_module(NAME)
