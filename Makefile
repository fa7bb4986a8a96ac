SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: release help install catalog models demo test cloud unit package docs pages medusa e2e typescript jsii nightly exhaustive mutants verdicts faults explore conformance handlers lint format lock bench peer clients clean lint-code lint-templates

USERS_PATH := $(PATH)
# An activated .venv, in effect: its Python, its Node, the CDK CLI of node_modules.
export PATH := $(CURDIR)/.venv/bin:$(PATH)
export JSII_NODE := $(CURDIR)/.venv/bin/node
# aws_cdk takes seconds to compile: let Python keep the result.
unexport PYTHONDONTWRITEBYTECODE

help: ## say what there is
	@grep -E '^[a-z0-9]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9]+):.*## (.*)/  make \1\t\2/' | expand -t 18

install: ## set the checkout up (quick when nothing changed)
	@tooling/install.sh

models: install ## set .venv-models and .venv-quantization up: PyTorch and more, for the training code and its tests
	@tooling/install_models.sh
	@tooling/install_quantizer.sh

catalog: install ## write the catalog's generated files anew from their pinned sources (15 GB)
	@tooling/refresh_catalog.sh .catalog

# Small models do not gain from more threads than one.
MODELS_PYTEST = OMP_NUM_THREADS=1 .venv-models/bin/python -m pytest tests/training --numprocesses 2 --dist loadfile

medusa: install models ## the tests that train and decode, training jobs of the local cloud among them
	@$(MODELS_PYTEST) -m "not exhaustive"
	@$(PYTEST) -m "trains and not exhaustive" tests/e2e tests/pages

demo: install ## deploy app.py to a local cloud with the CDK CLI, and show what came of it
	@# With the user's PATH, so that the commands that it prints work in the user's shell.
	@PATH="$(USERS_PATH)" .venv/bin/constructs-optim local demo

# In random order within files, whose seed is printed. A file at a time, so that what its tests share is set up once,
# those with most tests first, so that no long one is left at the end; four at once, because some tests wait for servers.
PYTEST = pytest --numprocesses 4 --dist loadfile

IN_TEST = not lint and not e2e and not engine and not exhaustive and not trains and not package

test: install ## the test suite, without what make lint, cloud, e2e, medusa, package, docs and nightly run
	@# Some wait for servers and for jsii: on two cores, a third process is worth what it costs, and a fourth is not.
	@$(PYTEST) --numprocesses 3 -m "$(IN_TEST)" \
	  $(addprefix --ignore tests/,docs e2e faults local package training constructs/test_examples.py constructs/test_example_files.py)

cloud: install ## the tests of the local cloud
	@$(PYTEST) --numprocesses 3 -m "$(IN_TEST)" tests/local

e2e: install clients typescript/lib/index.js ## the tests that deploy with the CDK CLI or run whole programs otherwise
	@# Files with few tests take longest, so tests/conftest.py says which ones come first.
	@$(PYTEST) --no-loadscope-reorder -m "e2e and not exhaustive and not trains" tests/e2e tests/faults tests/cli/test_evaluate.py \
	  tests/local/test_training_jobs.py tests/local/test_training_hosts.py tests/local/test_serving.py \
	  tests/local/test_pytest_plugin.py tests/cli/test_main.py tests/cli/test_aws.py tests/evaluator/test_report.py

typescript: install typescript/lib/index.js ## the construct for TypeScript: built, and tested with the CDK CLI on a local cloud
	@cd typescript && npm test --silent

jsii: typescript ## its packages for npm and Python, and its sources for Java, C# and Go, in typescript/dist
	@# Not by npm, whose PATH has another one before this.
	@cd typescript && node node_modules/.bin/jsii-pacmak --targets js python && \
	  node node_modules/.bin/jsii-pacmak --targets java dotnet go --code-only

typescript/lib/index.js: typescript/node_modules/.installed typescript/package.json $(wildcard typescript/src/*.ts)
	@cd typescript && npm run --silent build && touch lib/index.js

typescript/node_modules/.installed: typescript/package-lock.json
	@cd typescript && npm ci --silent && touch node_modules/.installed

nightly: exhaustive mutants verdicts faults explore conformance handlers ## what takes longest, for before a release

exhaustive: install models peer clients typescript/lib/index.js ## the tests that take long, or try every case of something
	@# As in make e2e: the longest first.
	@$(PYTEST) --no-loadscope-reorder -m exhaustive
	@HYPOTHESIS_PROFILE=thorough $(PYTEST) -m "hypothesis and not exhaustive and not engine"
	@$(MODELS_PYTEST) -m exhaustive

package: install typescript/lib/index.js ## the wheels and the source distributions, built into dist/ and tried in clean environments
	@$(PYTEST) --numprocesses 2 -m "package and not exhaustive" tests/package

release: package ## the distributions checked as package indexes do, and a software bill of materials, in dist/
	@uv venv --quiet --allow-existing .venv-release
	@uv pip sync --quiet --python .venv-release --require-hashes requirements/release.txt
	@.venv-release/bin/twine check --strict dist/*.whl dist/*.tar.gz
	@uv venv --quiet --clear .venv-sbom
	@uv pip install --quiet --python .venv-sbom --override requirements/overrides.in dist/*.whl \
	  "constructs-optim[local,evaluate,plots,mcp] @ $$(ls dist/constructs_optim-*.whl | head -1)"
	@.venv-release/bin/cyclonedx-py environment --pyproject pyproject.toml --mc-type library --output-reproducible \
	  --validate --output-file dist/constructs-optim.cdx.json .venv-sbom
	@python tooling/bill_of_materials.py dist/constructs-optim.cdx.json

unit: install ## the tests that need no local cloud
	@pytest -m "not local and not e2e and not package and not engine and not exhaustive and not trains"

docs: install ## the site of docs/, in site/, where a warning is an error; snippets are run, examples are checked
	@uv venv --quiet --allow-existing .venv-docs
	@uv pip sync --quiet --python .venv-docs --require-hashes requirements/docs.txt
	@# Not --quiet: what is not logged is not counted as a warning.
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/properdocs build --strict
	@pytest tests/docs tests/constructs/test_examples.py tests/constructs/test_example_files.py -m "not exhaustive" --numprocesses 3

pages: install typescript/lib/index.js ## the pages' commands, run from empty directories in the environments that the pages install
	@$(PYTEST) --numprocesses 2 --dist load -m "e2e and not trains" tests/pages

handlers: install ## size and cold starts of the Lambda handlers, against their targets
	@python bench/handlers.py

mutants: install ## 200 mutants of recipe, constructs and runtime, drawn anew each week: whether a test notices them
	@python -m tooling.mutants $(if $(SEED),--seed $(SEED))

verdicts: install ## how often gates, shadows and comparisons decide wrongly, in 200 simulated runs of each kind of traffic
	@python bench/verdicts/rates.py

faults: install ## every fault at every step of a deployment, and the figures that come of it
	@python -m tests.faults

explore: install ## millions of interleavings of handlers, watchers and prune, in memory (about five minutes)
	@python -m tests.explore

conformance: install models ## what the SageMaker SDK asks for, recorded anew and compared; every plan's arguments, asked of vLLM and SGLang
	@for sdk in 2 3; do \
	  uv venv --quiet --allow-existing .venv-conformance-$$sdk; \
	  uv pip sync --quiet --python .venv-conformance-$$sdk --require-hashes requirements/conformance-$$sdk.txt; \
	  .venv-conformance-$$sdk/bin/python tests/conformance/record.py tests/conformance/recorded/sagemaker-$$sdk.json 2>/dev/null; \
	done
	@git diff --exit-code --stat tests/conformance/recorded
	@tooling/install_engine.sh
	@pytest --quiet tests/conformance

lint: install models ## all static checks
	@# Two at a time; where make already runs several targets at a time, these are two of them.
	@$(MAKE) --no-print-directory $(if $(findstring jobserver,$(MAKEFLAGS)),,--jobs 2) --output-sync=target lint-code lint-templates

lint-code:
	ruff check
	ruff format --check
	pyright
	pyright --pythonpath .venv-models/bin/python $(filter-out %/quantizing.py,$(wildcard constructs_optim/training/*.py)) \
	  constructs_optim/training/*/*.py constructs_optim/cli/medusa.py bench/medusa.py
	pyright --pythonpath .venv-quantization/bin/python constructs_optim/training/quantizing.py
	lint-imports
	typos
	pre-commit validate-config

lint-templates:
	@cdk synth --quiet --output cdk.out/lint >/dev/null
	cfn-lint cdk.out/lint/*.template.json
	pytest --quiet -m lint tests/constructs

format: install ## format the code, and fix what can be fixed automatically
	@ruff check --fix --quiet || true
	@ruff format

lock: install ## look for newer versions of everything that is pinned
	@uv pip compile --quiet --upgrade --universal --generate-hashes --no-header --no-emit-index-url --python-version 3.11 \
	  requirements/uv.in --output-file requirements/uv.txt
	@uv pip compile --quiet --upgrade --universal --generate-hashes --no-header --no-emit-index-url --python-version 3.11 \
	  pyproject.toml --extra local --group dev --no-emit-package constructs-optim-local --override requirements/overrides.in --output-file requirements/dev.txt
	@uv pip compile --quiet --upgrade --universal --generate-hashes --no-header --no-emit-index-url --python-version 3.11 \
	  requirements/models.in --constraint requirements/dev.txt --excludes requirements/models-gpu-packages.txt \
	  --no-emit-package torch --output-file requirements/models.txt
	@uv pip compile --quiet --upgrade --universal --generate-hashes --no-header --no-emit-index-url --python-version 3.11 \
	  requirements/models-torch.in --constraint requirements/models.txt --output-file requirements/models-torch.txt
	@# All that a training container installs: what PyTorch's image brings is not named, and pip looks for nothing else.
	@{ echo "# What a training container needs beside PyTorch, which its image brings: make lock writes it."; echo --require-hashes; \
	  uv pip compile --no-progress --upgrade --universal --generate-hashes --no-header --no-annotate --no-emit-index-url \
	    --python-version 3.11 requirements/medusa.in --constraint requirements/models.txt \
	    --excludes requirements/models-gpu-packages.txt --no-emit-package torch --no-emit-package mpmath \
	    --no-emit-package networkx --no-emit-package setuptools --no-emit-package sympy 2>/dev/null; \
	} > constructs_optim/training/requirements.txt
	@{ echo "# What a container that copies models needs: make lock writes it."; echo --require-hashes; \
	  uv pip compile --no-progress --upgrade --universal --generate-hashes --no-header --no-annotate --no-emit-index-url \
	    --python-version 3.11 requirements/copying.in --constraint requirements/dev.txt 2>/dev/null; \
	} > constructs_optim/training/copying.txt
	@{ echo "# What a container that quantizes models needs beside PyTorch, which its image brings: make lock writes it."; \
	  echo --require-hashes; uv pip compile --no-progress --upgrade --universal --generate-hashes --no-header --no-annotate \
	    --no-emit-index-url --python-version 3.11 requirements/quantizing.in --excludes requirements/models-gpu-packages.txt \
	    --no-emit-package torch --no-emit-package mpmath --no-emit-package networkx --no-emit-package setuptools \
	    --no-emit-package sympy 2>/dev/null; \
	} > constructs_optim/training/quantizing.txt
	@# PyTorch's build for the CPU is that of requirements/models-torch-cpu.txt.
	@uv pip compile --quiet --upgrade --generate-hashes --no-header --no-emit-index-url --python-version 3.11 \
	  --python-platform x86_64-manylinux_2_28 requirements/engine.in --override requirements/engine-overrides.in \
	  --excludes requirements/engine-excluded.txt --no-emit-package torch --output-file requirements/engine.txt
	@# The same versions for dry starts, which install them with pip's index of the user.
	@{ echo "# vLLM's build for CPUs and all that it needs, as requirements/engine.txt locks them: make lock writes it."; \
	  grep '^torch==' requirements/engine-overrides.in; grep -oE '^[A-Za-z0-9_.-]+==[^ ;]+' requirements/engine.txt; \
	} > constructs_optim/dry_start/engine_packages.txt
	@uv pip compile --quiet --upgrade --generate-hashes --no-header --no-emit-index-url --python-version 3.11 --no-deps \
	  --python-platform x86_64-manylinux_2_34 requirements/sglang.in --output-file requirements/sglang.txt
	@uv pip compile --quiet --upgrade --generate-hashes --no-header --no-emit-index-url --python-version 3.11 --no-deps \
	  --python-platform x86_64-manylinux_2_34 requirements/engine-kernels.in --output-file requirements/engine-kernels.txt
	@for sdk in 2 3; do uv pip compile --quiet --upgrade --generate-hashes --no-header --no-emit-index-url --python-version 3.11 \
	  requirements/conformance-$$sdk.in --output-file requirements/conformance-$$sdk.txt; done
	@uv pip compile --quiet --upgrade --universal --generate-hashes --no-header --no-emit-index-url --python-version 3.11 \
	  requirements/peer.in --output-file requirements/peer.txt
	@uv pip compile --quiet --upgrade --universal --generate-hashes --no-header --no-emit-index-url --python-version 3.11 \
	  requirements/clients.in --output-file requirements/clients.txt
	@uv pip compile --quiet --upgrade --universal --generate-hashes --no-header --no-emit-index-url --python-version 3.11 \
	  requirements/release.in --output-file requirements/release.txt
	@uv pip compile --quiet --upgrade --universal --generate-hashes --no-header --no-emit-index-url --python-version 3.11 \
	  requirements/docs.in --output-file requirements/docs.txt
	@npm update --package-lock-only --silent
	@cd typescript && npm update --package-lock-only --silent

bench: install peer ## how long synth takes, against raw L1 constructs and the peer's
	@python bench/synth.py

peer: install ## set .venv-peer up: other libraries' constructs, for bench and nightly
	@uv venv --quiet --allow-existing .venv-peer
	@uv pip sync --quiet --python .venv-peer --require-hashes requirements/peer.txt

clients: install ## set .venv-clients up: clients of endpoints, for e2e
	@uv venv --quiet --allow-existing .venv-clients
	@uv pip sync --quiet --python .venv-clients --require-hashes requirements/clients.txt

clean: ## remove all that install and the other targets made
	@rm -rf .venv .venv-clients .venv-conformance-* .venv-models .venv-quantization .venv-peer .venv-release .venv-sbom .venv-docs .venv-engine dist site node_modules typescript/node_modules typescript/lib typescript/dist cdk.out .mutants .pytest_cache .ruff_cache .hypothesis .import_linter_cache
