#!/usr/bin/env bash
# Sets .venv-engine up: vLLM built for CPUs, and SGLang, whose argument parsers make conformance asks. For Linux on
# x86-64.
# Does nothing when the locks are those of the last run.
set -euo pipefail
cd "$(dirname "$0")/.."

environment=.venv-engine
python=$environment/bin/python
stamp=$({ pwd && cat tooling/install_engine.sh constructs_optim/dry_start/{prepare_engine,torchvision_operators}.py requirements/{engine,engine-kernels,sglang,models-torch-cpu}.txt; } |
  { sha256sum 2>/dev/null || shasum -a 256; } | cut -d' ' -f1)
if [ "$(cat $environment/.installed 2>/dev/null)" = "$stamp" ]; then
  exit
fi

echo "Creating $environment with $(.venv/bin/python --version)"
rm -rf $environment
.venv/bin/python -m venv $environment
for file in requirements/engine.txt requirements/sglang.txt requirements/models-torch-cpu.txt; do
  $python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --requirement $file
done
# Not among vLLM's own packages: it would use them without a GPU.
$python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --target $environment/gpu \
  --requirement requirements/engine-kernels.txt
$python constructs_optim/dry_start/prepare_engine.py
echo "$stamp" >$environment/.installed
