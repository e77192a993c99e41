"""Runs the suite against CONFORMANCE_URL; the last line is `N passed, N failed`."""

import sys
import unittest

from suite import load

result = unittest.TextTestRunner(verbosity=2, warnings="ignore").run(load())
failed = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
print(f"{result.testsRun - failed} passed, {failed} failed")
sys.exit(1 if failed or result.testsRun == 0 else 0)
