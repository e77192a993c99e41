"""A program as a type checker sees it; nobody runs it."""

from sockeye_worker import AskTimeout, Member, Operator, Refused, Socket, Tls, Worker, traceparent

worker = Worker("127.0.0.1:9091", key="k", backend="b", tls=Tls(ca=b""))
game = worker.of("/game")


@worker.connect
async def decide(socket: Socket) -> None:
    if not socket.auth.get("token"):
        raise Refused("who are you?", {"code": 7})


@game.on("order")
async def order(socket: Socket, dish: str) -> str:
    chosen: Operator = worker.to("kitchen").but(socket.id).volatile
    chosen.emit("order", dish)
    members: list[Member] = await chosen.fetch()
    try:
        await socket.ask("question", timeout=1)
    except AskTimeout as error:
        return f"{error.missing} of {len(members)}, {traceparent()}"
    return "soon"


@worker.servers.on("load")
async def load(since: int) -> float:
    return 0.5 + since


async def main() -> None:
    await worker.run()
    # With `--strict` it is an error if one of these is none.
    worker.emit(5)  # type: ignore[arg-type]
    worker.to(5)  # type: ignore[arg-type]
    Worker(1, key="k", backend="b")  # type: ignore[arg-type]
    Worker("g:1", backend="b")  # type: ignore[call-arg]
