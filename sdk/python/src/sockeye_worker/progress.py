"""Which items are handled. Handlers end in any order; the gateway is told a number up to which all have, and rows above it."""

# Rows in one message: the gateway takes so many.
ROWS_MAX = 8_192


class Item:
    __slots__ = ("progress", "number", "alone")

    def __init__(self, progress, number, alone):
        self.progress = progress
        self.number = number
        # The gateway is to know that it begins.
        self.alone = alone


class Progress:
    def __init__(self):
        self.received = 0
        # The lowest number is first.
        self._open = {}
        # Rows that the gateway was not told of: each a first and a last number.
        self._rows = []

    def take(self, alone=False):
        """One more item came."""
        self.received += 1
        item = Item(self, self.received, alone)
        self._open[item.number] = item
        return item

    def done(self, item):
        """It is handled. What was said to be handled stays so."""
        if self._open.pop(item.number, None):
            self._rows.append((item.number, item.number))

    @property
    def handled(self):
        return next(iter(self._open), self.received + 1) - 1

    def next(self):
        """What the gateway is to be told: the number up to which all are handled, and rows above it."""
        handled = self.handled
        merged = []
        for first, last in sorted(row for row in self._rows if row[1] > handled):
            if merged and merged[-1][1] + 1 >= first:
                merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
            else:
                merged.append((first, last))
        told, self._rows = merged[:ROWS_MAX], merged[ROWS_MAX:]
        return handled, [number for row in told for number in row]

    @property
    def waits(self):
        """There are rows that had no room in the last message."""
        return bool(self._rows)

    def again(self):
        """The link was lost, and rows with it: all are said again."""
        self._rows = []
        first = self.handled + 1
        for number in [*self._open, self.received + 1]:
            if number > first:
                self._rows.append((first, number - 1))
            first = number + 1
