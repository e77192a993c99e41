"""Names that clients choose."""

import unittest

from sockeye_worker import Worker
from sockeye_worker.link import Link
from sockeye_worker.progress import Progress
from sockeye_worker.worker_pb2 import Connect, Item


class NamesTest(unittest.IsolatedAsyncioTestCase):
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
