"""Which items are handled. Handlers of different sockets end in any order; the gateway wants the number up to which all have."""

from collections import deque


class Item:
    __slots__ = ("done",)

    def __init__(self):
        self.done = False


class Progress:
    def __init__(self):
        self.received = 0
        self._open = deque()

    def take(self):
        """One more item came. Its handler sets `done`, and calls `handled` later."""
        self.received += 1
        item = Item()
        self._open.append(item)
        return item

    @property
    def handled(self):
        while self._open and self._open[0].done:
            self._open.popleft()
        return self.received - len(self._open)
