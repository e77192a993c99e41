"""Arguments of events as the protocol has them: raw JSON elements separated by commas, and attachments that placeholders stand for."""

import json


def encode(values):
    """Gives the bytes of the elements, and the attachments."""
    attachments = []

    def take(value):
        if isinstance(value, (bytes, bytearray, memoryview)):
            attachments.append(bytes(value))
            return {"_placeholder": True, "num": len(attachments) - 1}
        if isinstance(value, (list, tuple)):
            return [take(member) for member in value]
        if isinstance(value, dict):
            return {name: take(member) for name, member in value.items()}
        return value

    text = dump([take(value) for value in values])
    return text[1:-1].encode(), attachments


def decode(args, attachments):
    """The reverse."""

    def give(value):
        if isinstance(value, list):
            return [give(member) for member in value]
        if isinstance(value, dict):
            if value.get("_placeholder") is True:
                return attachments[value["num"]]
            return {name: give(member) for name, member in value.items()}
        return value

    values = json.loads(b"[" + args + b"]")
    return [give(value) for value in values] if attachments else values


def dump(value):
    # NaN is no JSON: clients could not read it.
    return json.dumps(value, separators=(",", ":"), allow_nan=False)
