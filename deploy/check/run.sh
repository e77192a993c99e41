#!/usr/bin/env bash
# Checks what operators install against the gateway itself:  deploy/check/run.sh [--chart] SOCKEYE
# Needs Python 3 with venv; with --chart also Go, which installs Helm to render the chart again. The last line is `N passed, N failed`.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
if [[ "${1:-}" == --chart ]]; then
  shift
  tools="$here/../../target/tools/bin"
  [[ -x "$tools/helm" ]] || GOBIN="$tools" go install helm.sh/helm/v3/cmd/helm@v3.19.0
  export HELM="$tools/helm"
fi
sockeye="$(realpath "${1:?usage: run.sh [--chart] SOCKEYE (the binary)}")"
cd "$here"
if ! cmp -s requirements.txt .venv/.complete; then
  python3 -m venv --clear .venv
  .venv/bin/pip install --quiet --disable-pip-version-check -r requirements.txt
  cp requirements.txt .venv/.complete
fi
SOCKEYE_BIN="$sockeye" exec .venv/bin/python check.py
