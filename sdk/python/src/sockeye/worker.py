"""A worker: what the gateway asks of it, in coroutines. The gateway holds the sockets; this process holds the logic."""

import asyncio
import contextlib
import inspect
import itertools
import json
import logging
import signal
import uuid
from urllib.parse import parse_qsl

from . import worker_pb2 as proto
from .codec import decode, dump, encode
from .link import Link

log = logging.getLogger("sockeye")

ASK_TIMEOUT_S = 10.0


class Refused(Exception):
    """Raised by a `connect` handler: the client gets CONNECT_ERROR with this message and data."""

    def __init__(self, message, data=None):
        super().__init__(message)
        self.message = message
        self.data = data


class AskTimeout(Exception):
    """Some were asked and did not answer in time. `answers` has what came."""

    def __init__(self, answers, missing):
        super().__init__(f"no answer in time from {missing} of {missing + len(answers)} sockets")
        self.answers = answers
        self.missing = missing


class Operator:
    """The sockets that a command is for. Each call gives a new one."""

    def __init__(self, namespace, rooms=(), except_rooms=(), volatile=False):
        self._namespace = namespace
        self._rooms = tuple(rooms)
        self._except = tuple(except_rooms)
        self._volatile = volatile

    def to(self, *rooms):
        """Members of these rooms; the id of a socket is a room that holds it alone."""
        return Operator(self._namespace, self._rooms + rooms, self._except, self._volatile)

    def but(self, *rooms):
        """Without the members of these rooms."""
        return Operator(self._namespace, self._rooms, self._except + rooms, self._volatile)

    @property
    def volatile(self):
        """Dropped for clients that cannot take it this instant."""
        return Operator(self._namespace, self._rooms, self._except, True)

    @property
    def _target(self):
        target = proto.Target(namespace=self._namespace.name, rooms=self._rooms)
        getattr(target, "except").extend(self._except)
        return target

    def _emission(self, event, args):
        encoded, attachments = encode(args)
        return proto.Emit(to=self._target, event=event, args=encoded, attachments=attachments, volatile=self._volatile)

    def _command(self, **what):
        return self._namespace.worker.command(**what)

    def emit(self, event, *args):
        self._command(emit=self._emission(event, args))

    async def ask(self, event, *args, timeout=ASK_TIMEOUT_S):
        """The first argument of each answer; raises `AskTimeout` if some are missing."""
        ask = proto.Ask(emit=self._emission(event, args), timeout_ms=round(timeout * 1000))
        found = await self._namespace.worker.query(ask=ask)
        answers = [(decode(answer.args, answer.attachments) or [None])[0] for answer in found.answers]
        if found.missing:
            raise AskTimeout(answers, found.missing)
        return answers

    async def fetch(self, timeout=ASK_TIMEOUT_S):
        """The sockets that are meant, wherever their workers are."""
        fetch = proto.Fetch(of=self._target, timeout_ms=round(timeout * 1000))
        found = await self._namespace.worker.query(fetch=fetch)
        return [Member(self._namespace, member) for member in found.sockets]

    def join(self, *rooms):
        self._command(join=proto.Membership(of=self._target, rooms=rooms))

    def leave(self, *rooms):
        self._command(leave=proto.Membership(of=self._target, rooms=rooms))

    def disconnect(self, close=False):
        """With `close` the whole connection ends, with all its namespaces."""
        self._command(disconnect=proto.Disconnect(of=self._target, close=close))


class Member(Operator):
    """A socket that `fetch` found: as it was then."""

    def __init__(self, namespace, member):
        super().__init__(namespace, [member.socket])
        self.id = member.socket
        self.rooms = set(member.rooms)
        self.data = json.loads(member.data or "{}")


class Socket(Operator):
    """A client in a namespace, while this worker has it."""

    def __init__(self, namespace, connect):
        super().__init__(namespace, [connect.socket])
        self.id = connect.socket
        self.namespace = namespace
        self.auth = json.loads(connect.auth or b"{}")
        self.query = dict(parse_qsl(connect.query, keep_blank_values=True))
        self.headers = {header.name.lower(): header.value.decode("latin-1") for header in connect.headers}
        self.address = connect.address
        self.user = connect.user or None
        self.rooms = {self.id}
        # Goes with the socket when it moves to another worker. Sent after each handler, if it has changed.
        self.data = {}
        self.recovered = False
        # Whether another worker, or an earlier run of this one, may have handled the event already.
        self.redelivered = False
        self._said = "{}"

    def join(self, *rooms):
        self.rooms.update(rooms)
        super().join(*rooms)

    def leave(self, *rooms):
        self.rooms.difference_update(rooms)
        super().leave(*rooms)

    def others(self, *rooms):
        """The other members of these rooms, or of the namespace."""
        return Operator(self.namespace, rooms, [self.id])

    async def ask(self, event, *args, timeout=ASK_TIMEOUT_S):
        """The first argument of the client's answer."""
        answers = await super().ask(event, *args, timeout=timeout)
        if not answers:
            raise AskTimeout([], 1)
        return answers[0]

    def _save(self):
        data = dump(self.data)
        if data != self._said:
            self._said = data
            self._command(set_data=proto.SetData(socket=self.id, data=data))

    def _restore(self, resume):
        self.rooms.update(resume.rooms)
        self._said = resume.data or "{}"
        self.data = json.loads(self._said)
        self.recovered = True


class Namespace(Operator):
    def __init__(self, worker, name):
        super().__init__(self)
        self.worker = worker
        self.name = name
        self.handlers = {}

    def on(self, event):
        """Decorates the handler of an event: `async def order(socket, dish)`. What it returns is the ack."""
        return lambda handler: self._register(("event", event), handler)

    def connect(self, handler):
        """Decides: raises `Refused`, or lets the client in. Not called for sockets that come from another worker."""
        return self._register("connect", handler)

    def connected(self, handler):
        """The socket is in; also one that comes from another worker (`socket.recovered`)."""
        return self._register("connected", handler)

    def disconnected(self, handler):
        """The socket is gone: `async def left(socket, reason)`. `socket.rooms` are those that it was in."""
        return self._register("disconnected", handler)

    def _register(self, name, handler):
        if name in self.handlers:
            raise ValueError(f"cannot register {handler.__name__} for {name!r} in {self.name}: {self.handlers[name].__name__} is registered")
        self.handlers[name] = handler
        return handler

    async def call(self, name, *args):
        handler = self.handlers.get(name)
        if handler is None:
            return None
        result = handler(*args)
        return await result if inspect.isawaitable(result) else result


class Worker(Namespace):
    """The worker, and its namespace `/`."""

    def __init__(self, gateway, *, key, backend, weight=1, tls=None):
        """`gateway`: `host:port`, or `https://host:port` for TLS; `tls` is a `Tls`."""
        self._settings = (gateway, key, backend, uuid.uuid4().hex, weight, tls)
        self._namespaces = {"/": self}
        self._desks = {}
        self._queries = {}
        self._numbers = itertools.count(1)
        self._link = None
        super().__init__(self, "/")

    def of(self, name):
        if name not in self._namespaces:
            self._namespaces[name] = Namespace(self, name)
        return self._namespaces[name]

    async def run(self, ready=None):
        """Until `stop()` or SIGTERM; the sockets are handed over then. Raises `LinkRefused`. `ready()` is called when the gateway
        has welcomed the worker."""
        self._link = Link(*self._settings, take=self._take, lost=self._forget)
        # Only the main thread hears signals.
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.stop)
        link = asyncio.create_task(self._link.run())
        welcomed = asyncio.create_task(self._link.welcomed.wait())
        await asyncio.wait([link, welcomed], return_when=asyncio.FIRST_COMPLETED)
        if self._link.welcomed.is_set() and ready is not None:
            ready()
        try:
            await link
        finally:
            welcomed.cancel()
            self._drop_queries("this worker has ended")
            desks = [desk.task for desk in self._desks.values()]
            for task in desks:
                task.cancel()
            await asyncio.gather(*desks, return_exceptions=True)

    def stop(self):
        """Finishes what it has and hands the sockets over; `run` returns then."""
        self._link.leave()

    def command(self, **what):
        if self._link is None:
            raise ConnectionError("cannot send a command: call it from a handler, or after `run` has called `ready`")
        return self._link.command(proto.Command(**what))

    async def query(self, **what):
        [(name, message)] = what.items()
        message.query = next(self._numbers)
        answer = asyncio.get_running_loop().create_future()
        number = self.command(**{name: message})
        self._queries[message.query] = (number, answer)
        return await answer

    def _take(self, item, progress):
        what = item.WhichOneof("what")
        value = getattr(item, what) if what else None
        if what in ("answers", "found"):
            self._answered(value)
        elif what == "failed":
            self._failed(value)
        elif what in ("connect", "resume", "event", "gone"):
            return self._to_desk(what, value, item.redelivered, progress)
        # Kinds of items that a newer gateway has are passed over.
        progress.done = True
        self._link.progressed()

    def _to_desk(self, what, value, redelivered, progress):
        connect = value.connect if what == "resume" else value
        if what in ("connect", "resume"):
            socket = Socket(self.of(connect.namespace), connect)
            self._desks[socket.id] = Desk(socket, self._link, self._closed)
        desk = self._desks.get(connect.socket)
        if desk:
            desk.put(what, value, redelivered, progress)
        else:
            progress.done = True
            self._link.progressed()

    def _closed(self, desk):
        if self._desks.get(desk.socket.id) is desk:
            del self._desks[desk.socket.id]

    def _answered(self, value):
        _, answer = self._queries.pop(value.query, (0, None))
        if answer and not answer.done():
            answer.set_result(value)

    def _failed(self, failed):
        log.error("command %d failed: %s", failed.command, failed.message)
        for query, (number, answer) in list(self._queries.items()):
            if number == failed.command:
                del self._queries[query]
                if not answer.done():
                    answer.set_exception(ValueError(failed.message))

    def _forget(self):
        """The gateway gave this worker up, and its sockets to others."""
        for desk in list(self._desks.values()):
            desk.lose()
        self._drop_queries("the gateway gave this worker's sockets to others")

    def _drop_queries(self, why):
        for _, answer in self._queries.values():
            if not answer.done():
                answer.set_exception(ConnectionError(why))
        self._queries.clear()


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
            try:
                open_ = await getattr(self, f"_{what}")(value, redelivered)
                if open_:
                    self.socket._save()
            except ConnectionError as error:
                log.warning("a handler of %s went on after the end: %s", self.socket.id, error)
            except Exception:
                log.exception("cannot handle %s of %s", what, self.socket.id)
            if progress:
                progress.done = True
                self._link.progressed()
        self._closed(self)

    async def _connect(self, connect, _):
        socket, decision = self.socket, proto.Decision(socket=self.socket.id)
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

    async def _resume(self, resume, _):
        self.socket._restore(resume)
        await self._tell("connected", self.socket)
        return True

    async def _event(self, event, redelivered):
        socket = self.socket
        socket.redelivered = redelivered
        handlers = socket.namespace.handlers
        try:
            # A client that waits gets an answer, whatever happens.
            answer = {"error": "No handler knows this event"}
            if ("event", event.event) in handlers:
                answer = await socket.namespace.call(("event", event.event), socket, *decode(event.args, event.attachments))
            self._ack(event, answer)
        except Exception:
            log.exception("cannot handle %r of %s", event.event, socket.id)
            self._ack(event, {"error": "The handler failed"})
        return True

    async def _gone(self, gone, _):
        self.socket.rooms = set(gone.rooms)
        await self._tell("disconnected", self.socket, gone.reason)
        return False

    async def _tell(self, name, *args):
        try:
            await self.socket.namespace.call(name, *args)
        except Exception:
            log.exception("the handler `%s` failed for %s", name, self.socket.id)

    def _ack(self, event, answer):
        if event.ack:
            values = answer if isinstance(answer, tuple) else () if answer is None else (answer,)
            args, attachments = encode(values)
            ack = proto.Ack(socket=self.socket.id, ack=event.ack, args=args, attachments=attachments)
            self._link.command(proto.Command(ack=ack))
