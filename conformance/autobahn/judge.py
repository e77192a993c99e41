"""Reads Autobahn's report. Anything but OK, INFORMATIONAL and NON-STRICT is a failure, and so is a missing case."""

import json
import sys
from collections import Counter

PASSED = {"OK", "INFORMATIONAL", "NON-STRICT"}


def case_order(item):
    return [int(number) for number in item[0].split(".")]


def main(report_path, expected):
    with open(report_path, encoding="utf-8") as report:
        (cases,) = json.load(report).values()
    failed = 0
    for name, case in sorted(cases.items(), key=case_order):
        verdicts = (case["behavior"], case["behaviorClose"])
        if not PASSED.issuperset(verdicts):
            failed += 1
            print(f"FAILED {name}: {verdicts[0]}, close: {verdicts[1]}, see {case['reportfile']}")
        elif "NON-STRICT" in verdicts:
            print(f"non-strict {name}")
    counts = Counter(case["behavior"] for case in cases.values())
    print(", ".join(f"{verdict}: {count}" for verdict, count in counts.most_common()))
    missing = max(expected - len(cases), 0)
    if missing:
        print(f"FAILED: {missing} of {expected} cases did not run")
    print(f"{len(cases) - failed} passed, {failed + missing} failed")
    return 1 if failed or missing else 0


sys.exit(main(sys.argv[1], int(sys.argv[2])))
