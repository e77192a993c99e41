"""Logic for Socket.IO clients whose sockets the gateway holds."""

from .errors import AskTimeout, Refused
from .mark import redelivered
from .link import LinkRefused, Tls, TooLarge, TooMuchWaits
from .servers import Servers
from .trace import traceparent
from .worker import Member, Namespace, Operator, Socket, Worker

__all__ = [
    "AskTimeout",
    "LinkRefused",
    "Member",
    "Namespace",
    "Operator",
    "Refused",
    "Servers",
    "Socket",
    "Tls",
    "TooLarge",
    "TooMuchWaits",
    "Worker",
    "redelivered",
    "traceparent",
]
