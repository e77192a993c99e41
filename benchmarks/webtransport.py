#!/usr/bin/env python3
"""WebTransport beside WebSocket: memory of idle sessions, answer times over a network that loses and delays packets, and a crowd that stays.

`answers` needs root (two network namespaces with a TUN device each; this program carries packets between them, for this kernel has no
netem). All need the builds of `cargo build --profile production --features full` and `cargo build --profile production -p webtransport --examples`.

    python3 benchmarks/webtransport.py TARGET_FOLDER [idle|answers|crowd]...
"""

import ctypes, fcntl, heapq, json, os, random, resource, select, signal, struct, subprocess, sys, tempfile, threading, time, urllib.request

LIBC = ctypes.CDLL(None, use_errno=True)

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000
DELAY_S, PORT, ADMIN = 0.05, 3443, 9123
CONFIG = """profile = "socket.io"
[server]
shards = 1
[tls]
listen = ["{host}:{port}"]
cert = ["cert.pem"]
key = ["key.pem"]
[socketio]
transports = ["websocket", "webtransport"]
[limits]
conns_per_address_max = {each}
[namespaces."/".events.echo]
action = "reply"
"""


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def setns(namespace):
    if LIBC.setns(namespace, 0) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def certify(folder):
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
        "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE",
        "-keyout", f"{folder}/key.pem", "-out", f"{folder}/cert.pem")


def tun(namespace, address, peer):
    """A TUN device in a namespace of its own; its file stays here."""
    run("ip", "netns", "add", namespace)
    here, there = os.open("/proc/self/ns/net", os.O_RDONLY), os.open(f"/var/run/netns/{namespace}", os.O_RDONLY)
    setns(there)
    file = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(file, TUNSETIFF, struct.pack("16sH22x", b"lossy", IFF_TUN | IFF_NO_PI))
    setns(here)
    for command in (f"link set lo up", f"addr add {address} peer {peer} dev lossy", "link set lossy mtu 1500 up"):
        run("ip", "-n", namespace, *command.split())
    return file


class Net(threading.Thread):
    """Carries packets both ways, each after a delay, but for some that are lost."""

    def __init__(self, ends, loss):
        super().__init__(daemon=True)
        self.ends, self.loss, self.queue, self.passed, self.lost = ends, loss, [], 0, 0
        self.random, self.over = random.Random(7), False

    def run(self):
        other, number = {self.ends[0]: self.ends[1], self.ends[1]: self.ends[0]}, 0
        while not self.over:
            wait = max(0, self.queue[0][0] - time.monotonic()) if self.queue else 0.1
            for end in select.select(self.ends, [], [], wait)[0]:
                try:
                    while True:
                        packet = os.read(end, 2048)
                        if self.random.random() < self.loss:
                            self.lost += 1
                            continue
                        number += 1
                        heapq.heappush(self.queue, (time.monotonic() + DELAY_S, number, other[end], packet))
                except BlockingIOError:
                    pass
            while self.queue and self.queue[0][0] <= time.monotonic():
                _, _, end, packet = heapq.heappop(self.queue)
                try:
                    os.write(end, packet)
                    self.passed += 1
                except BlockingIOError:
                    self.lost += 1


class Gateway:
    def __init__(self, target, folder, host, prefix=(), each=100_000):
        with open(f"{folder}/sockeye.toml", "w") as file:
            file.write(CONFIG.format(host=host, port=PORT, each=each))
        command = [*prefix, f"{target}/sockeye", "serve", "--config", f"{folder}/sockeye.toml", "--listen", "127.0.0.1:3444", "--admin", f"127.0.0.1:{ADMIN}"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=open(f"{folder}/log", "w"))
        time.sleep(1.5)
        # `ip netns exec` becomes the program that it runs.
        self.pid = self.process.pid

    def resident(self):
        with open(f"/proc/{self.pid}/smaps_rollup") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("Pss_Anon")) * 1024

    def cpu_s(self):
        with open(f"/proc/{self.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def metric(self, name):
        with urllib.request.urlopen(f"http://127.0.0.1:{ADMIN}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith((name + " ", name + "{")))

    def dropped(self):
        """Packets that the system dropped because the gateway's UDP socket was full."""
        with open(f"/proc/{self.pid}/net/udp") as file:
            rows = [line.split() for line in file.readlines()[1:]]
        return sum(int(row[12]) for row in rows if row[1].endswith(f":{PORT:04X}"))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def idle(target, folder, transport, sessions):
    gateway = Gateway(target, folder, "127.0.0.1")
    lossy = lambda n, hold: subprocess.Popen([f"{target}/examples/lossy", f"127.0.0.1:{PORT}", f"{folder}/cert.pem", transport, str(n), "0", str(hold), "0"],
                                             stdout=subprocess.PIPE, text=True)
    lossy(50, 0).communicate()
    time.sleep(2)
    before = gateway.resident()
    load = lossy(sessions, 20_000)
    time.sleep(15)
    after = gateway.resident()
    said = json.loads(load.communicate()[0])
    gateway.stop()
    return {"transport": transport, **said, "bytes_per_session": (after - before) // sessions}


def answers(target, folder, transport, loss, sessions, bytes_each):
    server, client = "wt-server", "wt-client"
    ends = []
    try:
        ends = [tun(server, "10.77.0.1", "10.77.0.2"), tun(client, "10.77.0.2", "10.77.0.1")]
        net = Net(ends, loss)
        net.start()
        gateway = Gateway(target, folder, "10.77.0.1", ("ip", "netns", "exec", server))
        said = run("ip", "netns", "exec", client, f"{target}/examples/lossy", f"10.77.0.1:{PORT}", f"{folder}/cert.pem", transport, str(sessions), "300", "100", str(bytes_each))
        gateway.stop()
        net.over = True
        net.join()
        return {"transport": transport, "loss": loss, "bytes": bytes_each, **json.loads(said), "packets": net.passed, "lost": net.lost}
    finally:
        for end in ends:
            os.close(end)
        for name in (server, client):
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)


class Load:
    """A process of the example `crowd`. It ends with its input, and by itself after `CROWD_S`."""

    def __init__(self, target, folder, address, sessions):
        command = [f"{target}/examples/crowd", f"127.0.0.1:{PORT}", f"{folder}/cert.pem", address, str(sessions), str(CROWD_S)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.state, self.sessions = {}, sessions
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        for line in self.process.stdout:
            self.state = json.loads(line)

    def until(self, name, patience_s):
        until = time.monotonic() + patience_s
        while self.state.get(name, 0) < self.sessions and self.state.get("ended", 0) < self.sessions and time.monotonic() < until:
            time.sleep(0.2)
        return self.state.get(name, 0)

    def ask(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def leave(self):
        self.process.stdin.close()
        self.process.wait()


CROWD_S = 900
# What the gateway keeps for itself and for those who come when it is full; a session takes two descriptors of the rest.
RESERVED = 128 + 2 * 48


def crowd(target, folder, wanted=10_000, processes=4):
    """Sessions that come, ask once, and stay for two heartbeats; then one too many of an address, and of all."""
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    each = min(wanted, (descriptors - RESERVED) // 2) // processes
    gateway = Gateway(target, folder, "127.0.0.1", each=each)
    sums = lambda name: sum(load.state.get(name, 0) for load in loads)
    loads = [Load(target, folder, "127.0.1.1", 50)]
    loads[0].until("open", 60)
    loads[0].leave()
    time.sleep(3)
    figures = lambda: (gateway.resident(), gateway.cpu_s(), time.monotonic())
    phases, before = {}, figures()

    def phase(name, count):
        nonlocal before
        after = figures()
        phases[name] = {"sessions": count, "resident_mb": round(after[0] / 1e6, 1), "grown_per_session": (after[0] - before[0]) // max(count, 1),
                        "cpu_s": round(after[1] - before[1], 2), "took_s": round(after[2] - before[2], 1)}
        before = after

    empty = before[0]
    # Each address fills its bound.
    loads = [Load(target, folder, f"127.0.2.{n + 1}", each) for n in range(processes)]
    until = time.monotonic() + 400
    for load in loads:
        load.until("open", until - time.monotonic())
    time.sleep(2)
    phase("open", sums("open"))
    # One address after the other: thousands of questions at once are a test of another thing.
    for load in loads:
        load.ask()
        load.until("answered", 30)
    phase("asked", sums("answered"))
    until = time.monotonic() + 150
    for load in loads:
        load.until("stayed", until - time.monotonic())
    phase("stayed", sums("stayed"))
    said = {name: sums(name) for name in ("open", "tried_again", "asked", "answered", "beats", "stayed", "ended")}
    said["slowest_ms"] = max(load.state["slowest_ms"] for load in loads)
    said["first_end"] = next((load.state["first_end"] for load in loads if load.state["first_end"]), "")
    # One more from an address that has its share, and, where descriptors were the bound, many from another one.
    beyond = [("of an address", "127.0.2.1", 1)] + [("of all", "127.0.3.1", 80)] * (2 * (each * processes + 80) + RESERVED > descriptors)
    refused = {}
    for name, address, count in beyond:
        load = Load(target, folder, address, count)
        load.until("ended", 30)
        refused[name] = {"tried": count, "open": load.state.get("open"), "refused": load.state.get("ended"), "first_end": load.state.get("first_end")}
        load.leave()
    drops = gateway.dropped()
    for load in loads:
        load.leave()
    until = time.monotonic() + 60
    while gateway.metric("sockeye_webtransport_connections") > 0 and time.monotonic() < until:
        time.sleep(0.5)
    # The last words of sessions have a time of their own.
    time.sleep(15)
    left = gateway.metric("sockeye_webtransport_connections")
    phase("gone", sums("open"))
    gateway.stop()
    return {"phases": phases, "bytes_per_session": int((phases["stayed"]["resident_mb"] * 1e6 - empty) // max(said["open"], 1)), **said,
            "refused": refused, "udp_dropped": drops, "left": left}


def main():
    target = os.path.abspath(sys.argv[1])
    parts = sys.argv[2:] or ["idle", "answers", "crowd"]
    with tempfile.TemporaryDirectory() as folder:
        certify(folder)
        if "idle" in parts:
            for transport in ("websocket", "webtransport"):
                print(json.dumps(idle(target, folder, transport, 1_000)), flush=True)
        if "answers" in parts:
            for bytes_each in (100, 4_000):
                for loss in (0.0, 0.02):
                    for transport in ("websocket", "webtransport"):
                        print(json.dumps(answers(target, folder, transport, loss, 20, bytes_each)), flush=True)
        if "crowd" in parts:
            print(json.dumps(crowd(target, folder), indent=1), flush=True)


main()
