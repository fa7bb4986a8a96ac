#!/usr/bin/env bash
# Sets .venv-quantization up: what a job that quantizes models installs, over the packages of .venv-models, which stand
# for those of PyTorch's image. Does nothing when the locks are those of the last run.
set -euo pipefail
cd "$(dirname "$0")/.."

environment=.venv-quantization
python=$environment/bin/python
requirements=constructs_optim/training/quantizing.txt
stamp=$({ pwd && cat tooling/install_quantizer.sh $requirements .venv-models/.installed; } |
  { sha256sum 2>/dev/null || shasum -a 256; } | cut -d' ' -f1)
if [ "$(cat $environment/.installed 2>/dev/null)" = "$stamp" ]; then
  exit
fi

echo "Creating $environment with $(.venv/bin/python --version)"
rm -rf $environment
.venv/bin/python -m venv $environment
# uv does not read pip's configuration: behind a mirror that only pip knows, pip takes over.
.venv/bin/uv pip install --quiet --compile-bytecode --python $python --no-deps --require-hashes --requirement $requirements ||
  $python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --requirement $requirements
# A path of a .pth file comes after the environment's own packages.
packages=$($python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
.venv-models/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' >"$packages/image.pth"
echo "$stamp" >$environment/.installed
