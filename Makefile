# Commands for developers. Each target first makes the virtual environment it needs; a second run starts at once.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# Number of pytest processes: more than cores, as many tests wait for processes that they start. Tests of one file run one after
# another.
PROCESSES ?= 4

# A fast test that hangs for five minutes ends its process, by a timer of the interpreter. The thread that other tests have for it
# takes longer to start than most fast tests take.
ONE_TIMER := -o timeout=0 -o faulthandler_timeout=300 -o faulthandler_exit_on_timeout=true
# A file whose process ends is run again, but not for ever.
PARALLEL := --numprocesses $(PROCESSES) --dist loadfile --max-worker-restart 2
FAST := -m "not slow and not integration" $(PARALLEL) $(ONE_TIMER)

# `make lowest` uses the oldest Python that is supported, because the oldest releases of other libraries can be installed only there.
LOWEST_PYTHON ?= python3.11
LOWEST_TESTS ?= tests

# `make pythons` runs these tests on these Pythons.
PYTHONS ?= 3.11 3.12 3.13 3.14
PYTHONS_TESTS ?= tests

# `make dist` runs these tests on the wheel.
DIST_TESTS := $(addprefix tests/, test_typed.py cli/test_help.py cli/test_report.py maths/selection storage/artifacts \
	strategies/test_certificate.py)

DOCS_STAMP := .docs-venv/.installed

BARE_TESTS := $(addprefix tests/, integration/test_mpi.py integration/test_slurm.py integration/test_page_in_browser.py)

.PHONY: install demo paper test test-integration test-bare test-slow coverage lowest pythons lint audit docs dist format bench bench-peers head-to-head head-to-head-lock lock clean

install: $(STAMP)

$(STAMP): requirements.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python -r requirements.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .
	touch $(STAMP)

demo: install
	$(BIN)/spae demo --output spae-demo --force

paper: install
	$(BIN)/spae run pipelines/paper.toml

# Tests start hundreds of processes, none of which should compile the package again.
test test-integration test-slow: export PYTHONDONTWRITEBYTECODE =

test: install
	$(BIN)/python -m pytest $(FAST)

# Real services and clusters, and processes that are killed: what `make test` reaches once each, at length.
test-integration: install
	$(BIN)/python -m pytest -m "integration and not slow" $(PARALLEL) tests/integration

# Lines and branches of the package that `make test` reaches; pyproject.toml has the least share. The page is build/coverage/index.html.
coverage: export PYTHONDONTWRITEBYTECODE =
coverage: install
	$(BIN)/python -m pytest $(FAST) \
		--cov --cov-report=term:skip-covered --cov-report=html:build/coverage

# Tests that import every module, and tests of programs that a machine may lack. Run them on a machine that has only Python, pip
# and make.
test-bare: install
	$(BIN)/python -m pytest -m "not slow" --quiet --collect-only > /dev/null
	$(BIN)/python -m pytest -m "not slow" --quiet -rs $(BARE_TESTS)

test-slow: install
	$(BIN)/python -m pytest -m slow -rs

# The fast tests with the oldest releases that pyproject.toml allows for users; libraries that it does not name, and tools, are the
# newest. Run it when you change a lower bound, or use a new function of a library. It ignores deprecation warnings, because newer
# libraries give them to the old ones. scikit-learn 1.6 needs the variable where array-api-compat is installed.
lowest: export SCIPY_ARRAY_API = 1
lowest: export PYTHONDONTWRITEBYTECODE =
lowest: pyproject.toml
	$(LOWEST_PYTHON) -m venv .lowest-venv
	.lowest-venv/bin/pip install --quiet uv
	.lowest-venv/bin/uv pip compile --quiet --resolution lowest-direct --extra all --output-file .lowest-venv/lowest.txt \
		pyproject.toml
	.lowest-venv/bin/uv pip install --quiet --python .lowest-venv --requirement .lowest-venv/lowest.txt --editable '.[dev]'
	.lowest-venv/bin/python -m pytest $(FAST) -W ignore::DeprecationWarning $(LOWEST_TESTS)
	rm -rf .lowest-venv

# The fast tests on each Python of the list, with the locked libraries. uv takes an interpreter of this machine or of pyenv, or
# downloads one; a Python that it cannot get is skipped with a line that says so.
pythons: requirements.lock pyproject.toml
	$(PYTHON) -m venv .pythons-venv
	.pythons-venv/bin/pip install --quiet uv
	for version in $(PYTHONS); do \
		found=$$(ls "$$(pyenv root 2> /dev/null)"/versions/$$version.*/bin/python$$version 2> /dev/null | tail -n 1); \
		if .pythons-venv/bin/uv venv --quiet --clear --python "$${found:-$$version}" .pythons-venv/$$version; then \
			.pythons-venv/bin/uv pip install --quiet --python .pythons-venv/$$version -r requirements.lock -e . || exit 1; \
			.pythons-venv/$$version/bin/python -m pytest $(FAST) $(PYTHONS_TESTS) || exit 1; \
		else \
			echo "SKIPPED: this machine has no Python $$version, and uv cannot get it"; \
		fi; \
	done
	rm -rf .pythons-venv

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pip check
	$(BIN)/python -m pytest -q tests/test_dependencies.py

audit: install
	$(PYTHON) -m venv .audit-venv
	.audit-venv/bin/pip install --quiet pip-audit
	.audit-venv/bin/pip-audit --disable-pip --no-deps --requirement requirements.lock
	rm -rf .audit-venv

# The site, in build/docs. A warning, such as a link that leads nowhere, is an error.
docs: $(DOCS_STAMP)
	.docs-venv/bin/python -m sphinx -W --keep-going -q -E -c docs/site . build/docs

$(DOCS_STAMP): docs/site/requirements.txt requirements.lock pyproject.toml
	$(PYTHON) -m venv .docs-venv
	.docs-venv/bin/pip install --quiet --disable-pip-version-check --constraint requirements.lock \
		--requirement docs/site/requirements.txt ".[anndata,report,xarray]"
	touch $(DOCS_STAMP)

# The sdist, and the wheel made of it. The wheel is tried in a fresh environment, in a folder that has the tests of the sdist and
# not its package: the demo, and tests that reach every part once.
dist: install
	rm -rf dist .dist-venv
	$(BIN)/python -m build --no-isolation
	$(PYTHON) -m venv .dist-venv
	.dist-venv/bin/pip install --quiet --disable-pip-version-check --constraint requirements.lock \
		"$$(echo dist/*.whl)[demo]" hypothesis 'moto[s3,server]' mypy packaging pytest pytest-timeout
	mkdir .dist-venv/away
	tar -xzf dist/*.tar.gz -C .dist-venv/away --strip-components 1 --exclude 'spae_dask-*/spae_dask'
	cd .dist-venv/away && ../bin/spae demo
	cd .dist-venv/away && ../bin/python -m pytest -q -m "not slow" $(DIST_TESTS)
	rm -rf .dist-venv

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: install
	$(BIN)/python -m benchmarks.bench_passes --markdown benchmarks/README.md
	$(BIN)/python -m benchmarks.scale --size quick
	$(BIN)/python -m benchmarks.quality --size full --markdown
	$(BIN)/python -m benchmarks.lower_bound --markdown
	$(BIN)/python -m benchmarks.coverage --markdown
	$(BIN)/python -m benchmarks.certificates --markdown
	$(BIN)/python -m benchmarks.plan_accuracy --markdown
	$(BIN)/python -m benchmarks.reliability --markdown
	$(BIN)/python -m benchmarks.scheduling --markdown
	$(BIN)/python -m benchmarks.extracts

# The tools of the field beside ours. Run it while nothing else runs; it takes a quarter of an hour.
bench-peers: install
	$(BIN)/python -m benchmarks.field --markdown
	$(BIN)/python -m benchmarks.extracts

# Other tools on their own metrics, in an environment of their own. It takes half an hour, most of it for gene panels.
HEAD_TO_HEAD := benchmarks/head_to_head
PEERS_STAMP := .peers-venv/.installed

head-to-head: $(PEERS_STAMP)
	.peers-venv/bin/python -m benchmarks.head_to_head.sensors
	.peers-venv/bin/python -m benchmarks.head_to_head.reconstruction
	.peers-venv/bin/python -m benchmarks.head_to_head.sparse_pca
	.peers-venv/bin/python -m benchmarks.head_to_head.gene_panels
	.peers-venv/bin/python -m benchmarks.extracts

$(PEERS_STAMP): $(HEAD_TO_HEAD)/requirements.txt pyproject.toml
	$(PYTHON) -m venv .peers-venv
	.peers-venv/bin/pip install --quiet --disable-pip-version-check --requirement $(HEAD_TO_HEAD)/requirements.txt
	.peers-venv/bin/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $(PEERS_STAMP)

head-to-head-lock: pyproject.toml
	$(PYTHON) -m venv .lock-venv
	.lock-venv/bin/pip install --quiet uv
	.lock-venv/bin/uv pip compile --quiet --upgrade --no-annotate --no-header --universal --extra anndata --extra xarray \
		--group build --output-file $(HEAD_TO_HEAD)/requirements.txt $(HEAD_TO_HEAD)/requirements.in pyproject.toml
	rm -rf .lock-venv

lock: pyproject.toml
	$(PYTHON) -m venv .lock-venv
	.lock-venv/bin/pip install --quiet uv
	.lock-venv/bin/uv pip compile --quiet --upgrade --no-annotate --all-extras --no-header --universal \
		--group build --output-file requirements.lock pyproject.toml
	rm -rf .lock-venv

clean:
	rm -rf $(VENV) .docs-venv .peers-venv spae-demo pipelines/results pipelines/data/made dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
