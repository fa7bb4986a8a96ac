"""``npm`` as builds have it: nothing is installed globally, for the programs are this machine's.

``npm install --global NAME[@VERSION] ...`` succeeds where the PATH has the program already, as pip does with what is
there, and fails otherwise with a sentence that says what to do. All else is the npm that the PATH has. Standard library
only: it is started as a file.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

_INSTALLS = {"add", "i", "in", "ins", "inst", "insta", "instal", "install"}
_GLOBAL = {"-g", "--global", "--location=global"}


def main() -> int:
    """Answer a global installation, or run the npm behind this one."""
    own = Path(sys.argv[1])
    arguments = sys.argv[2:]
    path = os.pathsep.join(item for item in os.environ.get("PATH", "").split(os.pathsep) if Path(item) != own)
    if arguments and arguments[0] in _INSTALLS and _GLOBAL & set(arguments):
        return _look_for([item for item in arguments[1:] if not item.startswith("-")], path)
    real = shutil.which("npm", path=path)
    if real is None:
        sys.stderr.write("npm: the local cloud's builds have none: none of the folders of build_path has it\n")
        return 127
    return subprocess.call([real, *arguments])


def _look_for(packages: list[str], path: str) -> int:
    missing = list[str]()
    for package in packages:
        name = package[0] + package[1:].partition("@")[0]
        # The CDK CLI's package is the one of these whose program has another name.
        program = {"aws-cdk": "cdk"}.get(name, name.rpartition("/")[2])
        if found := shutil.which(program, path=path):
            sys.stdout.write(f"{name} is there already: {found}\n")
        else:
            missing.append(f"{name} (program {program})")
    if missing:
        sys.stderr.write(
            f"The local cloud's builds install nothing globally, and none of their folders has {', '.join(missing)}: "
            "install it on this machine and name its folder in build_path\n"
        )
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
