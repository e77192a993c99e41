"""A worker: what the gateway asks of it, in coroutines. The gateway holds the sockets; this process holds the logic."""

import asyncio
import contextlib
import inspect
import itertools
import json
import logging
import signal
import uuid
from collections.abc import Callable, Iterable
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from . import worker_pb2 as proto
from .codec import decode, dump, encode
from .desk import Desk
from .errors import AskTimeout, Refused
from .link import Link, Tls
from .mark import redelivered
from .servers import Servers
from .types_pb2 import Target

log = logging.getLogger("sockeye_worker")

Handler = TypeVar("Handler", bound=Callable[..., Any])

ASK_TIMEOUT_S = 10.0
# The gateway answers in time if it can; so long after it nothing is waited for any more.
LATE_S = 1.0
# Of a namespace whose handlers are for all that have none of their own.
EVERY = "*"


def refuse(socket: "Socket") -> None:
    raise Refused("Invalid namespace")


def send_away(socket: "Socket") -> None:
    socket.disconnect()


# Of a namespace that the program does not have. A socket of another worker may be in one, such as an earlier version of the program.
MISSING: dict[Any, Callable[..., Any]] = {"connect": refuse, "connected": send_away}


class Operator:
    """The sockets that a command is for. Each call gives a new one."""

    def __init__(
        self, namespace: "Namespace", rooms: Iterable[str] | None = None, except_rooms: Iterable[str] = (), volatile: bool = False
    ) -> None:
        self._namespace = namespace
        # None is the whole namespace, an empty list nobody.
        self._rooms = None if rooms is None else tuple(rooms)
        self._except = tuple(except_rooms)
        self._volatile = volatile

    def to(self, *rooms: str) -> "Operator":
        """Members of these rooms; the id of a socket is a room that holds it alone."""
        return Operator(self._namespace, (self._rooms or ()) + rooms, self._except, self._volatile)

    def but(self, *rooms: str) -> "Operator":
        """Without the members of these rooms."""
        return Operator(self._namespace, self._rooms, self._except + rooms, self._volatile)

    @property
    def volatile(self) -> "Operator":
        """Dropped for clients that cannot take it this instant."""
        return Operator(self._namespace, self._rooms, self._except, True)

    @property
    def _target(self):
        if self._rooms == ():
            raise ValueError("nobody is meant: name rooms, or leave out to() for the whole namespace")
        target = Target(namespace=self._namespace._addressee, rooms=self._rooms, all=self._rooms is None)
        getattr(target, "except").extend(self._except)
        return target

    def _emission(self, event, args):
        encoded, attachments = encode(args)
        return proto.Emit(to=self._target, event=event, args=encoded, attachments=attachments, volatile=self._volatile)

    def _command(self, **what):
        return self._namespace.worker.command(**what)

    def emit(self, event: str, *args: Any) -> None:
        self._command(emit=self._emission(event, args))

    async def ask(self, event: str, *args: Any, timeout: float = ASK_TIMEOUT_S) -> Any:
        """A list with the first argument of each answer; raises `AskTimeout` if some are missing, `ConnectionError` if the gateway does not answer."""
        ask = proto.Ask(emit=self._emission(event, args), timeout_ms=round(timeout * 1000))
        found = await self._namespace.worker.query(timeout, ask=ask)
        answers = [(decode(answer.args, answer.attachments) or [None])[0] for answer in found.answers]
        if found.missing:
            raise AskTimeout(answers, found.missing)
        return answers

    async def fetch(self, timeout: float = ASK_TIMEOUT_S) -> "list[Member]":
        """The sockets that are meant, wherever their workers are. Raises `ConnectionError` if the gateway does not answer, or not for all."""
        fetch = proto.Fetch(of=self._target, timeout_ms=round(timeout * 1000))
        found = await self._namespace.worker.query(timeout, fetch=fetch)
        if found.incomplete:
            raise ConnectionError("cannot fetch all sockets: a node of the cluster did not answer in time")
        return [Member(self._namespace, member) for member in found.sockets]

    def join(self, *rooms: str) -> None:
        self._command(join=proto.Membership(of=self._target, rooms=rooms))

    def leave(self, *rooms: str) -> None:
        self._command(leave=proto.Membership(of=self._target, rooms=rooms))

    def disconnect(self, close: bool = False) -> None:
        """With `close` the whole connection ends, with all its namespaces."""
        self._command(disconnect=proto.Disconnect(of=self._target, close=close))


class Member(Operator):
    """A socket that `fetch` found: as it was then."""

    def __init__(self, namespace: "Namespace", member: Any) -> None:
        super().__init__(namespace, [member.socket])
        self.id: str = member.socket
        self.rooms: set[str] = set(member.rooms)
        self.data: Any = json.loads(member.data or "{}")


class Socket(Operator):
    """A client in a namespace, while this worker has it."""

    def __init__(self, namespace: "Namespace", connect: Any) -> None:
        super().__init__(namespace, [connect.socket])
        self.id: str = connect.socket
        self.namespace = namespace
        self.auth: Any = json.loads(connect.auth or b"{}")
        self.query = dict(parse_qsl(connect.query, keep_blank_values=True))
        self.headers = {header.name.lower(): header.value.decode("latin-1") for header in connect.headers}
        self.address: str = connect.address
        self.user: str | None = connect.user or None
        # `polling`, `websocket` or `webtransport`.
        self.transport: str = connect.transport
        self.rooms: set[str] = {self.id}
        # Goes with the socket when it moves to another worker. Sent after each handler, if it has changed.
        self.data: Any = {}
        self.recovered = False
        self._said = "{}"

    @property
    def redelivered(self) -> bool:
        """Whether another worker, or an earlier run of this one, may have handled the event that is being handled."""
        return redelivered()

    def join(self, *rooms: str) -> None:
        super().join(*rooms)
        self.rooms.update(rooms)

    def leave(self, *rooms: str) -> None:
        super().leave(*rooms)
        self.rooms.difference_update(rooms)

    @property
    def others(self) -> Operator:
        """The others in the namespace; with `others.to(room)` those in a room."""
        return Operator(self.namespace, except_rooms=[self.id])

    async def ask(self, event: str, *args: Any, timeout: float = ASK_TIMEOUT_S) -> Any:
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
    def __init__(self, worker: "Worker", name: str, handlers: dict[Any, Callable[..., Any]] | None = None) -> None:
        super().__init__(self)
        self.worker = worker
        self.name = name
        self.handlers: dict[Any, Callable[..., Any]] = {} if handlers is None else handlers
        self.servers = Servers(self)

    @property
    def _addressee(self) -> str:
        """Its name, for commands."""
        if self.name == EVERY:
            raise ValueError("no command is for all namespaces: name one, such as that of a socket")
        return self.name

    @property
    def _handles_clients(self) -> bool:
        return any(name != "node_gone" and name[0] != "told" for name in self.handlers)

    def on(self, event: str) -> Callable[[Handler], Handler]:
        """Decorates the handler of an event: `async def order(socket, dish)`. What it returns is the ack."""
        return lambda handler: self.register(("event", event), handler)

    def connect(self, handler: Handler) -> Handler:
        """Decides: raises `Refused`, or lets the client in. Not called for sockets that come from another worker."""
        return self.register("connect", handler)

    def connected(self, handler: Handler) -> Handler:
        """The socket is in; also one that comes from another worker (`socket.recovered`)."""
        return self.register("connected", handler)

    def disconnected(self, handler: Handler) -> Handler:
        """The socket is gone: `async def left(socket, reason)`. `socket.rooms` are those that it was in."""
        return self.register("disconnected", handler)

    def register(self, name: Any, handler: Handler) -> Handler:
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

    def __init__(self, gateway: str, *, key: str, backend: str, weight: int = 1, tls: Tls | None = None, handler_timeout: float = 30.0) -> None:
        """`gateway`: `host:port`, or `https://host:port` for TLS; `tls` is a `Tls`. An event counts as handled when its handler ends, and after
        `handler_timeout` seconds in any case."""
        self._settings = (gateway, key, backend, uuid.uuid4().hex, weight, tls, handler_timeout)
        self._namespaces: dict[str, Namespace] = {"/": self}
        # Those that the program named before it ran: they let clients in, also without a handler.
        self._open = {"/"}
        self._desks = {}
        self._queries = {}
        # What is about no socket is handled beside all that is.
        self._others = set()
        self._numbers = itertools.count(1)
        self._attached: Link | None = None
        super().__init__(self, "/")

    def node_gone(self, handler: Handler) -> Handler:
        """Another node of the cluster is gone, and its sockets with it, without a word about each: `async def gone(node, life)`.
        `life` is the same in all news of this one end: workers of several nodes get it from each."""
        return self.register("node_gone", handler)

    def of(self, name: str) -> Namespace:
        """Another namespace; it is made when it is first named. The handlers of `"*"` are for all namespaces that have none of their own."""
        if name not in self._namespaces:
            self._namespaces[name] = Namespace(self, name)
            # Later a name may be a client's word: a command for it lets nobody in.
            if self._attached is None:
                self._open.add(name)
        return self._namespaces[name]

    def _namespace_of(self, name):
        """That of a client. Clients may choose names: only those of the program are kept."""
        own, every = self._namespaces.get(name), self._namespaces.get(EVERY)
        if own and own._handles_clients:
            return own
        if every:
            return Namespace(self, name, every.handlers)
        return own if own and name in self._open else Namespace(self, name, MISSING)

    def _namespace_of_servers(self, name, event):
        own, every = self._namespaces.get(name) or Namespace(self, name), self._namespaces.get(EVERY)
        return Namespace(self, name, every.handlers) if every and ("told", event) not in own.handlers else own

    async def run(self, ready: Callable[[], Any] | None = None) -> None:
        """Until `stop()` or SIGTERM; the sockets are handed over then. Raises `LinkRefused`. `ready()` is called when the gateway
        has welcomed the worker."""
        self._attached = Link(*self._settings, take=self._take, lost=self._forget)
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
            tasks = [desk.task for desk in self._desks.values()] + list(self._others)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def overdue(self) -> int:
        """Events that counted as handled because their handlers took longer than `handler_timeout`."""
        return self._attached.overdue if self._attached else 0

    def stop(self) -> None:
        """Finishes what it has and hands the sockets over; `run` returns then."""
        self._link.leave()

    @property
    def _link(self) -> Link:
        if self._attached is None:
            raise ConnectionError("cannot send a command: call it from a handler, or after `run` has called `ready`")
        return self._attached

    def command(self, **what):
        return self._link.command(proto.Command(**what))

    async def query(self, timeout, **what):
        """Waits little longer than the timeout, also for a gateway that is away."""
        [(name, message)] = what.items()
        message.query = next(self._numbers)
        answer = asyncio.get_running_loop().create_future()
        number = self.command(**{name: message})
        self._queries[message.query] = (number, answer)
        try:
            return await asyncio.wait_for(answer, timeout + LATE_S)
        except TimeoutError:
            raise ConnectionError(f"cannot get an answer to `{name}`: the gateway did not give one in {timeout:g} s; {self._link.state}") from None
        finally:
            self._queries.pop(message.query, None)

    def _take(self, item, progress):
        what = item.WhichOneof("what")
        value: Any = getattr(item, what) if what else None
        if what in ("answers", "found"):
            self._answered(value)
        elif what == "failed":
            self._failed(value)
        elif what in ("connect", "resume", "event", "upgraded", "gone", "part"):
            return self._to_desk(what, value, item.redelivered, progress)
        elif what == "told":
            namespace = self._namespace_of_servers(value.namespace, value.event)
            return self._beside(what, namespace.servers.told(value), progress)
        elif what == "node_gone":
            return self._beside(what, self.call(what, value.node, value.life), progress)
        # Kinds of items that a newer gateway has are passed over.
        self._link.done(progress)

    def _beside(self, what, handling, progress):
        async def handle():
            if not await self._link.begins(progress):
                return handling.close()
            try:
                await handling
            except Exception:
                log.exception("cannot handle `%s`", what)
            self._link.done(progress)

        task = asyncio.create_task(handle())
        self._others.add(task)
        task.add_done_callback(self._others.discard)

    def _to_desk(self, what, value, redelivered, progress):
        connect = value.connect if what == "resume" else value
        if what in ("connect", "resume"):
            namespace = self._namespace_of(connect.namespace)
            try:
                socket = Socket(namespace, connect)
            except (ValueError, RecursionError) as error:
                # Such as a number of 5000 digits in `auth`: JSON, but not for Python.
                log.warning("cannot read what %s said when it connected: %s", connect.socket, error)
                self._turn_away(what, connect, namespace)
            else:
                self._desks[socket.id] = Desk(socket, self._link, self._closed)
        desk = self._desks.get(connect.socket)
        if desk:
            desk.put(what, value, redelivered, progress)
        else:
            if what == "part":
                self.command(ended=proto.Ended(socket=value.socket))
            self._link.done(progress)

    def _turn_away(self, what, connect, namespace):
        if what == "connect":
            self.command(decision=proto.Decision(socket=connect.socket, message="cannot read the payload of CONNECT"))
        else:
            Operator(namespace, [connect.socket]).disconnect()

    def _closed(self, desk):
        if self._desks.get(desk.socket.id) is desk:
            del self._desks[desk.socket.id]

    def _answered(self, value):
        _, answer = self._queries.get(value.query, (0, None))
        if answer and not answer.done():
            answer.set_result(value)

    def _failed(self, failed):
        log.error("command %d failed: %s", failed.command, failed.message)
        for number, answer in self._queries.values():
            if number == failed.command and not answer.done():
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
