"""Stock clients that keep their connection, as roam.mjs, which says what they can be told.

python roam.py --url http://127.0.0.1:3000 --transport polling|upgrade|websocket --clients 4
"""

import argparse
import json
import sys
import threading

import socketio

PATIENCE_S = 20
TRANSPORTS = {"polling": ["polling"], "upgrade": ["polling", "websocket"], "websocket": ["websocket"]}

parser = argparse.ArgumentParser()
parser.add_argument("--url")
parser.add_argument("--transport", choices=TRANSPORTS)
parser.add_argument("--clients", type=int)
settings = parser.parse_args()

lock = threading.Lock()
connects = [0] * settings.clients
errors = {}
connected = set()


def tell(line):
    print(json.dumps(line), flush=True)


def note(error):
    with lock:
        errors[error] = errors.get(error, 0) + 1


def changed(at, is_connected):
    with lock:
        if is_connected:
            connects[at] += 1
            connected.add(at)
        else:
            connected.discard(at)
        tell({"connected": len(connected)})


def client(at):
    socket = socketio.Client(reconnection_delay=0.2, reconnection_delay_max=1)

    @socket.event
    def connect():
        socket.emit("join", "roam")
        changed(at, True)

    @socket.event
    def disconnect(reason):
        note(str(reason))
        changed(at, False)

    @socket.event
    def connect_error(data):
        note(str(data))

    socket.connect(settings.url, transports=TRANSPORTS[settings.transport], retry=True)
    return socket


def ask(count):
    failed = []

    def of_client(at):
        for n in range(count):
            try:
                clients[at].call("n", [at, n], timeout=PATIENCE_S)
            except Exception as error:
                failed.append(f"client {at}: {error!r}")

    threads = [threading.Thread(target=of_client, args=(at,)) for at in range(settings.clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tell({"asked": count * settings.clients, "failed": failed})


clients = [client(at) for at in range(settings.clients)]
for line in sys.stdin:
    command = json.loads(line)
    if command["do"] == "ask":
        ask(command["count"])
    else:
        with lock:
            tell({"connects": connects, "errors": errors})
