#!/usr/bin/env bash
# Sets .venv-models up: PyTorch, transformers and what else trains and checks models, apart from .venv for their size.
# Does nothing when the locks are those of the last run. It is made with the interpreter of .venv.
set -euo pipefail
cd "$(dirname "$0")/.."

environment=.venv-models
python=$environment/bin/python
uv=.venv/bin/uv

# A stamp says what it was made from, and where: a virtual environment does not survive a move.
stamp=$({ pwd && cat tooling/install_models.sh requirements/models*.txt pyproject.toml constructs_optim_local/pyproject.toml; } |
  { sha256sum 2>/dev/null || shasum -a 256; } | cut -d' ' -f1)
if [ "$(cat $environment/.installed 2>/dev/null)" = "$stamp" ] && $python -c 'import torch' 2>/dev/null; then
  exit
fi

with_pip() {
  $python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --requirement "$1"
}

# uv does not read pip's configuration: behind a mirror that only pip knows, pip takes over.
with_uv_or_pip() {
  $uv pip install --quiet --compile-bytecode --python $python --no-deps --require-hashes --requirement "$1" ||
    { echo "uv could not install $1; trying pip" >&2 && with_pip "$1"; }
}

echo "Creating $environment with $(.venv/bin/python --version)"
rm -rf $environment
.venv/bin/python -m venv $environment
with_uv_or_pip requirements/models.txt
# The builds for the CPU are found where pip is told of them (find-links, or an index of PyTorch's).
if ! with_pip requirements/models-torch-cpu.txt 2>/dev/null; then
  echo "pip finds no build of PyTorch for the CPU; installing PyPI's, which on Linux brings CUDA (some 3 GB)"
  with_uv_or_pip requirements/models-torch.txt
fi
$uv pip install --quiet --python $python --no-deps --no-build-isolation --editable . --editable constructs_optim_local
echo "$stamp" >$environment/.installed
