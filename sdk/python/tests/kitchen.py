"""The worker that the tests start and kill:  kitchen.py ADDRESS KEY [PEM of the authority, of the certificate, of its key]"""

import asyncio
import os
import sys
from pathlib import Path

from sockeye_worker import Refused, Tls, Worker, redelivered, traceparent

address, key, *files = sys.argv[1:]
tls = Tls(*(Path(file).read_bytes() for file in files)) if files else None
worker = Worker(address, key=key, backend="kitchen", tls=tls)
game = worker.of("/game")


@worker.connect
def decide(socket):
    if socket.auth.get("bad"):
        raise Refused("not you", {"code": 7})


@worker.connected
def arrived(socket):
    if socket.recovered:
        return
    socket.data["since"] = "start"
    socket.join("kitchen")
    socket.emit("hello", socket.id)


@worker.disconnected
def left(socket, reason):
    worker.to("kitchen").emit("left", reason, sorted(socket.rooms - {socket.id}))


@worker.on("echo")
async def echo(socket, *args):
    return args


@worker.on("count")
async def count(socket, n):
    # Some are slow: others must not overtake them for this socket, and must for other sockets.
    if n % 50 == 0:
        await asyncio.sleep(0.01)
    socket.data["last"] = n
    return n, socket.redelivered


@worker.on("news")
def news(socket, text):
    socket.others.to("kitchen").emit("news", text)


@worker.on("survey")
async def survey(socket):
    return await worker.to("kitchen").ask("question", timeout=10)


@worker.on("who")
async def who(socket):
    return [[member.id, sorted(member.rooms), member.data] for member in await worker.to("kitchen").fetch()]


@worker.on("move")
def move(socket, old, new):
    socket.leave(old)
    socket.join(new)
    worker.to(new).but("kitchen").emit("moved", new)
    return True


@worker.on("fail")
def fail(socket):
    raise KeyError("what a handler throws does not end the worker")


@worker.on("wrong")
async def wrong(socket):
    try:
        await worker.ask("")
    except ValueError as error:
        return str(error)


@worker.on("leave me")
def end(socket):
    socket.disconnect()


@game.on("where")
def where(socket):
    return socket.namespace.name, socket.query.get("room"), socket.headers.get("x-table"), socket.transport


@worker.on("consult")
async def consult(socket, event, *args):
    return await worker.servers.ask(event, *args)


@worker.servers.on("double")
async def double(value):
    return value * 2


@worker.servers.on("break")
def broken():
    raise KeyError("a server that asks gets an answer")


@worker.on("announce")
def announce(socket, text):
    worker.servers.emit("announce", text)


@worker.servers.on("announce")
def announced(text):
    worker.to("kitchen").emit("news", text)


@worker.on("trace")
async def trace(socket):
    asyncio.create_task(tell_later(socket))
    return traceparent()


async def tell_later(socket):
    socket.emit("news", "later")


async def tell(event, n):
    await asyncio.sleep(0.01)
    worker.to("kitchen").emit("news", [event, n, redelivered()])


@worker.on("never")
async def never(socket, n):
    # In a task that the handler starts.
    asyncio.create_task(tell("never", n))
    await asyncio.Event().wait()


@worker.on("note")
async def note(socket, n):
    worker.to("kitchen").emit("news", ["note", n, redelivered()])


@worker.on("deadly")
async def deadly(socket):
    os._exit(9)


@worker.node_gone
def gone(node, life):
    worker.to("kitchen").emit("gone", node)


asyncio.run(worker.run(ready=lambda: print("ready", flush=True)))
