#!/usr/bin/env bash
# Builds the Java client suite if needed and runs it against CONFORMANCE_URL.
# The last line is `N passed, N failed`.
set -euo pipefail
cd "$(dirname "$0")"

# --batch-mode, or Maven fills logs with progress bars.
mvn --batch-mode --quiet compile dependency:copy-dependencies -DincludeScope=runtime
exec java -cp 'target/classes:target/dependency/*' sockeye.conformance.Main
