# System calls and instructions of a server for each connect (with its end) and for each acked event, which do not depend on how busy the
# machine is: python3 counts.py [--shards 1,2] [--instructions] [--more TOML] [--uws benchmarks/uws/build/server] GATEWAY...
# --more adds to the configuration; FOLDER in it is a folder of this run.
# strace counts the calls; the instructions are those outside the kernel, by callgrind, as the slope between few and many operations.
import argparse
import base64
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.append(os.path.join(os.path.dirname(__file__), "../conformance"))
from ports import free_port

CONFIG = """profile = "socket.io"
[log]
level = "warn"
connections = false
[namespaces."/"]
client_joins = true
auto_join = []
[namespaces."/".events.echo]
action = "reply"
"""
KEY = base64.b64encode(b"0123456789abcdef").decode()
ARGUMENT = "x" * 100
# By protocol: the path, the last bytes of the answer to the upgrade, the CONNECT and its answer, an event and its answer.
PROTOCOLS = {
    "socket.io": ("/socket.io/?EIO=4&transport=websocket", b'"sid"', ("40", b"40{"), (f'421["echo","{ARGUMENT}"]', b"431[")),
    "bare": ("/", b"\r\n\r\n", None, (f"e{ARGUMENT}end", b"end")),
}
folder = tempfile.mkdtemp(prefix="sockeye-counts-")


def frame(text):
    return bytes([0x81, 0x80 | len(text)]) + bytes(4) + text.encode()


def until(client, wanted):
    got = b""
    while wanted not in got:
        more = client.recv(4096)
        if not more:
            raise SystemExit(f"the server closed a connection behind {got!r}: see its log")
        got += more


def clients(port, protocol, count, at_once, events=0):
    """Connects so many, then each in turn sends events and waits for the answers; all end together."""
    path, opened, connect, (event, answer) = PROTOCOLS[protocol]
    lines = ("Host: x", "Upgrade: websocket", "Connection: Upgrade", f"Sec-WebSocket-Key: {KEY}", "Sec-WebSocket-Version: 13")
    request = "\r\n".join((f"GET {path} HTTP/1.1", *lines, "", "")).encode()
    every = []
    for _ in range(0, count, at_once):
        new = [socket.create_connection(("127.0.0.1", port)) for _ in range(at_once)]
        for one in new:
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            one.sendall(request)
        for one in new:
            until(one, opened)
        if connect:
            for one in new:
                one.sendall(frame(connect[0]))
            for one in new:
                until(one, connect[1])
        every += new
    for _ in range(events):
        for one in every:
            one.sendall(frame(event))
            until(one, answer)
    for one in every:
        one.close()


class Server:
    def __init__(self, program, shards, under=()):
        self.port = free_port()
        self.protocol, command, variables = "bare", [program], {"PORT": str(self.port)}
        if shards:
            file = os.path.join(folder, "sockeye.toml")
            with open(file, "w") as config:
                config.write(CONFIG + options.more.replace("FOLDER", folder))
            address = ["--listen", f"127.0.0.1:{self.port}", "--admin", "off"]
            self.protocol, command = "socket.io", [program, "--config", file, *address, "--shards", str(shards)]
        self.said = open(os.path.join(folder, "said"), "w+")
        command = [*under, *command]
        self.process = subprocess.Popen(command, env={**os.environ, **variables}, stdout=subprocess.DEVNULL, stderr=self.said)
        while True:
            try:
                return socket.create_connection(("127.0.0.1", self.port)).close()
            except OSError:
                if self.process.poll() is not None:
                    raise SystemExit(f"{program} ended: {open(self.said.name).read()}")
                time.sleep(0.1)

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def play(self, *what):
        before = self.descriptors()
        clients(self.port, self.protocol, *what)
        # The ends count, too.
        while self.descriptors() > before:
            time.sleep(0.1)

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        return open(self.said.name).read()


def calls(server, operations, *what):
    """One line: how often each call is made for an operation, and how often in vain."""
    file = os.path.join(folder, "calls")
    tracer = subprocess.Popen(["strace", "-f", "-c", "-U", "calls,errors,name", "-o", file, "-p", str(server.process.pid)], stderr=subprocess.PIPE)
    tracer.stderr.readline()
    time.sleep(0.5)
    server.play(*what)
    tracer.send_signal(signal.SIGINT)
    tracer.wait()
    rows = re.findall(r"^\s*(\d+)\s+(\d+)?\s+(\w+)$", open(file).read(), re.M)
    rows = [(int(count) / operations, int(vain or 0) / operations, name) for count, vain, name in rows if name != "total"]
    rows = sorted((row for row in rows if row[0] >= 0.05), reverse=True)
    vain = lambda share: f" ({share:.2f} in vain)" if share >= 0.05 else ""
    return f"{sum(row[0] for row in rows):.2f}: " + ", ".join(f"{name} {count:.2f}{vain(errors)}" for count, errors, name in rows)


def instructions(program, shards, few, many, operations):
    def run(what):
        under = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/profile"]
        server = Server(program, shards, under)
        server.play(*what)
        return int(re.findall(r"Collected\s*:\s*(\d+)", server.end())[-1])

    return (run(many) - run(few)) / operations


parser = argparse.ArgumentParser()
parser.add_argument("--shards", default="1,2")
parser.add_argument("--instructions", action="store_true")
parser.add_argument("--more", default="")
parser.add_argument("--uws")
parser.add_argument("gateways", nargs="+")
options = parser.parse_args()
servers = [(program, int(shards)) for program in options.gateways for shards in options.shards.split(",")]
for program, shards in [(options.uws, 0)] * bool(options.uws) + servers:
    name = f"{program}, shards: {shards}" if shards else "uWebSockets"
    server = Server(program, shards)
    server.play(64, 64)
    print(f"{name}\n  connect, one after the other: {calls(server, 640, 640, 1)}")
    print(f"  connect, 64 at once: {calls(server, 640, 640, 64)}")
    print(f"  acked event, one after the other: {calls(server, 2_000, 1, 1, 2_000)}", flush=True)
    server.end()
    if options.instructions:
        print(f"  instructions of a connect: {instructions(program, shards, (200, 50), (1_200, 50), 1_000):,.0f}")
        print(f"  instructions of an acked event: {instructions(program, shards, (50, 50, 10), (50, 50, 110), 5_000):,.0f}", flush=True)
