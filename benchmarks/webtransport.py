#!/usr/bin/env python3
"""WebTransport beside WebSocket: memory of idle sessions, and answer times over a network that loses and delays packets.

Needs root (two network namespaces with a TUN device each; this program carries packets between them, for this kernel has no netem),
and the builds of `cargo build --profile production --features full` and `cargo build --profile production -p webtransport --example lossy`.

    python3 benchmarks/webtransport.py TARGET_FOLDER
"""

import ctypes, fcntl, heapq, json, os, random, select, signal, struct, subprocess, sys, tempfile, threading, time

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
conns_per_address_max = 100000
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
    def __init__(self, target, folder, host, prefix=()):
        with open(f"{folder}/sockeye.toml", "w") as file:
            file.write(CONFIG.format(host=host, port=PORT))
        command = [*prefix, f"{target}/sockeye", "serve", "--config", f"{folder}/sockeye.toml", "--listen", "127.0.0.1:3444", "--admin", f"127.0.0.1:{ADMIN}"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=open(f"{folder}/log", "w"))
        time.sleep(1.5)
        # `ip netns exec` becomes the program that it runs.
        self.pid = self.process.pid

    def resident(self):
        with open(f"/proc/{self.pid}/smaps_rollup") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("Pss_Anon")) * 1024

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


def main():
    target = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        certify(folder)
        for transport in ("websocket", "webtransport"):
            print(json.dumps(idle(target, folder, transport, 1_000)), flush=True)
        for bytes_each in (100, 4_000):
            for loss in (0.0, 0.02):
                for transport in ("websocket", "webtransport"):
                    print(json.dumps(answers(target, folder, transport, loss, 20, bytes_each)), flush=True)


main()
