"""Print the library's size, for notes on changes: lines by package, snapshots, and folders with many files."""

from __future__ import annotations

import sys
from pathlib import Path

_CHECKOUT = Path(__file__).resolve().parent.parent
_LIBRARY = _CHECKOUT / "constructs_optim"
_LOCAL = _CHECKOUT / "constructs_optim_local"
_APART = "training"
"""The training code, which is counted separately, like the local cloud."""
_MANY_FILES = 12


def main() -> None:
    """Print the figures."""
    packages = sorted(path for path in _LIBRARY.iterdir() if (path / "__init__.py").exists())
    lines = {path.name: _lines(path) for path in packages}
    of_library = _lines(_LIBRARY) - lines[_APART]
    for name, count in sorted(lines.items(), key=lambda item: -item[1]):
        _say(f"{count:7,}  constructs_optim/{name}")
    _say(f"{of_library:7,}  lines of Python, without {_APART}")
    _say(f"{_lines(_LOCAL):7,}  lines of Python in {_LOCAL.name}")
    _say(f"{_lines(_CHECKOUT / 'tests'):7,}  lines of Python in tests")
    snapshots = [path for path in (_CHECKOUT / "tests").rglob("__snapshots__/**/*") if path.is_file()]
    _say(f"{sum(path.stat().st_size for path in snapshots) / 1e6:7.1f}  MB in {len(snapshots)} snapshots")
    for folder in sorted({path.parent for library in (_LIBRARY, _LOCAL) for path in library.rglob("*.py")}):
        if (count := len(list(folder.glob("*.py")))) > _MANY_FILES:
            _say(f"{count:7}  Python files at the top of {folder.relative_to(_CHECKOUT)}")


def _lines(folder: Path) -> int:
    return sum(len(path.read_text().splitlines()) for path in folder.rglob("*.py"))


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    main()
