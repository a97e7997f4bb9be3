PYTHON ?= python3
VENV := .venv
.venv/.runtime:
	$(PYTHON) -m venv .venv
	.venv/bin/python -m pip install -e .
	touch $@
.venv/.dev: .venv/.runtime
	.venv/bin/python -m pip install -e ".[dev]"
	touch $@
