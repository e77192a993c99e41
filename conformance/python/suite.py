"""What python-socketio must find at a server: each scenario over each flavour and each use of the transports."""

import asyncio
import os
import unittest

import socketio

from clients import Asyncio, Threaded

URL = os.environ["CONFORMANCE_URL"].rstrip("/")
TEXTS = ["é ß λόγος 汉字", "😀 𝄞", "a\u2028b", "nul \x00 and \x1f", "a\x1eb\x1e", '"\\/\b\f\n\r\t', '42["x"],2probe']
IS_REFERENCE = os.environ.get("CONFORMANCE_PEER") == "reference"
# python-engineio refuses polling payloads of more than 16 packets and drops the session.
PAYLOAD_PACKETS_MAX = 16
IDLE_SECONDS = 1.5


class Scenarios:
    """Mixed into a test case per flavour and transport; `flavour` and `transports` are set there."""

    async def asyncSetUp(self):
        # Debug mode, unittest's default, slows the clients down and prints pages about open pools.
        asyncio.get_running_loop().set_debug(False)

    async def client(self, **options):
        client = self.flavour(URL, self.transports, **options)
        self.addAsyncCleanup(client.close)
        return await client.connect()

    async def test_connects_over_the_wanted_transport(self):
        client = await self.client()
        self.assertEqual(client.transport, self.transports[-1])
        self.assertEqual(len(client.id), 20)
        who = await client.call("who")
        self.assertEqual(who["id"], client.id)
        self.assertEqual(who["transport"], self.transports[-1])

    async def test_auth_payload_reaches_the_server(self):
        client = await self.client(auth={"user": "ann", "n": [1, None]})
        self.assertEqual((await client.call("who"))["auth"], {"user": "ann", "n": [1, None]})

    async def test_main_namespace_greets_with_the_auth_payload(self):
        client = self.flavour(URL, self.transports, namespace="/", auth={"token": "x"})
        self.addAsyncCleanup(client.close)
        greeting = client.inbox("auth")
        back = client.inbox("message-back")
        await client.connect()
        self.assertEqual(await greeting.one(), ({"token": "x"},))
        await client.emit("message", 1, "two", {"three": [3]})
        self.assertEqual(await back.one(), (1, "two", {"three": [3]}))

    async def test_unknown_namespace_is_refused(self):
        with self.assertRaises(socketio.exceptions.ConnectionError):
            await self.client(namespace="/nowhere")

    async def test_refusal_carries_message_and_data(self):
        client = self.flavour(URL, self.transports, namespace="/forbidden")
        self.addAsyncCleanup(client.close)
        errors = client.inbox("connect_error")
        with self.assertRaises(socketio.exceptions.ConnectionError):
            await client.connect()
        (error,) = await errors.one()
        self.assertEqual(error, {"message": "not authorized", "data": {"code": "E_AUTH", "retry": False}})

    async def test_values_of_every_json_kind_come_back(self):
        client = await self.client()
        for value in [1, -1, 1.5, "text", "", True, False, None, [], {}, {"a": [{"b": [None]}]}]:
            self.assertEqual(await client.call("echo", value, "and"), (value, "and"))

    async def test_texts_survive(self):
        client = await self.client()
        for text in TEXTS:
            self.assertEqual(await client.call("echo", text), text)

    async def test_acks_both_ways(self):
        client = await self.client()
        client.on("question", lambda *args: ("fine", *args))
        answer = client.inbox("answer")
        await client.emit("ask", 1, "two")
        self.assertEqual(await answer.one(), ("fine", 1, "two"))
        self.assertIsNone(await client.call("echo"))
        self.assertEqual(await client.call("echo", 1, 2, 3), (1, 2, 3))

    async def test_binary_both_ways(self):
        client = await self.client()
        for size in [0, 1, 126, 65_536, 150_000]:
            blob = os.urandom(size)
            self.assertEqual(await client.call("echo", blob), blob)
        self.assertEqual(await client.call("length", b"1234567"), 7)
        client.on("question", lambda blob: {"twice": blob + blob})
        answer = client.inbox("answer")
        await client.emit("ask", b"ab")
        self.assertEqual(await answer.one(), ({"twice": b"abab"},))

    async def test_several_attachments_stay_at_their_places(self):
        client = await self.client()
        value = {"list": [bytes([i]) * i for i in range(10)], "text": "between"}
        self.assertEqual(await client.call("echo", value), value)

    def burst(self):
        """How many packets at once this client is to survive."""
        # Node puts any number of packets into one payload, so there this client survives no more.
        return PAYLOAD_PACKETS_MAX - 1 if IS_REFERENCE and self.transports == ["polling"] else 100

    async def test_burst_of_more_than_one_payload_is_complete(self):
        client = await self.client()
        ticks = client.inbox("tick")
        await client.emit("burst", "tick", self.burst())
        await self.assert_counted(client, ticks)

    async def test_many_events_from_the_client_are_complete(self):
        client = await self.client()
        echoes = client.inbox("echo")
        for i in range(self.burst()):
            await client.emit("echo", i)
        await self.assert_counted(client, echoes)

    async def assert_counted(self, client, inbox):
        seen = [i for (i,) in await inbox.until(self.burst())]
        self.assertEqual(seen if client.keeps_order else sorted(seen), list(range(self.burst())))
        self.assertEqual(await client.call("echo", "alive"), "alive")

    async def test_rooms(self):
        sender, member, stranger = await asyncio.gather(*(self.client() for _ in range(3)))
        room = f"python-{sender.id}"
        self.assertEqual(set(await member.call("join", room)), {member.id, room})
        await sender.call("join", room)
        heard = [client.inbox("said") for client in (sender, member, stranger)]
        markers = [client.inbox(f"everyone-{sender.id}") for client in (sender, member, stranger)]
        await sender.emit("to", room, "said", "hello")
        await sender.emit("in", room, "said", b"\x01\x02")
        await sender.emit("all", f"everyone-{sender.id}")
        for marker in markers:
            await marker.one()
        # The threaded client runs handlers side by side, so the marker may overtake by a moment.
        await heard[0].until(1)
        await heard[1].until(2)
        self.assertEqual(heard[0].items, [(b"\x01\x02",)])
        self.assertCountEqual(heard[1].items, [("hello",), (b"\x01\x02",)])
        self.assertEqual(heard[2].items, [])

    async def test_collect_and_fetch(self):
        a, b = await asyncio.gather(self.client(auth={"user": "a"}), self.client(auth={"user": "b"}))
        room = f"python-{a.id}"
        for client in (a, b):
            await client.call("join", room)
            client.on("poll", lambda x: x + 1)
        self.assertEqual(await a.call("collect", room, 3000, "poll", 1), (None, [2, 2]))
        error, found = await a.call("fetch", room)
        self.assertIsNone(error)
        self.assertCountEqual([(s["id"], s["data"]["user"]) for s in found], [(a.id, "a"), (b.id, "b")])

    async def test_kick(self):
        client = await self.client()
        await client.emit("kick")
        reason = await client.disconnects.one()
        self.assertEqual(reason, client.client.reason.SERVER_DISCONNECT)
        self.assertFalse(client.connected)

    async def test_kick_close(self):
        client = await self.client()
        await client.emit("kick-close")
        await client.disconnects.one()
        self.assertFalse(client.connected)

    async def test_drop(self):
        # A polled close packet counts as final at this client, a closed WebSocket does not.
        client = await self.client(reconnection=self.transports != ["polling"])
        first = client.id
        await client.emit("drop")
        await client.disconnects.one()
        if self.transports == ["polling"]:
            self.assertFalse(client.connected)
            observer = await self.client()
            _, found = await observer.call("fetch", first)
            self.assertEqual(found, [])
            return
        for _ in range(100):
            if client.connected and client.id not in (None, first):
                break
            await asyncio.sleep(0.05)
        self.assertNotEqual(client.id, first)
        self.assertEqual(await client.call("echo", "back"), "back")

    async def test_own_disconnect_is_seen_by_the_server(self):
        observer, client = await self.client(), await self.client()
        gone = client.id
        await client.close()
        # About once in a hundred times the threaded client ends before its packets are sent, and the
        # server learns of it by its heartbeat.
        for _ in range(400):
            _, found = await observer.call("fetch", gone)
            if not found:
                break
            await asyncio.sleep(0.02)
        self.assertEqual(found, [])

    async def test_idle_connection_stays_up(self):
        client = await self.client()
        await asyncio.sleep(IDLE_SECONDS)
        self.assertEqual(client.disconnects.items, [])
        self.assertEqual(await client.call("echo", "awake"), "awake")


TRANSPORTS = {"Polling": ["polling"], "Websocket": ["websocket"], "Upgrade": ["polling", "websocket"]}


def load():
    """One test case per flavour and way of using the transports."""
    suite = unittest.TestSuite()
    for flavour in (Threaded, Asyncio):
        for way, transports in TRANSPORTS.items():
            members = {"flavour": flavour, "transports": transports}
            case = type(f"{flavour.__name__}{way}", (Scenarios, unittest.IsolatedAsyncioTestCase), members)
            suite.addTests(unittest.defaultTestLoader.loadTestsFromTestCase(case))
    return suite
