"""Ports for servers of tests. Each process owns blocks of ports. It listens at the first port of each block for as long as it lives, so
that no other process takes a port from there: crates/servers/src/ports.rs says more. `python3 ports.py COUNT` prints so many."""

import contextlib
import os
import socket
import sys

FIRST, BLOCK, BLOCKS = 12_000, 20, 1_000
_guards, _rest = [], []


def _listen(port):
    with contextlib.suppress(OSError):
        return socket.create_server(("127.0.0.1", port))


def _claim():
    begin = int(os.environ.get("PORTS_BEGIN", os.getpid())) * 7
    for n in range(BLOCKS):
        first = FIRST + (begin + n) % BLOCKS * BLOCK
        if guard := _listen(first):
            _guards.append(guard)
            _rest.extend(range(first + 1, first + BLOCK))
            return
    raise OSError("no block of ports is free")


def free_port():
    while True:
        if not _rest:
            _claim()
        port = _rest.pop(0)
        if probe := _listen(port):
            probe.close()
            return port


if __name__ == "__main__":
    for _ in range(int(sys.argv[1])):
        print(free_port())
