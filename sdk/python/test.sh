#!/usr/bin/env bash
# The library, installed as its users do, against the gateway:  sdk/python/test.sh SOCKEYE
set -euo pipefail
sockeye="$(realpath "${1:?usage: test.sh SOCKEYE (the binary)}")"
cd "$(dirname "$0")"
stamp() { cat requirements.txt pyproject.toml setup.py src/sockeye/*.py ../../proto/sockeye/worker/v1/worker.proto; }
if ! stamp | cmp -s - .venv/.complete; then
  [[ -x .venv/bin/pip ]] || python3 -m venv .venv
  .venv/bin/pip install --quiet --disable-pip-version-check -r requirements.txt
  rm -rf build
  .venv/bin/pip install --quiet --disable-pip-version-check --no-deps --force-reinstall .
  stamp > .venv/.complete
fi
SOCKEYE_BIN="$sockeye" exec .venv/bin/python -m pytest --quiet tests
