"""For whom a command is."""

import unittest

from sockeye_worker import Worker
from sockeye_worker.worker import Socket
from sockeye_worker.worker_pb2 import Connect


class TargetTest(unittest.TestCase):
    def setUp(self):
        self.worker = Worker("127.0.0.1:1", key="k", backend="b")
        self.socket = Socket(self.worker, Connect(socket="s" * 20))

    def test_an_empty_list_of_rooms_was_everybody(self):
        for operator in (self.worker, self.socket.others):
            for act in ("emit", "join", "leave"):
                with self.assertRaisesRegex(ValueError, "nobody is meant"):
                    getattr(operator.to(*[]).but("a"), act)("x")
            with self.assertRaisesRegex(ValueError, "nobody is meant"):
                operator.to(*[]).disconnect()

    def test_everybody_is_said(self):
        def told(operator):
            target = operator._target
            return target.all, list(target.rooms), list(getattr(target, "except"))

        self.assertEqual(told(self.worker.but("a").volatile), (True, [], ["a"]))
        self.assertEqual(told(self.socket.others), (True, [], [self.socket.id]))
        self.assertEqual(told(self.socket.others.to("a")), (False, ["a"], [self.socket.id]))
        self.assertEqual(told(self.worker.to("a").to("b")), (False, ["a", "b"], []))
        self.assertEqual(told(self.socket), (False, [self.socket.id], []))
