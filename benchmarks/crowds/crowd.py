"""Stock clients in Python for upgrades.mjs: each says numbers to its room of ten, and asks a worker.

crowd.py --urls URL,URL --clients 60: says "ready" when all are in their rooms, ends on SIGTERM, and prints what it counted as a line of JSON.
"""

import argparse
import asyncio
import json
import signal
import time

import socketio

ROOM = 10
PACE = 6.0
COUNTS = ["said", "asked", "answered", "unanswered", "cuts", "lost", "twice", "disordered"]


class Client:
    """One client; every third polls."""

    def __init__(self, at):
        self.at = at
        self.room = f"python-{at // ROOM}"
        self.counts = dict.fromkeys(COUNTS, 0)
        self.heard = {}
        self.delays = []
        self.io = socketio.AsyncClient(reconnection_delay=0.1)
        self.io.on("n", self.hear)
        for namespace in ["/", "/shop"]:
            self.io.on("disconnect", self.cut, namespace=namespace)

    async def open(self, url):
        transports = ["polling"] if self.at % 3 == 0 else ["websocket"]
        await self.io.connect(url, transports=transports, namespaces=["/", "/shop"], wait_timeout=30)
        await self.io.call("join", self.room, timeout=30)

    async def cut(self, *_):
        self.counts["cuts"] += 1

    async def hear(self, said):
        due = self.heard.get(said["from"], 0)
        if said["n"] < due:
            self.counts["twice"] += 1
            return
        self.counts["lost"] += said["n"] - due
        self.heard[said["from"]] = said["n"] + 1

    async def speak(self):
        await self.io.emit("n", {"from": self.at, "n": self.counts["said"]})
        self.counts["said"] += 1
        asked, began = self.counts["asked"], time.time() * 1000
        self.counts["asked"] += 1
        try:
            answer = await self.io.call("count", asked, namespace="/shop", timeout=30)
        except (socketio.exceptions.TimeoutError, socketio.exceptions.SocketIOError):
            self.counts["unanswered"] += 1
            return
        self.counts["answered"] += 1
        self.counts["disordered"] += answer != asked
        self.delays.append([began, time.time() * 1000 - began])


async def talk(client, count, over):
    due = time.monotonic() + client.at * PACE / count
    while not over.is_set():
        await asyncio.sleep(max(0.0, min(0.5, due - time.monotonic())))
        if time.monotonic() >= due and not over.is_set():
            due += PACE
            await client.speak()


async def main():
    options = argparse.ArgumentParser()
    options.add_argument("--urls", required=True)
    options.add_argument("--clients", type=int, required=True)
    options = options.parse_args()
    urls = options.urls.split(",")
    over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    clients = [Client(at) for at in range(options.clients)]
    for client in clients:
        await client.open(urls[client.at % len(urls)])
    print("ready", flush=True)
    await asyncio.gather(*(talk(client, len(clients), over) for client in clients))
    await asyncio.sleep(5)
    # A number that nobody has heard by now is lost.
    for client in clients:
        for other in clients:
            if other is not client and other.room == client.room:
                client.counts["lost"] += other.counts["said"] - client.heard.get(other.at, 0)
    sums = {name: sum(client.counts[name] for client in clients) for name in COUNTS}
    print(json.dumps({**sums, "delays": [delay for client in clients for delay in client.delays]}), flush=True)


asyncio.run(main())
