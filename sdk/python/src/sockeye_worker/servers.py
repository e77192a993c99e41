"""The other servers of a namespace: workers at any node, and Socket.IO servers in the cluster."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from . import worker_pb2 as proto
from .codec import decode, encode
from .desk import FAILED, UNKNOWN, values_of
from .errors import AskTimeout

if TYPE_CHECKING:
    from .worker import Namespace

Handler = TypeVar("Handler", bound=Callable[..., Any])

log = logging.getLogger("sockeye_worker")

ASK_TIMEOUT_S = 5.0


class Servers:
    def __init__(self, namespace: "Namespace") -> None:
        self._namespace = namespace

    def on(self, event: str) -> Callable[[Handler], Handler]:
        """Decorates the handler of what another server says: `async def load(since)`. What it returns is the answer, if one is wanted."""
        return lambda handler: self._namespace.register(("told", event), handler)

    def emit(self, event: str, *args: Any) -> None:
        self._namespace.worker.command(tell=self._tell(event, args))

    async def ask(self, event: str, *args: Any, timeout: float = ASK_TIMEOUT_S) -> list[Any]:
        """The first argument of each answer; raises `AskTimeout` if some are missing, `ConnectionError` if the gateway does not answer."""
        tell = self._tell(event, args)
        tell.timeout_ms = round(timeout * 1000)
        found = await self._namespace.worker.query(timeout, tell=tell)
        answers = [(decode(answer.args, answer.attachments) or [None])[0] for answer in found.answers]
        if found.missing:
            raise AskTimeout(answers, found.missing)
        return answers

    def _tell(self, event, args):
        encoded, attachments = encode(args)
        return proto.Tell(namespace=self._namespace._addressee, event=event, args=encoded, attachments=attachments)

    async def told(self, told):
        """A server that waits gets an answer, whatever happens."""
        answer = UNKNOWN
        try:
            if ("told", told.event) in self._namespace.handlers:
                answer = await self._namespace.call(("told", told.event), *decode(told.args, told.attachments))
            self._reply(told, answer)
        except Exception:
            log.exception("cannot handle %r of another server", told.event)
            self._reply(told, FAILED)

    def _reply(self, told, answer):
        if told.told:
            args, attachments = encode(values_of(answer))
            self._namespace.worker.command(reply=proto.Reply(told=told.told, args=args, attachments=attachments))
