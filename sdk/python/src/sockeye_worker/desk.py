"""What one socket sends, handled one after the other."""

import asyncio
import logging

from . import worker_pb2 as proto
from .codec import decode, dump, encode
from .errors import Refused
from .mark import mark
from .trace import enter

log = logging.getLogger("sockeye_worker")

UNKNOWN = {"error": "No handler knows this event"}
FAILED = {"error": "The handler failed"}


class Desk:
    """Handles what one socket sends, one after the other; the desks of other sockets go on meanwhile."""

    def __init__(self, socket, link, closed):
        self.socket = socket
        self._link = link
        self._closed = closed
        self._items = asyncio.Queue()
        self.task = asyncio.create_task(self._run())

    def put(self, *item):
        self._items.put_nowait(item)

    def lose(self):
        """What waits is another worker's now."""
        while not self._items.empty():
            self._items.get_nowait()
        self.put("gone", proto.Gone(reason="worker replaced", rooms=self.socket.rooms), False, None)

    async def _run(self):
        open_ = True
        while open_:
            what, value, redelivered, progress = await self._items.get()
            # An item of a worker that was given up meanwhile is another worker's.
            if progress and not await self._link.begins(progress):
                continue
            enter(getattr(value, "traceparent", ""))
            mark(redelivered and what == "event")
            late = self._link.watch(progress, value.event) if what == "event" else None
            try:
                open_ = await getattr(self, f"_{what}")(value)
                if open_:
                    self.socket._save()
            except ConnectionError as error:
                log.warning("a handler of %s went on after the end: %s", self.socket.id, error)
            except Exception:
                log.exception("cannot handle %s of %s", what, self.socket.id)
            if late:
                late.cancel()
            self._done(progress)
        self._closed(self)
        # The end of a client that left while it was being refused.
        while not self._items.empty():
            self._done(self._items.get_nowait()[-1])

    def _done(self, progress):
        if progress:
            self._link.done(progress)

    async def _connect(self, connect):
        socket, decision = self.socket, proto.Decision(socket=self.socket.id)
        try:
            try:
                await socket.namespace.call("connect", socket)
                decision.admit = True
            except Refused as refused:
                decision.message = refused.message
                decision.data = "" if refused.data is None else dump(refused.data)
        except Exception:
            log.exception("cannot decide whether %s comes in", socket.id)
            decision.message = "internal error"
        self._link.command(proto.Command(decision=decision))
        if decision.admit:
            await self._tell("connected", socket)
        return decision.admit

    async def _resume(self, resume):
        self.socket._restore(resume)
        await self._tell("connected", self.socket)
        return True

    async def _event(self, event):
        socket = self.socket
        handlers = socket.namespace.handlers
        try:
            # A client that waits gets an answer, whatever happens.
            answer = UNKNOWN
            if ("event", event.event) in handlers:
                answer = await socket.namespace.call(("event", event.event), socket, *decode(event.args, event.attachments))
            self._ack(event, answer)
        except Exception:
            log.exception("cannot handle %r of %s", event.event, socket.id)
            self._ack(event, FAILED)
        return True

    async def _upgraded(self, upgraded):
        self.socket.transport = upgraded.transport or "websocket"
        return True

    async def _gone(self, gone):
        self.socket.rooms = set(gone.rooms)
        await self._tell("disconnected", self.socket, gone.reason)
        return False

    async def _part(self, _part):
        """Another worker has the socket: its handlers there hear of its end."""
        return False

    async def _tell(self, name, *args):
        try:
            await self.socket.namespace.call(name, *args)
        except Exception:
            log.exception("the handler `%s` failed for %s", name, self.socket.id)

    def _ack(self, event, answer):
        if event.ack:
            args, attachments = encode(values_of(answer))
            ack = proto.Ack(socket=self.socket.id, ack=event.ack, args=args, attachments=attachments)
            self._link.command(proto.Command(ack=ack))


def values_of(answer):
    """What a handler returns: nothing, one value, or a tuple of values."""
    return answer if isinstance(answer, tuple) else () if answer is None else (answer,)
