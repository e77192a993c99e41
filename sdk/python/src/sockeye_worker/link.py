"""The stream to one gateway: numbers, what is kept until the gateway has it, and coming back after a cut."""

import asyncio
import dataclasses
import logging
import random
import re
import time
from itertools import islice
from collections import deque

import grpc

from .progress import Progress
from .trace import traceparent
from .worker_pb2 import FromWorker, Hello, ToWorker

log = logging.getLogger("sockeye_worker")

# It has no types: it comes from C.
EOF = grpc.aio.EOF  # pyright: ignore[reportAttributeAccessIssue]
METHOD = "/sockeye.worker.v1.Workers/Attach"
SIGN_OF_LIFE_S = 1.0
RETRY_S = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
UNREACHABLE_AFTER = 4
# Commands that the gateway has not got: while it is away, they wait here.
KEPT_BYTES_MAX = 64 << 20
# What one costs beside its bytes.
COMMAND_BYTES = 512
# They answer what the gateway sent, and end sockets that it has. Programs make any number of the others.
ANSWERS = ("ack", "decision", "disconnect", "reply", "verdict")
# `leave()` waits so long for the end of what is under way.
FAREWELL_S = 30.0
BATCH_MAX = 1_000
# The gateway takes 16 MiB in one message, and nothing larger comes through: a command must fit.
COMMAND_BYTES_MAX = 12 << 20
# A message that has so much goes: what is behind it goes with the next one.
MESSAGE_BYTES = 1 << 20
OPTIONS = [
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.max_send_message_length", 64 << 20),
    ("grpc.keepalive_time_ms", 5_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.http2.max_pings_without_data", 0),
    # Links of one process to one gateway must not share a connection that is stuck.
    ("grpc.use_local_subchannel_pool", 1),
]
REFUSALS = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.PERMISSION_DENIED)


@dataclasses.dataclass(frozen=True)
class Tls:
    """PEM texts: the certificates that the gateway's is checked against (without them those of gRPC), and this worker's own
    certificate and key, if the gateway asks for them."""

    ca: bytes | None = None
    cert: bytes | None = None
    key: bytes | None = None


class LinkRefused(Exception):
    """The gateway does not know this key or this backend: trying again would not help."""


class TooMuchWaits(Exception):
    """The gateway does not take commands, and no more can be kept."""


class TooLarge(ValueError):
    """No message has room for this command."""


class Link:
    def __init__(self, gateway, key, backend, instance, weight, tls, handler_timeout, take, lost):
        """`take(item, progress)` gets each item in order; `lost()` is called when the sockets have moved to other workers."""
        parts = re.fullmatch(r"(?:(https?)://)?([^/]+)/?", gateway)
        if not parts:
            raise ValueError(f"cannot use the gateway address {gateway!r}: give host:port, or https://host:port for TLS")
        scheme, self._address = parts.groups()
        self._tls = tls or (Tls() if scheme == "https" else None)
        self._metadata = (("authorization", f"Bearer {key}"),)
        self._hello = {"backend": backend, "instance": instance, "weight": weight, "announces": True, "version": 1}
        self._handler_timeout = handler_timeout
        # Events that were late.
        self.overdue = 0
        self._take = take
        self._lost = lost
        self._known = False
        self._leaving = asyncio.Event()
        self._attached = False
        self._ended = False
        self._failures = 0
        self.welcomed = asyncio.Event()
        self._wake = asyncio.Event()
        # When this process last ran, and for how long it may have stood still without a question.
        self._seen = time.monotonic()
        self._still = float("inf")
        # The question whether the sockets are still this worker's, and whether they are.
        self._asks = 0
        self._sure = asyncio.Event()
        self._sure.set()
        self._begin()

    def _begin(self):
        self._progress = Progress()
        self._overdue_before = self.overdue
        # The item that is alone and begins.
        self._begun = 0
        self._commands = 0
        # Commands that the gateway may not have. The first has number `_commands - len(_kept) + 1`.
        self._kept = deque()
        self._kept_bytes = 0
        self._sent = 0

    def command(self, command):
        """Gives the command's number."""
        if self._ended:
            raise ConnectionError("cannot send a command: this worker has ended")
        command.traceparent = traceparent()
        size = COMMAND_BYTES + command.ByteSize()
        if size > COMMAND_BYTES_MAX:
            raise TooLarge(f"cannot send {size} bytes in one command: the gateway takes 12 MiB")
        what = command.WhichOneof("what")
        if self._kept_bytes + size > KEPT_BYTES_MAX and what not in ANSWERS:
            raise TooMuchWaits(f"cannot send `{what}`: {KEPT_BYTES_MAX >> 20} MiB wait for the gateway at {self._address}; {self.state}")
        self._kept.append((command, size))
        self._kept_bytes += size
        self._commands += 1
        self._wake.set()
        return self._commands

    async def begins(self, item):
        """Waits until the item may be handled. `False`: it is another worker's by now."""
        if self._is_in_doubt():
            await self._sure.wait()
        if item.alone and item.progress is self._progress:
            # If this process ends over it, the gateway is to know that it had begun.
            self._begun = item.number
            self._ask()
            await self._sure.wait()
        return item.progress is self._progress

    def done(self, item):
        """It is handled."""
        item.progress.done(item)
        self._wake.set()

    def watch(self, item, event):
        """It counts as handled after a time, whatever its handler does."""
        return asyncio.get_running_loop().call_later(self._handler_timeout, self._late, item, event)

    def _late(self, item, event):
        self.overdue += 1
        log.warning(
            "the event %r counts as handled after %g s, although its handler is not done: a crash would lose it now (`handler_timeout` sets the time)",
            event,
            self._handler_timeout,
        )
        self.done(item)

    def _is_in_doubt(self):
        """This process stood still for so long that its sockets may be another worker's: nothing is handled before the gateway has said."""
        now = time.monotonic()
        still, self._seen = now - self._seen, now
        if self._sure.is_set() and still >= self._still:
            self._ask()
        return not self._sure.is_set()

    def _ask(self):
        self._sure.clear()
        self._asks += 1
        self._wake.set()

    @property
    def state(self):
        return "the link to it is there" if self._attached else "the link to it is down, and is tried again"

    def leave(self):
        """Finishes what it has and hands its sockets over; `run` ends then. It ends in half a minute also if the gateway does not
        answer, and at once if it is away."""
        self._leaving.set()
        self._wake.set()

    async def run(self):
        """Until the gateway has said goodbye. Raises `LinkRefused`."""
        streams = asyncio.create_task(self._streams())
        leaving = asyncio.create_task(self._leaving.wait())
        try:
            await asyncio.wait([streams, leaving], return_when=asyncio.FIRST_COMPLETED)
            if not streams.done() and self._attached:
                await asyncio.wait([streams], timeout=FAREWELL_S)
            if streams.done():
                streams.result()
        finally:
            self._ended = True
            for task in (streams, leaving):
                task.cancel()
            await asyncio.gather(streams, leaving, return_exceptions=True)

    async def _streams(self):
        while not self._ended:
            try:
                async with self._channel() as channel:
                    await self._stream(channel)
            except grpc.aio.AioRpcError as error:
                self._broken(error)
            self._attached = False
            if self._leaving.is_set():
                self._ended = True
            if not self._ended:
                wait = RETRY_S[min(self._failures, len(RETRY_S) - 1)]
                self._failures += 1
                await asyncio.sleep(wait * random.uniform(0.8, 1.2))

    def _channel(self):
        if self._tls is None:
            return grpc.aio.insecure_channel(self._address, OPTIONS)
        credentials = grpc.ssl_channel_credentials(self._tls.ca, self._tls.key, self._tls.cert)
        return grpc.aio.secure_channel(self._address, credentials, OPTIONS)

    def _broken(self, error):
        if error.code() in REFUSALS:
            self._ended = True
            raise LinkRefused(f"the gateway at {self._address} refuses this worker: {error.details()}") from None
        # One warning for an outage that lasts.
        level = logging.WARNING if self._failures == UNREACHABLE_AFTER else logging.INFO
        log.log(level, "the link to %s ended, and is tried again: %s", self._address, error.details())

    async def _stream(self, channel):
        attach = channel.stream_stream(METHOD, FromWorker.SerializeToString, ToWorker.FromString)
        call = attach(metadata=self._metadata, wait_for_ready=False)
        await call.write(FromWorker(hello=Hello(received=self._progress.received, resumes=self._known, **self._hello)))
        first = await call.read()
        if first is EOF:
            return
        self._welcome(first.welcome)
        writer = asyncio.create_task(self._write(call))
        try:
            self._hear(first)
            while not self._ended:
                message = await call.read()
                if message is EOF:
                    break
                self._hear(message)
        finally:
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)
            call.cancel()

    def _welcome(self, welcome):
        self._failures = 0
        self._attached = True
        if not welcome.resumed and self._known:
            self._begin()
            self._lost()
        self._known = True
        # It was last heard a sign of life ago.
        self._still = welcome.silent_ms / 2_000 or float("inf")
        self._sure.set()
        self._progress.again()
        self._confirm(welcome.commands)
        # What the gateway has not got goes again, under the same numbers.
        self._sent = 0
        self.welcomed.set()

    def _hear(self, message):
        self._confirm(message.commands)
        if message.sure and message.sure == self._asks:
            self._sure.set()
        self._is_in_doubt()
        for item in message.items:
            self._take(item, self._progress.take(item.alone))
        if message.items:
            self._wake.set()
        if message.goodbye:
            self._ended = True

    def _confirm(self, commands):
        first = self._commands - len(self._kept) + 1
        known = min(len(self._kept), max(0, commands - first + 1))
        for _ in range(known):
            self._kept_bytes -= self._kept.popleft()[1]
        self._sent = max(0, self._sent - known)

    async def _write(self, call):
        while True:
            self._is_in_doubt()
            self._wake.clear()
            message = self._next()
            await call.write(message)
            if self._sent < len(self._kept) or self._progress.waits:
                continue
            try:
                await asyncio.wait_for(self._wake.wait(), SIGN_OF_LIFE_S)
            except TimeoutError:
                pass

    def _next(self):
        """What came of the items handled so far, and the number up to which all are."""
        # The number is read first: commands of an item are there before it counts as handled, and go no later than it.
        commands, size = [], 0
        for command, bytes_ in islice(self._kept, self._sent, self._sent + BATCH_MAX):
            commands.append(command)
            size += bytes_
            if size >= MESSAGE_BYTES:
                break
        first = self._commands - len(self._kept) + self._sent + 1
        self._sent += len(commands)
        # Items are handled when all that came of them is said, and a worker that leaves says nothing behind that.
        last = self._sent == len(self._kept)
        handled, beside = self._progress.next() if last else (0, [])
        begun = self._begun if self._begun > handled else 0
        return FromWorker(
            handled=handled,
            beside=beside,
            begun=begun,
            first=first,
            commands=commands,
            leaving=last and self._leaving.is_set(),
            overdue=self.overdue - self._overdue_before,
            asks=0 if self._sure.is_set() else self._asks,
        )
