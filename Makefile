# Every target sets up what it needs in .venv; `make` alone lists the targets.
# Packages come from the index of your own pip configuration; nothing here names one.

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup demo docker-demo test test-all test-gpu lint format reference lock clean

# Without PYTHON=..., the first of these that is there, in .venv. With it (a name or a path), Python
# 3.11 has .venv too, and every other version a .venv-3.x beside it.
PYTHON ?= $(shell for name in python3.11 python3.12 python3.13 python3; do "$$name" -c \
	'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null && { command -v "$$name"; break; }; done)
VERSION := $(shell "$(PYTHON)" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
VENV := .venv$(if $(filter-out file,$(origin PYTHON)),$(patsubst %,-%,$(filter-out 3.11,$(VERSION))))
LOCK_FILE := deploy/locks/$(VERSION)

# Take torch and torchvision from another index (CPU-only, another CUDA) with
# `make setup TORCH_INDEX=https://...`. It is remembered in .venv; `make setup TORCH_INDEX=` returns
# to your own index.
TORCH_INDEX ?= $(shell cat $(VENV)/.torch-index 2>/dev/null)

# -qq shows errors only; with -q, a local copy of an index causes one warning per missing package.
PIP := $(VENV)/bin/python -m pip --disable-pip-version-check --no-input -qq
PYTEST := $(VENV)/bin/python -m pytest

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' Makefile | while IFS="$$(printf '\t')" read -r name text; do \
		printf '  make %-12s %s\n' "$$name" "$$text"; done

# .venv is rebuilt if it is broken, was moved (its scripts contain its path) or needs torch from
# another index. Its stamp is a hash of everything that it was made from. Other tables of
# pyproject.toml (run defaults, linters) are not part of it and do not cause a new installation.
define FINGERPRINT
import glob, hashlib, json, os, sys, tomllib
project = tomllib.load(open("pyproject.toml", "rb"))
made_of = [project["build-system"], project["project"], project["tool"]["setuptools"], open(sys.argv[2]).read()]
made_of += [sys.argv[1], sys.version, os.getcwd(), sorted({os.path.dirname(file) for file in glob.glob("*/*.py")})]
print(hashlib.sha256(json.dumps(made_of).encode()).hexdigest())
endef
export FINGERPRINT

setup:  ## prepare .venv (does nothing when it is up to date); PYTHON=python3.12 for .venv-3.12, TORCH_INDEX=... for another torch, HASHES=1 to check every file
	@python="$(PYTHON)"; index="$(TORCH_INDEX)"; \
	if [ -z "$$python" ]; then \
		echo "fedmirage needs Python 3.11, 3.12 or 3.13, and no python3 on the PATH is one of them:" \
			"install one, or name it with PYTHON=/path/to/python3.11." >&2; exit 1; fi; \
	if [ -z "$(VERSION)" ]; then \
		echo "PYTHON=$$python does not start ($$("$$python" -V 2>&1 | head -n 1)); fedmirage needs Python 3.11, 3.12 or 3.13:" \
			"name its program with the full path, such as PYTHON=/usr/bin/python3.11." >&2; exit 1; fi; \
	if [ ! -f "$(LOCK_FILE).lock" ]; then \
		echo "PYTHON=$$python is Python $(VERSION); fedmirage needs Python 3.11, 3.12 or 3.13." >&2; exit 1; fi; \
	set -e; \
	want=$$("$$python" -c "$$FINGERPRINT" "$$index" "$(LOCK_FILE).lock"); \
	if [ "$$want" = "$$(cat $(VENV)/.stamp 2>/dev/null)" ] && $(VENV)/bin/python -c '' 2>/dev/null; then exit 0; fi; \
	rm -f $(VENV)/.stamp; \
	if ! $(VENV)/bin/pip --version 2>/dev/null | grep -qF "(python $(VERSION))" || ! grep -qs "$(CURDIR)/$(VENV)/" $(VENV)/bin/pip \
		|| [ "$$index" != "$$(cat $(VENV)/.torch-index 2>/dev/null)" ]; then \
		echo "Making $(VENV) with $$python"; rm -rf $(VENV); "$$python" -m venv $(VENV); fi; \
	echo "Installing the locked packages into $(VENV) (minutes the first time, and gigabytes if torch comes with CUDA)"; \
	install() { $(PIP) install -c $(LOCK_FILE).lock "$$@" || { \
		echo "pip failed; to see all it says: $(VENV)/bin/python -m pip install -c $(LOCK_FILE).lock $$*" >&2; exit 1; }; }; \
	case "$(HASHES)" in "" | 0) ;; *) $(PIP) install --require-hashes --no-deps -r $(LOCK_FILE).hashes || { \
		echo "a package is not the one whose SHA-256 is in $(LOCK_FILE).hashes, or pip failed otherwise" >&2; exit 1; } ;; esac; \
	if [ -n "$$index" ]; then \
		install --no-deps --index-url "$$index" torch torchvision; \
		echo "$$index" > $(VENV)/.torch-index; \
		install --extra-index-url "$$index" -e '.[dev]'; \
	else install -e '.[dev]'; fi; \
	echo "$$want" > $(VENV)/.stamp; \
	echo "$(VENV) is ready"

# The published defaults are for hundreds of rounds and larger pictures. These settings suit a dozen
# rounds on small ones; they were tried on some of the seeds 10 to 12, and the demo shows others. The
# first question has five seeds: three cannot decide between four methods and FedAvg.
COMPARE = $(VENV)/bin/fedmirage compare --clients 5 --no-report --diagnostics
LABEL_SKEW := --seeds 0,1,2,3,4 --title "Two classes per client: what helps against label skew?" \
	--dataset "digits(size=8)" --partition "classes(per_client=2)" --model "mlp(hidden=64)" --rounds 15 --save-images \
	--methods "fedavgm(momentum=0.7), swa(length=5)" \
	--methods "fedcog(start=6, samples=64, steps=30)" \
	--methods "vhl(per_class=50, augment='none', normalise='real')" \
	--methods "dynafed(length=8, segment=3, iterations=200, steps=10, per_class=5, augment=False, lr_images=0.1, lr=0.001)"
DISTIL := steps=60, real_per_class=16, augment='color_crop'
STYLE_SKEW := --seeds 0,1,2 --title "One style per client: what do global images add to distilled data?" --baseline "distil($(DISTIL))" \
	--dataset "digits-domains(size=12)" --partition domains --model "convnet(width=16, depth=2)" --rounds 12 \
	--local-epochs 4 --save-images \
	--methods "fedlgd($(DISTIL), refresh_steps=10, global_steps=30, contrast_weight=0.1)"
STAYS_HOME := --seeds 0,1,2 --title "The extractor stays home: what do the clients' own models gain?" --baseline lg-fedavg --score local \
	--dataset "digits(size=8)" --partition "dirichlet-client(alpha=0.3)" --model "mlp(hidden=64)" --rounds 12 \
	--local-epochs 3 --methods local --methods "fedmd-cg(server_steps=20)"

demo: setup  ## three questions about skewed digits: five methods, their placebos and averages (results in runs/demo-TIME)
	@out="runs/demo-$$(date +%Y%m%d-%H%M%S)"; \
	$(COMPARE) $(LABEL_SKEW) --out "$$out/1-label-skew" && \
	$(COMPARE) $(STYLE_SKEW) --out "$$out/2-style-skew" && \
	$(COMPARE) $(STAYS_HOME) --out "$$out/3-stays-home" && \
	$(VENV)/bin/fedmirage report "$$out"

# Containers run as your user, so that the files in runs/ belong to you. The nodes' memories stay in
# volumes until `docker compose down --volumes`.
COMPOSE ?= $(shell docker compose version >/dev/null 2>&1 && echo docker compose || echo docker-compose)
CLIENTS ?= 3
docker-demo:  ## FedAvg over gRPC in containers, results in runs/docker-TIME; CLIENTS=1..10, TLS=1, GPU=1, RUN_CONFIG='rounds=20 seed=1'
	@mkdir -p "$${FEDMIRAGE_RUNS:-runs}"; \
	export CLIENTS="$(CLIENTS)" TORCH_INDEX="$(TORCH_INDEX)" FEDMIRAGE_UID="$$(id -u)" FEDMIRAGE_GID="$$(id -g)"; more=; \
	compose="$(COMPOSE)"; nodes=$$(seq -f 'supernode-%g' 0 $$(($(CLIENTS) - 1))); [ -t 0 ] && tty= || tty=-T; \
	case "$(TLS)" in "" | 0 | no | false | off) ;; *) { [ -x .venv/bin/fedmirage ] || $$compose build superlink; } && deploy/make-certificates "$(CLIENTS)" && more="-f docker-compose.tls.yml" || exit 1 ;; esac; \
	case "$(GPU)" in "" | 0 | no | false | off) ;; *) more="$$more -f docker-compose.gpu.yml" ;; esac; \
	[ -z "$$more" ] || compose="$$compose -f docker-compose.yml $$more"; \
	trap 'COMPOSE_PROFILES=clients-10 $$compose down' EXIT; trap 'exit 130' INT TERM; \
	$$compose up --detach --build superlink $$nodes && { $$compose run --rm $$tty submit || { \
		$$compose logs --no-color > "$${FEDMIRAGE_RUNS:-runs}/docker-demo.log" 2>&1; \
		echo "the run failed; the log of the containers is $${FEDMIRAGE_RUNS:-runs}/docker-demo.log" >&2; exit 1; }; }

# tests/e2e starts Ray and Flower's processes, which need the whole machine: one test at a time.
test: lint  ## linters, types and the fast tests: what CI runs
	$(PYTEST) -n 2 -m "not slow" --ignore tests/e2e
	$(PYTEST) -m "not slow" tests/e2e

test-all: lint  ## the same with the slow tests; tests that this machine cannot run are skipped with the reason
	$(PYTEST) -n 2 --ignore tests/e2e
	$(PYTEST) tests/e2e

test-gpu: setup  ## two rounds of every method on the GPU against the CPU, in five minutes; skipped without a GPU
	$(VENV)/bin/fedmirage doctor --gpu

lint: setup  ## check format, lint rules and types
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/ruff check
	$(VENV)/bin/mypy

format: setup  ## rewrite the sources in the project's format and apply safe lint fixes
	$(VENV)/bin/ruff check --fix --exit-zero --quiet
	$(VENV)/bin/ruff format

reference: setup  ## write docs/reference anew from declarations and docstrings
	$(VENV)/bin/python -m experiments.reference

# The lock file holds names and versions only, so that it works with every index and both kinds of
# torch. It leaves out local version suffixes, and the CUDA packages, which torch itself pins. The
# SHA-256 of every file is beside it, in a file of its own, for who wants to check them.
define LOCK
import json, re, sys
header = """# Every direct and transitive dependency, pinned; a constraints file: pip install -c deploy/locks/3.11.lock -e '.[dev]'
# Regenerate it with `make lock` after changing a dependency in pyproject.toml.
# Left out: fedmirage itself, and the CUDA packages (nvidia-*, cuda-*, triton), which a CUDA build of torch pins by itself."""
pins = set()
for item in json.load(sys.stdin)["install"]:
    name = re.sub(r"[-_.]+", "-", item["metadata"]["name"]).lower()
    if not re.match(r"(fedmirage|triton|nvidia-.*|cuda-.*)$$", name):
        pins.add(name + "==" + item["metadata"]["version"].partition("+")[0])
print(header, *sorted(pins), sep="\n")
endef
export LOCK

# Records and tests of bits belong to this pair. Other Pythons get the versions of 3.11.
LOCKED := torch==2.13.0 torchvision==0.28.0 $(if $(filter-out 3.11,$(VERSION)),-c deploy/locks/3.11.lock)

lock:  ## resolve the dependencies of pyproject.toml again and rewrite the lock and hashes files of this Python
	@[ -x $(VENV)/bin/python ] || "$(PYTHON)" -m venv $(VENV)
	@$(PIP) install --dry-run --ignore-installed --report $(VENV)/lock.json $(LOCKED) '.[dev]'
	@$(VENV)/bin/python -c "$$LOCK" < $(VENV)/lock.json > $(VENV)/new.lock
	@mv $(VENV)/new.lock $(LOCK_FILE).lock
	@$(PIP) install --dry-run --ignore-installed -c $(LOCK_FILE).lock --report $(VENV)/lock.json .
	@$(VENV)/bin/python deploy/hashes.py $(VENV)/lock.json < $(LOCK_FILE).lock > $(VENV)/new.hashes
	@mv $(VENV)/new.hashes $(LOCK_FILE).hashes; rm -f $(VENV)/lock.json
	@echo "$(LOCK_FILE).lock: $$(grep -c == $(LOCK_FILE).lock) packages"

clean:  ## remove .venv, .venv-3.x and caches; runs/ stays
	rm -rf .venv .venv-3.* build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find common client server experiments fedmirage tests -name __pycache__ -type d -exec rm -rf {} +
