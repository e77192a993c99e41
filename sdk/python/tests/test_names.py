"""Names that clients choose."""

import asyncio
import unittest

from sockeye_worker import Refused, Worker
from sockeye_worker.link import Link
from sockeye_worker.progress import Progress
from sockeye_worker.worker_pb2 import Connect, Item
from stage import Stage

ALL = '[namespaces."*"]\nbackend = "kitchen"'
INVALID = {"message": "Invalid namespace"}


def decide(socket):
    if not (socket.auth or {}).get("token"):
        raise Refused("who are you?")


def closed(worker):
    """The namespace `/` lets nobody in without a token, `/feed` has no handler."""
    worker.connect(decide)
    worker.of("/feed")


def catching(worker):
    closed(worker)
    every = worker.of("*")
    every.connect(decide)
    every.on("where")(lambda socket: socket.namespace.name)
    every.servers.on("double")(lambda value: value * 2)
    worker.of("/own").on("where")(lambda socket: "own")


class NamesTest(unittest.IsolatedAsyncioTestCase):
    async def test_strangers_were_in_namespaces_that_the_program_does_not_have(self):
        async with Stage(more=ALL) as stage, stage.own_worker(closed) as worker:
            self.assertEqual(await stage.refusal({}), {"message": "who are you?"})
            self.assertEqual(await stage.refusal({}, "/any"), INVALID)
            # What is for a name does not open it.
            worker.of("/any").emit("news", "for nobody")
            self.assertEqual(await stage.refusal({}, "/any"), INVALID)
            feed = await stage.client("/feed")
            worker.of("/feed").emit("news", "for all")
            self.assertEqual(await feed.heard.get(), ("news", "for all"))
            # A handler does, whenever it comes.
            worker.of("/any").on("where")(lambda socket: socket.namespace.name)
            self.assertEqual(await (await stage.client("/any")).call("where", namespace="/any"), "/any")

    async def test_a_program_may_have_every_namespace(self):
        async with Stage(more=ALL) as stage, stage.own_worker(catching) as worker, stage.own_worker() as other:
            other.stop()
            for name in ("/any", "/feed"):
                self.assertEqual(await stage.refusal({}, name), {"message": "who are you?"})
                worker.of(name).emit("news", "for members")
                self.assertEqual(await stage.refusal({}, name), {"message": "who are you?"})
                guest = await stage.client(name, auth={"token": 1})
                self.assertEqual(await guest.call("where", namespace=name), name)
            self.assertEqual(await (await stage.client("/own")).call("where", namespace="/own"), "own")
            every = worker.of("*")
            for say in (every.emit, every.to("room").emit, every.servers.emit):
                with self.assertRaisesRegex(ValueError, "no command is for all namespaces"):
                    say("news")

    async def test_servers_of_every_namespace_are_answered(self):
        async with Stage(more=ALL) as stage, stage.own_worker(catching), stage.own_worker() as other:
            for name in ("/any", "/own"):
                self.assertEqual(await other.of(name).servers.ask("double", 2), [4])

    async def test_a_socket_whose_namespace_the_next_worker_does_not_have_is_sent_away(self):
        async with Stage(more=ALL) as stage:
            async with stage.own_worker(lambda worker: worker.of("/past")) as first:
                guest = await stage.client("/past")
                async with stage.own_worker(closed):
                    first.stop()
                    while not guest.lost:
                        await asyncio.sleep(0.01)
                    self.assertEqual(guest.lost, ["server disconnect"])

    async def test_each_namespace_that_a_client_named_was_kept_for_ever(self):
        worker = Worker("127.0.0.1:1", key="k", backend="b")
        worker.of("/game")
        worker._attached = Link(*worker._settings, take=worker._take, lost=worker._forget)
        for number in range(100):
            worker._take(Item(connect=Connect(socket=f"{number:020}", namespace=f"/{number}")), Progress().take())
        self.assertEqual(list(worker._namespaces), ["/", "/game"])
        self.assertEqual(worker._desks[f"{7:020}"].socket.namespace.name, "/7")
        for desk in worker._desks.values():
            desk.task.cancel()

    async def test_a_room_that_is_no_text_was_not_joined_and_stayed_in_rooms(self):
        worker = Worker("127.0.0.1:1", key="k", backend="b")
        worker._attached = Link(*worker._settings, take=worker._take, lost=worker._forget)
        for socket in ("a" * 20, "b" * 20):
            worker._take(Item(connect=Connect(socket=socket, namespace="/")), Progress().take())
        one, other = (desk.socket for desk in worker._desks.values())
        with self.assertRaises(UnicodeEncodeError):
            one.join("\ud800")
        self.assertEqual(one.rooms, {one.id})
        # The gateway gave this worker up: each socket is told, and the first one stopped that.
        worker._forget()
        for socket in (one, other):
            desk = worker._desks[socket.id]
            self.assertEqual(desk._items.get_nowait()[0], "gone")
            desk.task.cancel()
