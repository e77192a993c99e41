#!/usr/bin/env bash
# The library against the gateway:  sdk/python/test.sh SOCKEYE
# It is installed as its users do: from the wheel, which is made from the source archive in an empty folder.
set -euo pipefail
sockeye="$(realpath "${1:?usage: test.sh SOCKEYE (the binary)}")"
cd "$(dirname "$0")"
stamp() { cat requirements.txt pyproject.toml setup.py MANIFEST.in LICENSE README.md src/sockeye_worker/*.* ../../proto/sockeye/{types/v1/types,worker/v1/worker}.proto; }
if ! stamp | cmp -s - .venv/.complete; then
  [[ -x .venv/bin/pip ]] || python3 -m venv .venv
  .venv/bin/pip install --quiet --disable-pip-version-check -r requirements.txt
  rm -rf build src/*.egg-info .venv/dist
  .venv/bin/python -m build --outdir .venv/dist . > .venv/build.log 2>&1 || { cat .venv/build.log; exit 1; }
  .venv/bin/pip uninstall --quiet --yes --disable-pip-version-check sockeye-worker
  .venv/bin/pip install --quiet --disable-pip-version-check --no-deps .venv/dist/*.whl
  stamp > .venv/.complete
fi
SOCKEYE_BIN="$sockeye" exec .venv/bin/python -m pytest --quiet tests
