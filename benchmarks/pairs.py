# What an operation costs in two builds of the gateway, in pairs of runs that alternate, so that a change of the machine's mood hits both:
# python3 pairs.py [--rounds 9] [--bench target/production/sockeye-bench] [--only WORD,…] BEFORE AFTER
# Prints, for each case, the CPU of the server by operation and the median of the ratios with their interval: of n ratios, those that
# bound the median with at least 95 % (sign test). Between nodes Redis counts as a server, too.
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "../conformance"))
from ports import free_port

# Name, scenario, phase that counts, nodes, operations of that phase.
CASES = [
    ("acked event, depth 1", "suite/ack-depth-1", "measured", 1, ("received", "acked")),
    ("acked event, depth 8", "suite/ack-depth-8", "measured", 1, ("received", "acked")),
    ("delivery, room of 100", "suite/delivery-100-window-16", "measured", 1, ("received", "acked")),
    ("delivery, room of 1,000", "suite/delivery-1000-window-16", "measured", 1, ("received", "acked")),
    ("delivery, room of 5,000", "suite/delivery-5000-window-16", "measured", 1, ("received", "acked")),
    ("connect", "suite/connect", None, 1, ("connects_succeeded",)),
    ("publish to the other node, 1,000/s", "nodes-paced", "1,000/s", 2, ("sent",)),
    ("publish to the other node, 5,000/s", "nodes-paced", "5,000/s", 2, ("sent",)),
]


def scenario(name):
    folder = HERE if "/" in name else os.path.join(HERE, "../crates/bench/scenarios")
    return os.path.join(folder, name + ".toml")


def rank(rounds):
    """How many of the smallest and largest ratios stand outside of an interval of 95 %."""
    outside, chance, ways = 0, 0.0, 1
    for at in range(rounds // 2):
        chance += 2 * ways / 2**rounds
        if chance > 0.05:
            break
        outside, ways = at + 1, ways * (rounds - at) // (at + 1)
    return outside


class Rig:
    def __init__(self, bench, folder):
        self.bench, self.folder = bench, folder
        self.port = free_port()
        redis = shutil.which("redis-server") or sys.exit("redis-server is in no folder of PATH")
        self.redis = subprocess.Popen(
            [redis, "--port", str(self.port), "--save", "", "--dir", folder], stdout=subprocess.DEVNULL
        )
        time.sleep(1)
        if self.redis.poll() is not None:
            sys.exit("redis-server ends at once")
        self.configs = {1: os.path.join(HERE, "sockeye.toml"), 2: os.path.join(folder, "nodes.toml")}
        with open(os.path.join(HERE, "nodes.toml")) as given, open(self.configs[2], "w") as own:
            own.write(given.read().replace("127.0.0.1:6379", f"127.0.0.1:{self.port}"))
        self.results = {}

    def run(self, binary, name, nodes):
        """The result of a scenario; one run says it of all its phases."""
        out = os.path.join(self.folder, "run.json")
        if os.path.exists(out):
            os.remove(out)
        command = [self.bench, "run", scenario(name), f"--gateways={nodes}", f"--gateway-config={self.configs[nodes]}"]
        command += [f"--sockeye-bin={binary}", "--json", out]
        if nodes > 1:
            command.append(f"--pid={self.redis.pid}")
        done = subprocess.run(command, capture_output=True, text=True)
        if not os.path.exists(out):
            sys.exit(f"no result of {' '.join(command)}:\n{done.stdout}{done.stderr}")
        with open(out) as file:
            return json.load(file)


def cost(result, phase, of):
    """CPU of all servers by operation, in microseconds."""
    totals = result["totals"]
    wrong = {kind: totals[kind] for kind in ("lost", "duplicated", "reordered", "stray") if totals.get(kind)}
    if wrong:
        sys.exit(f"a run was wrong: {wrong}")
    if phase is None:
        spent, row = sum(process["cpu_s"] for process in result["processes"]), totals
    else:
        row = next(row for row in result["phases"] if row["name"] == phase)
        spent = row["server_cpu_s"]
    return spent * 1e6 / sum(row[kind] for kind in of)


def tell(name, before, after):
    ratios = sorted(new / old for old, new in zip(before, after))
    outside = rank(len(ratios))
    low, high = ratios[max(outside - 1, 0)], ratios[-max(outside, 1)]
    print(
        f"| {name} | {statistics.median(before):.3g} | {statistics.median(after):.3g} "
        f"| {statistics.median(ratios):.3f} | {low:.3f} to {high:.3f} |",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--bench", default=os.path.join(HERE, "../target/production/sockeye-bench"))
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    words = [word for word in args.only.split(",") if word]
    cases = [case for case in CASES if not words or any(word in case[0] for word in words)]
    if not cases:
        sys.exit(f"no case has one of {words} in its name: " + "; ".join(case[0] for case in CASES))
    with tempfile.TemporaryDirectory(prefix="sockeye-pairs-") as folder:
        rig = Rig(args.bench, folder)
        try:
            measure(rig, cases, args)
        finally:
            rig.redis.terminate()
            rig.redis.wait()


def measure(rig, cases, args):
    costs = {case[0]: ([], []) for case in cases}
    binaries = [args.before, args.after]
    runs = list(dict.fromkeys((case[1], case[3]) for case in cases))
    for number in range(args.rounds):
        for name, nodes in runs:
            # The one that was second begins the next pair.
            for side in (0, 1) if number % 2 == 0 else (1, 0):
                result = rig.run(binaries[side], name, nodes)
                for title, scene, phase, _, of in cases:
                    if scene == name:
                        costs[title][side].append(cost(result, phase, of))
        print(f"round {number + 1} of {args.rounds}", file=sys.stderr, flush=True)
    load = os.getloadavg()[0]
    print(f"\n| | before, us | after, us | ratio | its 95 % |\n|---|---:|---:|---:|---:|")
    for title, (before, after) in costs.items():
        tell(title, before, after)
    print(f"\n{args.rounds} pairs; load average after the last run {load:.1f}.")


main()
