#!/usr/bin/env bash
# Checks what operators install against the gateway itself:  deploy/check/run.sh [--chart | --package | --libraries] SOCKEYE
# Needs Python 3 with venv; with --chart also Go, which installs Helm to render the chart again; with --package also root, debootstrap, and
# sockeye-bench beside SOCKEYE: both are packed into target/dist and installed in a fresh Debian; with --libraries also npm: what a release
# would publish is packed into target/libraries. The last line is `N passed, N failed`.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
if [[ "${1:-}" == --chart ]]; then
  shift
  tools="$here/../../target/tools/bin"
  [[ -x "$tools/helm" ]] || GOBIN="$tools" go install helm.sh/helm/v3/cmd/helm@v3.19.0
  export HELM="$tools/helm"
fi
package=
if [[ "${1:-}" == --package ]]; then
  shift
  package=yes
fi
if [[ "${1:-}" == --libraries ]]; then
  shift
  root="$(realpath "$here/../..")"
  for library in node client; do
    [[ -d "$root/sdk/$library/node_modules" ]] || npm ci --no-audit --no-fund --prefix "$root/sdk/$library"
  done
  LIBRARIES="$root/target/libraries"
  rm -rf "$LIBRARIES"
  node "$root/sdk/pack.mjs" https://example.org/o/r v1.2.3 "$LIBRARIES"
  export LIBRARIES
fi
sockeye="$(realpath "${1:?usage: run.sh [--chart | --package | --libraries] SOCKEYE (the binary)}")"
if [[ -n "$package" ]]; then
  # What the release does, with its version of cargo-deb.
  root="$here/../.."
  [[ -x "$root/target/tools/bin/cargo-deb" ]] ||
    (cd "$root" && $(grep -oE 'cargo install --locked cargo-deb@[0-9.]+' .github/workflows/release.yml) --root target/tools)
  (cd "$root" && cargo xtask dist --given "$(dirname "$sockeye")")
  rm -f "$root"/target/dist/*.deb
  (cd "$root" && PATH="$root/target/tools/bin:$PATH" cargo deb --package gateway --no-build --no-strip --output target/dist/)
  DEB="$(echo "$root"/target/dist/*.deb)"
  export DEB
fi
cd "$here"
if ! cmp -s requirements.txt .venv/.complete; then
  python3 -m venv --clear .venv
  .venv/bin/pip install --quiet --disable-pip-version-check -r requirements.txt
  cp requirements.txt .venv/.complete
fi
SOCKEYE_BIN="$sockeye" exec .venv/bin/python check.py
