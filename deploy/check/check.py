"""What operators install, checked against the gateway: the image, compose files, chart, unit, package and release.

Each check is a function in one of the files below; it fails by an assertion that says what is wrong. The last line is `N passed, N failed`,
and `N skipped` where a tool is not there. HELM=helm also renders the chart again; WRITE=1 keeps the result.
"""

import os
import sys

# Each of these adds its checks to the list.
import image, compose, systemd, chart, kubernetes, release
from ground import CHECKS, NotRun


def main():
    passed = failed = skipped = 0
    for check, needs in CHECKS:
        if needs and needs not in os.environ:
            continue
        name = check.__name__.replace("_", " ")
        try:
            check()
        except NotRun as why:
            skipped += 1
            print(f"NOT RUN: {name}: {why}")
        except Exception as error:
            failed += 1
            print(f"FAILED: {name}: {error!r}")
        else:
            passed += 1
            print(f"ok: {name}")
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
