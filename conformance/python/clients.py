"""The two flavours of python-socketio behind one asyncio face, so that each scenario is written once."""

import asyncio
import os
import threading

import socketio

WAIT_SECONDS = 5
# `msgpack` against a server with that parser.
SERIALIZER = os.environ.get("CONFORMANCE_PARSER", "default")


class Inbox:
    """What arrived for one event. Filled from any thread, awaited from the test's loop."""

    def __init__(self):
        self.items = []
        self._changed = threading.Condition()

    def put(self, item):
        with self._changed:
            self.items.append(item)
            self._changed.notify_all()

    async def until(self, count, seconds=WAIT_SECONDS):
        """The items once there are at least `count`; fails the test otherwise."""
        arrived = await asyncio.to_thread(self._wait, count, seconds)
        if not arrived:
            raise AssertionError(f"waited {seconds} s for {count} items, got {len(self.items)}: {self.items[:5]}")
        return list(self.items)

    async def one(self):
        return (await self.until(1))[0]

    def _wait(self, count, seconds):
        with self._changed:
            return self._changed.wait_for(lambda: len(self.items) >= count, seconds)


class Flavour:
    """What both flavours share: registering handlers and naming things."""

    def __init__(self, url, transports, namespace="/lab", auth=None, reconnection=False):
        self.url = url
        self.transports = transports
        self.namespace = namespace
        self.auth = auth
        self.client = self._make(reconnection)
        self.disconnects = Inbox()
        self.client.on("disconnect", self.disconnects.put, namespace=namespace)

    def inbox(self, event):
        inbox = Inbox()
        self.client.on(event, lambda *args: inbox.put(args), namespace=self.namespace)
        return inbox

    def on(self, event, answer):
        """Registers `answer`; what it returns is the acknowledgement."""
        self.client.on(event, answer, namespace=self.namespace)

    @property
    def id(self):
        return self.client.get_sid(self.namespace)

    @property
    def transport(self):
        return self.client.transport()

    @property
    def connected(self):
        return self.client.connected and self.namespace in self.client.namespaces


class Threaded(Flavour):
    """`socketio.Client`. It handles each message in a thread of its own, so it may itself reorder."""

    keeps_order = False

    def _make(self, reconnection):
        return socketio.Client(
            reconnection=reconnection, reconnection_delay=0.05, reconnection_delay_max=0.1, serializer=SERIALIZER
        )

    async def connect(self):
        await asyncio.to_thread(
            self.client.connect,
            self.url,
            auth=self.auth,
            transports=self.transports,
            namespaces=[self.namespace],
            wait_timeout=WAIT_SECONDS,
        )
        return self

    async def emit(self, event, *args):
        await asyncio.to_thread(self.client.emit, event, args or None, self.namespace)

    async def call(self, event, *args):
        return await asyncio.to_thread(self.client.call, event, args or None, self.namespace, WAIT_SECONDS)

    async def close(self):
        await asyncio.to_thread(self.client.shutdown)


class Asyncio(Flavour):
    """`socketio.AsyncClient`."""

    keeps_order = True

    def _make(self, reconnection):
        return socketio.AsyncClient(
            reconnection=reconnection, reconnection_delay=0.05, reconnection_delay_max=0.1, serializer=SERIALIZER
        )

    async def connect(self):
        await self.client.connect(
            self.url,
            auth=self.auth,
            transports=self.transports,
            namespaces=[self.namespace],
            wait_timeout=WAIT_SECONDS,
        )
        return self

    async def emit(self, event, *args):
        await self.client.emit(event, args or None, self.namespace)

    async def call(self, event, *args):
        return await self.client.call(event, args or None, self.namespace, WAIT_SECONDS)

    async def close(self):
        await self.client.shutdown()
        # The client leaves its HTTP pool open when the server ended the session.
        if self.client.eio.http and not self.client.eio.http.closed:
            await self.client.eio.http.close()
