"""python-socketio's Redis manager, driven by lines of JSON: {"do": "emit", "args": [...], "options": {...}, "callback": true}.

Tells {"ready": true} first, and {"callback": [...]} when a question is answered. What JSON cannot say is {"$bytes": "0102"} and
{"$tuple": [...]}.
"""

import json
import sys

import socketio


def tell(line):
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


manager = socketio.RedisManager(sys.argv[1])
server = socketio.Server(client_manager=manager, async_mode="threading")
manager.initialize()
# Emits of a process that hears nothing.
emitter = socketio.RedisManager(sys.argv[1], write_only=True)
tell({"ready": True})
for line in sys.stdin:
    command = json.loads(line)
    options = read(command.get("options", {}))
    if command.get("callback"):
        options["callback"] = lambda *args: tell({"callback": list(args)})
    speaker = emitter if command["do"] == "emit" and not command.get("callback") else manager
    getattr(speaker, command["do"])(*read(command["args"]), **options)
