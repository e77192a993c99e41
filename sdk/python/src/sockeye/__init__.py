"""Logic for Socket.IO clients whose sockets the gateway holds."""

from .link import LinkRefused, Tls, TooMuchWaits
from .worker import AskTimeout, Member, Namespace, Operator, Refused, Socket, Worker

__all__ = [
    "AskTimeout",
    "LinkRefused",
    "Member",
    "Namespace",
    "Operator",
    "Refused",
    "Socket",
    "Tls",
    "TooMuchWaits",
    "Worker",
]
