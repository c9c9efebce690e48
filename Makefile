# `make demo` and `make test` are all a newcomer needs: both set up .venv by themselves and are quick the second time.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One more than there are cores: tests also wait, for servers, a cluster, disks and processes that they end.
JOBS ?= $(shell echo $$(( $$(nproc 2>/dev/null || echo 2) + 1 )))
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test check soak spark35 lint docs reference bench scale measure clean
# Tests start hundreds of processes: what these import is parsed once, also where the shell says otherwise.
unexport PYTHONDONTWRITEBYTECODE

demo: $(VENV)/.installed
	$(BIN)/gristmill demo

# Both at once: mypy alone would leave all cores but one idle for a minute.
test: $(VENV)/.tested
	$(MAKE) --no-print-directory --jobs 2 lint check

# Among the tests, tests/bare builds the wheel, installs it without extras into .venv-bare, and runs the demo and every
# command of the README and the docs there.
# Kernels are compiled first: else each of pytest's processes, and the bare environment, would do it for itself.
check: $(VENV)/.tested
	$(BIN)/gristmill warm
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

# Hours of what `make test` does in minutes: fuzzed parsers, flipped bytes, kills and failed system calls.
soak: $(VENV)/.tested
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal --soak --record benchmarks/results/reliability \
	  tests/fuzz tests/soak tests/faults tests/remote/test_prepare.py tests/remote/test_faults.py \
	  tests/adapters/test_stream_resume.py tests/examples/test_train_gpt.py \
	  tests/stages/test_work_elsewhere.py tests/stages/test_spark_bytes.py tests/stages/test_spark_elsewhere.py \
	  tests/core/test_bounds.py tests/sources/test_arrow_outline.py
	$(BIN)/python benchmarks/reliability.py

# The oldest Spark that is promised: its tests with pyspark 3.5, in an environment over .venv.
spark35: $(VENV)/.tested
	PYTHON=$(PYTHON) bash tests/spark35.sh

lint: $(VENV)/.tested
	$(BIN)/ruff check src tests benchmarks examples docs/*.py
	$(BIN)/ruff format --check src tests benchmarks examples docs/*.py
	$(BIN)/mypy
	$(BIN)/lint-imports

# The documents as a site in build/site: warnings are errors, and no network is needed to build it or to look at it.
docs: $(VENV)/.tested
	$(BIN)/python docs/build.py

# The pages of the reference, from the code as it is now.
reference: $(VENV)/.tested
	$(BIN)/python docs/reference.py

# The loaders and the writing half against their peers; `scale` for a trillion tokens, 20 million documents
# and 5 GB of text.
# What the tests install is needed too: torch, torchdata and datasets, at the same versions.
bench: $(VENV)/.tested
	PYTHON=$(PYTHON) bash benchmarks/setup_peers.sh
	$(BIN)/python benchmarks/loader.py
	$(BIN)/python benchmarks/torch_loaders.py
	$(BIN)/python benchmarks/cold.py
	$(BIN)/python benchmarks/augment.py
	$(BIN)/python benchmarks/arrow.py
	$(BIN)/python benchmarks/streams.py
	$(BIN)/python benchmarks/stream_threads.py
	$(BIN)/python benchmarks/far_streams.py
	$(BIN)/python benchmarks/spark.py
	$(BIN)/python benchmarks/remote.py
	$(BIN)/python benchmarks/simulate.py
	$(BIN)/python benchmarks/pack_ranges.py
	$(BIN)/python benchmarks/search.py
	PYTHON=$(PYTHON) bash benchmarks/setup_datatrove.sh
	$(BIN)/python benchmarks/curate.py

# The house in figures: lines, knots, types, tests; and one document and one step, traced through its rooms.
# Both scripts take `--against COMMIT`.
measure: $(VENV)/.installed
	$(BIN)/python benchmarks/measure.py
	$(BIN)/python benchmarks/walk.py

scale: $(VENV)/.tested
	$(BIN)/python benchmarks/scale.py
	$(BIN)/python benchmarks/dedup_scale.py
	$(BIN)/python benchmarks/curate_scale.py
	$(BIN)/python benchmarks/stream_scale.py
	for kind in jsonl tar; do for count in 0 2; do \
	  $(BIN)/python benchmarks/stream_scale.py --hour $$kind --workers $$count || exit 1; done; done
	$(BIN)/python benchmarks/spark_stream_scale.py
	$(BIN)/python benchmarks/spark_driver_scale.py
	$(BIN)/python benchmarks/crowd_scale.py
	$(BIN)/python benchmarks/report_scale.py
	$(BIN)/python benchmarks/ledger.py

$(VENV)/.created:
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.installed: $(VENV)/.created pyproject.toml constraints.txt
	$(PIP) -c constraints.txt -e .
	touch $@

# torch first and pinned, so that no peer pulls another build of it.
$(VENV)/.tested: $(VENV)/.installed tests/requirements.txt docs/requirements.txt
	bash tests/find_java.sh
	bash tests/find_chromium.sh
	$(PIP) -c constraints.txt torch==2.13.0
	$(PIP) -c constraints.txt -e '.[dev]' -r tests/requirements.txt
	touch $@

clean:
	rm -rf $(VENV) .venv-bare* .venv-bench .venv-spark35 benchmarks/data build/pages build/site .cache
