# `make` lists the targets. Every target that needs the tools sets them up first, once.
.DEFAULT_GOAL := help
.PHONY: help setup java demo test test-fast test-world fuzz check format bench lock clean

BIN := .venv/bin

# The tests start Python some hundred times: without the cached bytecode each start compiles everything again.
unexport PYTHONDONTWRITEBYTECODE

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' Makefile

# The stamp is newer than both files exactly when .venv holds what they ask for.
.venv/.ready: pyproject.toml requirements.lock
	@sh scripts/setup.sh
	@touch $@

# moto needs another python-dateutil than Everview, hence an environment of its own.
.venv-s3/.ready: requirements-s3.lock | .venv/.ready
	@sh scripts/s3_server.sh
	@touch $@

.kafka/.ready: scripts/kafka_pom.xml scripts/kafka_server.sh | java
	@sh scripts/kafka_server.sh
	@touch $@

.postgres/.ready: scripts/postgres_server.sh
	@sh scripts/postgres_server.sh

setup: .venv/.ready ## make .venv with the locked versions (other targets do it by themselves)

java:
	@sh scripts/java.sh

demo: .venv/.ready java ## run the demo
	@$(BIN)/everview demo

test: .venv/.ready .venv-s3/.ready .kafka/.ready java ## run all tests
	@$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --hypothesis-profile=full --durations=40 -m "not world"

test-fast: .venv/.ready ## run the tests that need no Java and take under a minute
	@$(BIN)/python -m pytest -n 2 -m "not slow and not spark and not world"

test-world: .venv/.ready .postgres/.ready .kafka/.ready java ## run the tests of sinks that need servers or table formats; installs what is missing
	@$(BIN)/python -m pytest -m world

fuzz: .venv/.ready .venv-s3/.ready .kafka/.ready java ## run the property tests on fresh random cases, many of them
	@$(BIN)/python -m pytest --hypothesis-profile=slow -m "not world"

check: .venv/.ready ## check style, types and the import order
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy --strict src
	@$(BIN)/python -m pytest tests/test_import_order.py

format: .venv/.ready ## format the code and mend what ruff can mend
	@$(BIN)/ruff check --fix-only .
	@$(BIN)/ruff format .

bench: .venv/.ready java ## run the benchmarks
	@$(BIN)/python -m bench

lock: ## choose the newest versions again (needs uv)
	@sh scripts/lock.sh

clean: ## remove caches and build output (.venv stays)
	@rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse metastore_db derby.log
	@find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +
