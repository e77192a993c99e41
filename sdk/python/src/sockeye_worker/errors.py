"""Errors that a program may catch or raise."""

from typing import Any


class Refused(Exception):
    """Raised by a `connect` handler: the client gets CONNECT_ERROR with this message and data."""

    def __init__(self, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.message = message
        self.data = data


class AskTimeout(Exception):
    """Some were asked and did not answer in time. `answers` has what came."""

    def __init__(self, answers: list[Any], missing: int) -> None:
        super().__init__(f"no answer in time from {missing} of {missing + len(answers)}")
        self.answers = answers
        self.missing = missing
