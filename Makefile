# make demo: a chat on a small embedded pair.   make test: everything that must pass.
# Both make a virtual environment in .venv on the first run. llama.cpp is compiled then, which takes some minutes.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test sanitise docs pictures

demo: .venv/.installed-demo
	$(BIN)/spectui chat --demo

test: .venv/.installed-test
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest --numprocesses=auto --dist=loadgroup --durations=10

# What spectui's kernels do to memory, with every instruction set: AddressSanitizer, UBSan and fences.
sanitise: .venv/.installed-test
	$(BIN)/python -m tests.kernels.sanitised

# What is generated in docs/ and config.example.toml: settings, keys.
docs: .venv/.installed-demo
	$(BIN)/python -m tests.generators.docs

# The pictures in docs/.
pictures: .venv/.installed-test
	$(BIN)/python -m tests.generators.pictures

$(BIN)/python:
	$(PYTHON) -m venv .venv

# The stamp is newer than these files as long as there is nothing new to install, or to compile.
.venv/.installed-%: pyproject.toml hatch_build.py spectui/kernels/build.py $(wildcard spectui/kernels/src/*) | $(BIN)/python
	$(BIN)/python -m pip install -e '.[$*]'
	touch $@
