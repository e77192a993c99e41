"""A python-socketio server with a Redis manager, its clients, and an emitter, driven by lines of JSON.

{"do": "emit", "args": [...], "options": {...}, "callback": true} calls a method of the manager; "client" adds a client, of this server or
of another one at "url". Tells {"ready": true, "port": N} first, {"callback": [...]} when a question is answered, and what clients hear as
{"client": "c1", "event": "ev", "args": [...]}. What JSON cannot say is {"$bytes": "0102"} and {"$tuple": [...]}.
"""

import json
import sys
import threading
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import socketio

lock = threading.Lock()


def tell(line):
    with lock:
        print(json.dumps(line), flush=True)


def read(value):
    if isinstance(value, list):
        return [read(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "$bytes" in value:
        return bytes.fromhex(value["$bytes"])
    if "$tuple" in value:
        return tuple(read(item) for item in value["$tuple"])
    return {key: read(item) for key, item in value.items()}


def show(value):
    if isinstance(value, bytes):
        return {"$bytes": value.hex()}
    if isinstance(value, (list, tuple)):
        return [show(item) for item in value]
    if isinstance(value, dict):
        return {key: show(item) for key, item in value.items()}
    return value


class Quiet(WSGIRequestHandler):
    def log_message(self, *_):
        pass


class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


# The library gives up after 5 s, which a busy machine may need.
PATIENT = {"socket_timeout": None, "socket_connect_timeout": None}
manager = socketio.RedisManager(sys.argv[1], redis_options=PATIENT)
server = socketio.Server(client_manager=manager, async_mode="threading")
manager.initialize()
# Emits of a process that hears nothing.
emitter = socketio.RedisManager(sys.argv[1], write_only=True)


@server.on("join")
def join(sid, room):
    server.enter_room(sid, room)
    return sid


http = make_server("127.0.0.1", 0, socketio.WSGIApp(server), Server, Quiet)
threading.Thread(target=http.serve_forever, daemon=True).start()
clients = {}


def client(name, rooms=(), url=None):
    """The client's id."""
    added = socketio.Client(reconnection=False)
    clients[name] = added

    @added.on("*")
    def hear(event, *args):
        tell({"client": name, "event": event, "args": show(args)})
        return f"{name} got {event}"

    @added.event
    def disconnect(reason):
        tell({"client": name, "event": "disconnect", "args": []})

    transport = ["websocket"] if url else ["polling"]
    added.connect(url or f"http://127.0.0.1:{http.server_port}", transports=transport)
    for room in rooms:
        added.call("join", room)
    tell({"id": added.get_sid()})


def manage(command):
    options = read(command.get("options", {}))
    if command.get("callback"):
        options["callback"] = lambda *args: tell({"callback": list(args)})
    # Questions need a server.
    speaker = emitter if command.get("via") == "emitter" else manager
    getattr(speaker, command["do"])(*read(command["args"]), **options)


tell({"ready": True, "port": http.server_port})
for line in sys.stdin:
    command = json.loads(line)
    match command["do"]:
        case "client":
            client(command["name"], command.get("rooms", ()), command.get("url"))
        case "say":
            clients[command["name"]].emit(command["event"], read(command["args"]))
        case _:
            manage(command)
