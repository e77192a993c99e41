"""The trace that a coroutine works for: W3C Trace Context."""

from contextvars import ContextVar

_current: ContextVar[str] = ContextVar("traceparent", default="")


def traceparent() -> str:
    """For requests and spans of your own: the `traceparent` of the event that is being handled; empty without a trace."""
    return _current.get()


def enter(value: str) -> None:
    """What this coroutine does from now on, and those that it starts, belongs to this trace."""
    _current.set(value)
