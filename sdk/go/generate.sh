#!/usr/bin/env bash
# Makes internal/workerpb from proto:  sdk/go/generate.sh [FOLDER]
# The compiler comes from the Python package grpcio-tools, the plugin from the Go module proxy; both have exact versions.
set -euo pipefail
cd "$(dirname "$0")"
goal="$(realpath "${1:-internal/workerpb}")"
GRPCIO_TOOLS=1.85.1
PLUGIN=google.golang.org/protobuf/cmd/protoc-gen-go@v1.33.0
venv=.venv-generate
[[ -x $venv/bin/pip ]] || python3 -m venv $venv
$venv/bin/pip install --quiet --disable-pip-version-check "grpcio-tools==$GRPCIO_TOOLS"
GOBIN="$PWD/$venv/bin" go install "$PLUGIN"
files=(sockeye/types/v1/types.proto sockeye/worker/v1/worker.proto)
options=(paths=source_relative "${files[@]/%/=sockeye.example/worker/internal/workerpb}")
options=("${options[@]/#sockeye/Msockeye}")
PATH="$PWD/$venv/bin:$PATH" $venv/bin/python -m grpc_tools.protoc --proto_path=../../proto --go_out="$goal" "${options[@]/#/--go_opt=}" "${files[@]}"
mv "$goal"/sockeye/*/v1/*.pb.go "$goal"
rm -r "$goal/sockeye"
