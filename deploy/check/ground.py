"""What all checks share: files of the repository, what the gateway says of itself, and the list of the checks."""

import os
import pathlib
import re
import subprocess
import sys

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "conformance"))
from ports import free_port
DEPLOY = ROOT / "deploy"
SOCKEYE = os.environ["SOCKEYE_BIN"]
# Of each check the function and the variable that it needs, or None, in the order of the files.
CHECKS = []


class NotRun(Exception):
    """A tool that is not everywhere."""


def check(function=None, *, needs=None):
    """Marks a function as a check. With `needs` it runs only where the environment has that variable."""
    if function is None:
        return lambda function: check(function, needs=needs)
    CHECKS.append((function, needs))
    return function


def read(path):
    return (ROOT / path).read_text()


def load(path):
    return yaml.safe_load(read(path))


def run(*words, cwd=None):
    done = subprocess.run(words, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def seconds(text):
    number, unit = re.fullmatch(r"(\d+)(ms|s|m)?", str(text)).groups()
    return int(number) * {"ms": 0.001, "s": 1, "m": 60, None: 1}[unit]


def default(key):
    """A default from the commented file that the binary makes."""
    code, text = run(SOCKEYE, "config", "reference", "--toml")
    assert code == 0, text
    return re.search(rf"^#{key} = (.*)$", text, re.M).group(1).strip('"')


def drain_seconds():
    return seconds(default("drain_window")) + seconds(default("drain_grace"))


def step(workflow, job, wanted):
    """The one step of a job whose id is this, or whose action has this name, and its place."""
    steps = load(f".github/workflows/{workflow}.yml")["jobs"][job]["steps"]
    [found] = [(at, it) for at, it in enumerate(steps) if it.get("id") == wanted or it.get("uses", "").startswith(f"{wanted}@")]
    return found
