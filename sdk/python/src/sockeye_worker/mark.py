"""Whether the event that a coroutine works for came before."""

from contextvars import ContextVar

_current = ContextVar("redelivered", default=False)


def redelivered():
    """Another worker, or an earlier run of this one, may have handled the event that is being handled. Tasks that its handler starts know it, too."""
    return _current.get()


def mark(value):
    """What this coroutine does from now on, and those that it starts, is of such an event, or of none."""
    _current.set(value)
