# Everything from a fresh clone, with Python 3.11+, a Java 17+ runtime and make. Each target sets up what it needs.

VENV    := .venv
BIN     := $(VENV)/bin
STAMPS  := $(VENV)/stamps
JAVA    := $(STAMPS)/java
TOOLS   := $(STAMPS)/tools
RUNTIME := $(STAMPS)/runtime
DEV     := $(STAMPS)/dev
CLASSES := $(VENV)/spark-classes.jsa

# More test processes than cores: three wait for brokers and JVMs a good part of their time, and one computes meanwhile.
TEST_WORKERS ?= 4
# More arguments for pytest, such as: make test TESTS='tests/unit -k crc'
TESTS ?=

# uv installs in 30 s what pip takes 75 s for; pip is there for those whose mirror only pip knows.
install = $(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes --no-deps -r $(1) \
       || $(BIN)/python -m pip install --quiet --require-hashes --no-deps -r $(1)

.PHONY: help setup demo quick test soak soak-parts sim bench scale lint docs pictures lock clean
.DELETE_ON_ERROR:

help: ## Say what there is
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

setup: $(RUNTIME) $(JAVA) ## Install offsite into .venv

demo: $(JAVA) $(RUNTIME) ## Back up a real Kafka, lose it, restore it, compare
	@$(BIN)/offsite demo

# Hundreds of processes import the same: what Python compiled is kept, also where the environment says not to.
quick test soak bench scale: export PYTHONDONTWRITEBYTECODE =
quick test soak bench scale: export PYTHONPYCACHEPREFIX = $(CURDIR)/$(VENV)/pycache

# Without brokers and Spark, without what is slow, with a tenth of the random examples of `make test`.
quick: export QUICK_TESTS = yes
quick: $(DEV) ## Run the unit and contract tests, in two minutes
	@$(BIN)/python -m pytest -n 3 --dist worksteal -m "not soak and not slow" tests/unit tests/contract $(TESTS)

test: $(JAVA) $(DEV) $(CLASSES) ## Run all tests but the long ones
	@$(BIN)/python -m pytest -n $(TEST_WORKERS) --dist loadfile --no-loadscope-reorder -m "not soak" $(TESTS)

# With PART=name one part, which ends within half an hour; all of them take a day.
soak: $(JAVA) $(DEV) $(CLASSES) ## Run the long tests
	@$(BIN)/python -m pytest -m soak $(if $(PART),--part $(PART)) $(TESTS)

soak-parts: $(DEV) ## List the parts of the long tests
	@$(BIN)/python -m tests.soak_parts

# With SEED=n one course of events, printed; with SEEDS=n so many; with WORLD=processor or WORLD=source one world alone.
sim: $(DEV) ## Play checkpoints, backups and retention under faults, by seeds
	@$(BIN)/python -m tests.simulation $(if $(WORLD),--world $(WORLD)) $(if $(SEED),--seed $(SEED)) $(if $(SEEDS),--seeds $(SEEDS))

bench: $(JAVA) $(DEV) ## Measure throughput and start-up
	@$(BIN)/python -m bench

# With MEASURED=file by costs that were measured elsewhere, such as the kept bench/results/unit_costs.json.
scale: $(JAVA) $(DEV) ## Measure unit costs, and reckon what 1 PB would take
	@$(BIN)/python -m bench.at_scale $(if $(MEASURED),--measured $(MEASURED))
	@$(BIN)/python docs/generate.py

lint: $(DEV) ## Check style, types, layers, names, spelling and generated pages
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python scripts/vague_names.py
	@$(BIN)/codespell README.md CONTRIBUTING.md CHANGELOG.md participant/README.md docs examples
	@$(BIN)/python docs/generate.py --check

docs: $(DEV) ## Write the generated pages anew
	@$(BIN)/python docs/generate.py

pictures: $(JAVA) $(DEV) ## Take the pictures of the documents anew
	@OFFSITE_PICTURES=docs/images $(BIN)/python -m pytest -q -m "not soak" \
		tests/integration/browser/test_pictures.py tests/integration/browser/test_loss_story.py

lock: $(DEV) ## Resolve the dependencies anew
	@for group in bootstrap runtime dev image serve; do scripts/lock.sh $$group; done

clean: ## Remove the environment and what the tools left
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

$(JAVA):
	@scripts/check-java.sh
	@mkdir -p $(@D) && touch $@

$(TOOLS): requirements/bootstrap.txt
	@python=$$(scripts/find-python.sh) && echo "making $(VENV) with $$python" && $$python -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r $<
	@mkdir -p $(@D) && touch $@

$(RUNTIME): $(TOOLS) requirements/runtime.txt pyproject.toml
	@echo "installing offsite and what it needs"
	@$(call install,requirements/runtime.txt)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --no-index --editable .
	@touch $@

$(DEV): $(RUNTIME) requirements/dev.txt
	@echo "installing what the tests need"
	@$(call install,requirements/dev.txt)
	@touch $@

# Beside it, on another core, the tests are read once: each test process would compile the same ten thousand itself.
$(CLASSES): $(JAVA) $(DEV)
	@echo "recording the classes of Spark's JVMs, which start twice as fast then"
	@$(BIN)/python -m pytest --collect-only -q > $(STAMPS)/collected.log 2>&1 & \
	$(BIN)/python -m tests.spark_classes > $(STAMPS)/spark-classes.log 2>&1; recorded=$$?; wait; \
	[ $$recorded = 0 ] || { cat $(STAMPS)/spark-classes.log; exit 1; }
