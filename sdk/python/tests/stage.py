"""The real gateway, workers that are killed, stock clients, and a way to the gateway that can be cut. SOCKEYE_BIN names the binary."""

import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import socketio
from aiohttp import ClientSession, web
from sockeye_worker import Worker

HERE = Path(__file__).parent
sys.path.append(str(HERE / "../../../conformance"))
from ports import free_port

BINARY = os.environ.get("SOCKEYE_BIN", str(HERE / "../../../target/debug/sockeye"))
CONFIG = """profile = "socket.io"
[workers]
listen = "127.0.0.1:0"
{tls}
[log]
format = "json"
[backends.kitchen]
socket_max = "1MiB"
rehome_after = "2s"
silent_after = "{silent}"
api_keys = ["{entry}"]
[namespaces."/"]
backend = "kitchen"
[namespaces."/game"]
backend = "kitchen"
{more}
"""


REQUEST = """[req]
distinguished_name = name
x509_extensions = extensions
prompt = no
[name]
CN = {name}
[extensions]
subjectAltName = DNS:localhost, IP:127.0.0.1
basicConstraints = critical, CA:{is_ca}
"""


def certificate(folder, name, signer=None):
    """Writes NAME.pem and NAME.key; signed by itself without `signer`."""
    def path(name, kind):
        return str(Path(folder) / f"{name}.{kind}")

    Path(path(name, "conf")).write_text(REQUEST.format(name=name, is_ca="FALSE" if signer else "TRUE"))
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    command += ["-config", path(name, "conf"), "-keyout", path(name, "key"), "-out", path(name, "pem")]
    if signer:
        command += ["-CA", path(signer, "pem"), "-CAkey", path(signer, "key")]
    subprocess.run(command, check=True, capture_output=True)
    return path(name, "pem"), path(name, "key")


class Stage:
    """`async with Stage() as stage`; with `secure` workers need a certificate by the authority `stage.ca`. `more`: lines of the
    configuration. `silent`: a worker that says nothing for so long is given up."""

    def __init__(self, secure=False, more="", silent="10s"):
        self._secure, self._more, self._silent = secure, more, silent

    async def __aenter__(self):
        self._processes, self._servers, self._clients = [], [], []
        made = await asyncio.create_subprocess_exec(BINARY, "api-key", "cook", stdout=asyncio.subprocess.PIPE)
        text = (await made.communicate())[0].decode()
        self.key = re.search(r"sockeye_\S+", text)[0]
        folder = tempfile.mkdtemp(prefix="sockeye-python-")
        file = Path(folder) / "sockeye.toml"
        self.folder, tls = folder, ""
        if self._secure:
            self.ca, _ = certificate(folder, "ca")
            cert, key = certificate(folder, "gateway", "ca")
            tls = f'cert = ["{cert}"]\nkey = ["{key}"]\nclient_ca = "{self.ca}"'
        file.write_text(CONFIG.format(entry=re.search(r"cook:\w+", text)[0], tls=tls, more=self._more, silent=self._silent))
        args = ["--config", str(file), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
        self.gateway = await self._start(BINARY, *args, stderr=asyncio.subprocess.PIPE)
        line = json.loads(await line_with(self.gateway.stderr, '"listening"'))
        self._reading = asyncio.create_task(read_on(self.gateway.stderr))
        self.url = "http://" + line["addresses"].split(",")[0]
        self.workers = line["workers"]
        return self

    async def __aexit__(self, *_):
        for client in self._clients:
            await client.disconnect()
        for process in self._processes:
            if process.returncode is None:
                process.kill()
            await process.wait()
        for server in self._servers:
            server.close()
        self._reading.cancel()

    async def _start(self, *command, **streams):
        process = await asyncio.create_subprocess_exec(*command, **streams)
        self._processes.append(process)
        return process

    async def worker(self, address=None, key=None, files=()):
        command = [sys.executable, str(HERE / "kitchen.py"), address or self.workers, key or self.key, *files]
        worker = await self._start(*command, stdout=asyncio.subprocess.PIPE)
        await line_with(worker.stdout, "ready")
        return worker

    async def failing_worker(self, address, *files):
        """What a worker says that cannot attach."""
        command = [sys.executable, str(HERE / "kitchen.py"), address, self.key, *files]
        worker = await self._start(*command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)
        return await line_with(worker.stderr, "is tried again")

    async def client(self, namespace="/", auth=None, **options):
        """A stock client that notes what it hears in `heard`, and each loss of its connection in `lost`."""
        client = socketio.AsyncClient(reconnection=False)
        client.heard, client.lost = asyncio.Queue(), []
        client.on("disconnect", lambda reason: client.lost.append(reason), namespace=namespace)
        client.on("question", lambda: client.get_sid(), namespace=namespace)
        for event in ("hello", "news", "left", "moved", "gone"):
            client.on(event, lambda *args, event=event: client.heard.put_nowait((event, *args)), namespace=namespace)
        url = self.url + options.pop("query", "")
        options = {"transports": ["websocket"], **options}
        await client.connect(url, namespaces=[namespace], auth=auth or {}, wait_timeout=20, **options)
        self._clients.append(client)
        return client

    @contextlib.asynccontextmanager
    async def own_worker(self, register=lambda worker: None):
        """A worker in this process; `register(worker)` comes before it runs."""
        worker, ready = Worker(self.workers, key=self.key, backend="kitchen"), asyncio.Event()
        register(worker)
        running = asyncio.create_task(worker.run(ready.set))
        await ready.wait()
        yield worker
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    @contextlib.asynccontextmanager
    async def raw(self, first):
        """A WebSocket of Engine.IO that has said this."""
        async with ClientSession() as session:
            async with session.ws_connect(self.url + "/socket.io/?EIO=4&transport=websocket") as raw:
                await raw.receive_str()
                await raw.send_str(first)
                yield raw

    async def refusal(self, auth, namespace="/"):
        """What a client is told that is not let in."""
        client, told = socketio.AsyncClient(reconnection=False), asyncio.Queue()
        client.on("connect_error", told.put_nowait, namespace=namespace)
        try:
            await client.connect(self.url, auth=auth, namespaces=[namespace], transports=["websocket"], wait_timeout=20)
        except socketio.exceptions.ConnectionError:
            return await told.get()
        raise AssertionError("it was let in")

    async def guest(self):
        """A client that is in the kitchen."""
        client = await self.client()
        assert (await client.heard.get())[0] == "hello"
        return client

    async def wire(self):
        """Address of the workers' listener behind a way that `cut()` cuts."""
        host, port = self.workers.split(":")
        writers = set()

        async def carry(near_reader, near_writer):
            far_reader, far_writer = await asyncio.open_connection(host, int(port))
            writers.update((near_writer, far_writer))
            await asyncio.gather(pump(near_reader, far_writer), pump(far_reader, near_writer))

        server = await asyncio.start_server(carry, "127.0.0.1", 0)
        self._servers.append(server)

        def cut():
            for writer in writers:
                writer.transport.abort()
            writers.clear()

        return "127.0.0.1:%d" % server.sockets[0].getsockname()[1], cut


@contextlib.asynccontextmanager
async def redis():
    """The port of a Redis of its own."""
    port = free_port()
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", tempfile.mkdtemp(prefix="sockeye-redis-")]
    server = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    await line_with(server.stdout, "Ready to accept connections")
    reading = asyncio.create_task(read_on(server.stdout))
    try:
        yield port
    finally:
        server.kill()
        await server.wait()
        reading.cancel()


class Collector:
    """`async with Collector() as collector`: notes the spans that gateways send, as (name, id, id of the one above) of each trace."""

    # The first fields of a span, in the order of their tags: trace_id, span_id, parent_span_id, name.
    SPAN = re.compile(rb"\x0a\x10(.{16})\x12\x08(.{8})\x22\x08(.{8})\x2a.([a-z]+ [a-z/]+)", re.DOTALL)

    async def __aenter__(self):
        self.spans, self._news = {}, asyncio.Event()
        app = web.Application()
        app.router.add_post("/v1/traces", self._take)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.config = f'[traces]\nendpoint = "http://127.0.0.1:{self._runner.addresses[0][1]}/v1/traces"\none_in = 0\n'
        return self

    async def __aexit__(self, *_):
        await self._runner.cleanup()

    async def _take(self, request):
        for trace, own, parent, name in self.SPAN.findall(await request.read()):
            self.spans.setdefault(trace.hex(), []).append((name.decode(), own.hex(), parent.hex()))
        self._news.set()
        return web.Response(content_type="application/x-protobuf")

    async def find(self, trace, name, above=None):
        """The id of a span of this name; `above`: one that is in that span."""
        while True:
            for found, own, parent in self.spans.get(trace, []):
                if found == name and above in (None, parent):
                    return own
            self._news.clear()
            await self._news.wait()


async def pump(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def line_with(stream, wanted):
    async for line in stream:
        if wanted in line.decode():
            return line.decode()
    raise AssertionError(f"no line with {wanted}")


async def read_on(stream):
    async for _ in stream:
        pass
