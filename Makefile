# `make demo`, `make live` and `make test` set up all they need in .venv; they assume nothing but Python 3.10 to 3.13 and make.
# Another interpreter, in a new environment: `make demo PYTHON=python3.12`.

VENV := .venv
RUN := $(VENV)/bin/python
PYTHON ?=
CANDIDATES := $(if $(PYTHON),$(PYTHON),python3 python3.13 python3.12 python3.11 python3.10 python)
CHECK := import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))
INSTALL := install --disable-pip-version-check --no-warn-script-location
# What an installation depends on.
METADATA := setup.py setup.cfg pyproject.toml
EXAMPLE := examples/recorded_robots
TESTS ?=
# The ROS 2 after that of the extra `ros`, for `make test-all`, where PyPI has it.
NEXT := $(VENV)-kilted
NEXT_WHEELS := ros-kilted-rclpy==9.1.2 ros-kilted-rmw-fastrtps-cpp==9.3.3 $(patsubst %,ros-kilted-%==5.5.1,diagnostic-msgs \
    geometry-msgs nav-msgs sensor-msgs std-srvs visualization-msgs)
HAS_WHEELS := import sys; from onboard_estimation.base.ros2 import wheels_exist; sys.exit(not wheels_exist())

.DEFAULT_GOAL := help
.PHONY: help demo live test test-all test-next lint format benchmarks clean outdated

help: ## what there is to make
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 20

demo: $(VENV)/.runtime ## simulate, estimate, judge and report: see demo_output/
	@$(VENV)/bin/onboard-estimation demo --output demo_output

live: $(VENV)/.live ## a simulated salp on ROS 2, live in the browser; Ctrl-C ends it
	@$(VENV)/bin/onboard-estimation warmup salp
	@$(VENV)/bin/onboard-estimation view & $(VENV)/bin/onboard-estimation launch salp.launch.py; wait

test: $(VENV)/.development ## tests; some only: TESTS=test/onboard/pipeline/test_buffer.py
	$(RUN) -m pytest --numprocesses 2 --dist worksteal $(or $(TESTS),test -m 'not slow')

test-all: lint test ## all that must pass: linters, slow tests, those of examples/, those of nodes on the next ROS 2
	$(RUN) -m pytest --numprocesses 2 --dist worksteal test examples -m 'slow or example'
	@if $(RUN) -c '$(HAS_WHEELS)'; then $(MAKE) --no-print-directory test-next; fi

test-next: $(NEXT)/.development
	$(NEXT)/bin/python -m pytest --numprocesses 2 --dist worksteal -m 'live and not slow'

lint: $(VENV)/.development ## linter, formatter's check, type checker, layers of imports
	$(RUN) -m ruff check
	$(RUN) -m ruff format --check
	$(RUN) -m mypy
	$(VENV)/bin/lint-imports --no-logo

format: $(VENV)/.development ## mend what linter and formatter can mend
	$(RUN) -m ruff check --fix
	$(RUN) -m ruff format

benchmarks: $(VENV)/.development ## measure speed and accuracy
	$(RUN) -m benchmarks

clean: ## remove .venv, caches and everything built
	rm -rf $(VENV) $(NEXT) build dist install log demo_output runs *.egg-info examples/*/*.egg-info examples/*/build .import_linter_cache .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# An environment that was moved or copied still names its old place in scripts and in the installation of this package.
ifneq ($(shell cat $(VENV)/.place 2>/dev/null),$(CURDIR))
$(VENV)/.place: outdated
endif
# Another interpreter is asked for than the environment has.
ifneq ($(if $(PYTHON),$(shell $(PYTHON) --version 2>&1 || true)),$(if $(PYTHON),$(shell $(RUN) --version 2>/dev/null || true)))
$(VENV)/.place: outdated
endif

$(VENV)/.place:
	@python=$$(for candidate in $(CANDIDATES); do \
	    if "$$candidate" -c '$(CHECK)' 2>/dev/null; then echo "$$candidate"; break; fi; done); \
	if [ -z "$$python" ]; then \
	    echo "No Python 3.10 to 3.13 found; tried: $(CANDIDATES). Install one or name it: make PYTHON=/path/to/python3" >&2; \
	    exit 2; \
	fi; \
	if [ "$$({ $(RUN) --version; } 2>/dev/null)" != "$$("$$python" --version)" ]; then rm -rf $(VENV); fi; \
	if "$$python" -c 'import ensurepip' 2>/dev/null; then \
	    "$$python" -m venv $(VENV); \
	elif "$$python" -c 'import pip' 2>/dev/null; then \
	    "$$python" -m venv --without-pip $(VENV) && \
	    "$$python" -m pip install --quiet --target "$$($(RUN) -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" pip; \
	else \
	    echo "$$python has neither ensurepip nor pip; on Debian and Ubuntu: apt install python3-venv" >&2; \
	    exit 2; \
	fi
	@echo "$(CURDIR)" > $@

$(VENV)/.runtime: $(VENV)/.place $(METADATA)
	@echo "Setting up $(VENV) with $$($(RUN) --version): about a minute, 1.1 GB of disk"
	@rm -rf *.egg-info  # of an older version, which would name what is no longer there
	@$(RUN) -m pip $(INSTALL) --editable '.[view,campaign]'
	@touch $@

$(VENV)/.live: $(VENV)/.runtime
	@echo "Adding ROS 2 where PyPI has wheels of it: about half a minute, 250 MB of disk"
	@$(RUN) -m pip $(INSTALL) --editable '.[ros,view,campaign]'
	@touch $@

$(VENV)/.development: $(VENV)/.runtime $(EXAMPLE)/setup.py
	@echo "Adding what the tests need, ROS 2 among it where PyPI has it: about a minute, 650 MB of disk"
	@$(RUN) -m pip $(INSTALL) --editable '.[dev,ros,view,campaign]' --editable $(EXAMPLE)
	@touch $@

# All but ROS 2 is that of $(VENV), which comes behind.
$(NEXT)/.development: $(VENV)/.development Makefile
	@echo "Setting up $(NEXT) with the next ROS 2: about half a minute, 250 MB of disk"
	@rm -rf $(NEXT)
	@$(RUN) -m venv --without-pip $(NEXT)
	@$(RUN) -m pip --python $(NEXT)/bin/python $(INSTALL) $(NEXT_WHEELS) "$$($(RUN) -m pip freeze | grep ^numpy==)"
	@$(RUN) -c 'import sysconfig; print("$(CURDIR)", "$(CURDIR)/$(EXAMPLE)", sysconfig.get_path("purelib"), sep="\n")' \
	    > $$($(NEXT)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/behind.pth
	@touch $@
