"""The library against the real gateway, with stock clients."""

import asyncio
import signal
import unittest

from sockeye_worker import LinkRefused, Refused, TooLarge, TooMuchWaits, Worker
from sockeye_worker.worker_pb2 import Ack
from stage import Collector, Stage, certificate, redis

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


class WorkerTest(unittest.IsolatedAsyncioTestCase):
    async def test_decisions_events_rooms_acks_and_questions(self):
        async with Stage() as stage:
            await stage.worker()
            self.assertEqual(await stage.refusal({"bad": True}), {"message": "not you", "data": {"code": 7}})
            ada, grace, linus = [await stage.guest() for _ in range(3)]
            self.assertEqual(await ada.call("echo", (b"\1\2", {"deep": [b"\3"]}, "text")), (b"\1\2", {"deep": [b"\3"]}, "text"))
            await ada.emit("news", "soup")
            self.assertEqual([await guest.heard.get() for guest in (grace, linus)], [("news", "soup")] * 2)
            self.assertEqual(sorted(await ada.call("survey")), sorted(guest.get_sid() for guest in (ada, grace, linus)))
            members = await ada.call("who")
            self.assertEqual(sorted(member[0] for member in members), sorted(guest.get_sid() for guest in (ada, grace, linus)))
            self.assertTrue(all(member[1:] == [sorted(["kitchen", member[0]]), {"since": "start"}] for member in members))
            self.assertTrue(await grace.call("move", ("kitchen", "garden")))
            self.assertEqual(await grace.heard.get(), ("moved", "garden"))
            self.assertEqual(await ada.call("fail"), {"error": "The handler failed"})
            self.assertEqual(await ada.call("unknown"), {"error": "No handler knows this event"})
            self.assertRegex(await ada.call("wrong"), "event is empty")
            await linus.emit("leave me")
            self.assertEqual(await ada.heard.get(), ("left", "server namespace disconnect", ["kitchen"]))
            game = await stage.client("/game", query="?room=7", headers={"X-Table": "oak"})
            self.assertEqual(await game.call("where", namespace="/game"), ("/game", "7", "oak", "websocket"))
            # One that goes up from long-polling.
            climber = await stage.client("/game", transports=["polling", "websocket"])
            while (await climber.call("where", namespace="/game"))[3] != "websocket":
                await asyncio.sleep(0.05)

    async def test_a_worker_answers_and_asks_other_servers(self):
        async with Stage() as stage:
            await stage.worker()
            guest = await stage.guest()
            await stage.worker()
            self.assertEqual(await guest.call("consult", ("double", b"ab")), [b"abab"])
            # A server that asks does not wait in vain.
            self.assertEqual(await guest.call("consult", "nothing"), [{"error": "No handler knows this event"}])
            self.assertEqual(await guest.call("consult", "break"), [{"error": "The handler failed"}])
            await guest.emit("announce", "dinner")
            self.assertEqual(await guest.heard.get(), ("news", "dinner"))

    async def test_the_trace_of_an_event_goes_on_in_what_comes_of_it(self):
        async with Collector() as collector, Stage(more=collector.config) as stage:
            await stage.worker()
            plain = await stage.guest()
            guest = await stage.client(query=f"?traceparent=00-{TRACE}-00f067aa0ba902b7-01")
            seen = await guest.call("trace")
            self.assertRegex(seen, f"^00-{TRACE}-[0-9a-f]{{16}}-01$")
            span = seen.split("-")[2]
            await collector.find(TRACE, "command decision", above=await collector.find(TRACE, "connect /"))
            await collector.find(TRACE, "event trace")
            # The answer, and what a task of the handler says later.
            for command in ("command ack", "command emit"):
                await collector.find(TRACE, command, above=span)
            self.assertEqual(await plain.call("trace"), "")
            self.assertEqual(list(collector.spans), [TRACE])

    async def test_a_worker_hears_of_a_node_that_is_gone(self):
        async with redis() as port:
            more = f'[cluster]\nadapter = "redis"\nurls = ["redis://127.0.0.1:{port}"]\nsecret = "of this test alone"\n[server]\ndrain_window = "100ms"'
            async with Stage(more=more) as stage, Stage(more=more) as other:
                await stage.worker()
                await other.worker()
                guest, far = await stage.guest(), await other.guest()
                # The nodes know each other.
                while guest.heard.empty():
                    await far.emit("news", "hello")
                    await asyncio.sleep(0.05)
                other.gateway.terminate()
                while (news := await guest.heard.get())[0] != "gone":
                    pass
                self.assertIsInstance(news[1], int)

    async def test_workers_attach_by_tls_and_with_a_certificate_of_their_own(self):
        async with Stage(secure=True) as stage:
            own = certificate(stage.folder, "worker", "ca")
            stranger, _ = certificate(stage.folder, "stranger")
            address = "https://" + stage.workers.replace("127.0.0.1", "localhost")
            await stage.worker(address, files=(stage.ca, *own))
            guest = await stage.guest()
            self.assertEqual(await guest.call("echo", "secret"), "secret")
            told = await stage.failing_worker(address, stranger, *own)
            self.assertRegex(told, "(?i)certificate_?.?verif")
            # Without a certificate of its own; without TLS.
            await stage.failing_worker(address, stage.ca)
            await stage.failing_worker(stage.workers)

    async def test_no_client_notices_that_a_worker_is_killed_under_load(self):
        async with Stage() as stage:
            first = await stage.worker()
            guests = [await stage.guest() for _ in range(4)]

            async def count(guest, numbers):
                return await asyncio.gather(*(guest.call("count", n, timeout=30) for n in numbers))

            early = [asyncio.create_task(count(guest, range(0, 200))) for guest in guests]
            await guests[0].call("count", -1, timeout=30)
            first.kill()
            late = [asyncio.create_task(count(guest, range(200, 300))) for guest in guests]
            second = await stage.worker()
            for tasks, numbers in ((early, range(0, 200)), (late, range(200, 300))):
                for answers in await asyncio.gather(*tasks):
                    self.assertEqual([n for n, _ in answers], list(numbers))
            members = await guests[0].call("who")
            self.assertEqual([member[2] for member in members], [{"since": "start", "last": 299}] * 4)
            # A deploy: the old worker hands over and ends by itself.
            await stage.worker()
            second.terminate()
            self.assertEqual(await second.wait(), 0)
            self.assertEqual(await guests[1].call("echo", "still"), "still")
            self.assertEqual([guest.lost for guest in guests], [[]] * 4)

    async def test_an_event_whose_handler_waits_comes_again_with_a_mark_and_keeps_no_other(self):
        async with Stage() as stage:
            first = await stage.worker()
            ada, grace = await stage.guest(), await stage.guest()
            await ada.emit("never", 1)
            self.assertEqual(await grace.heard.get(), ("news", ["never", 1, False]))
            for n in range(5):
                await grace.emit("note", n)
                self.assertEqual(await grace.heard.get(), ("news", ["note", n, False]))
            # It says what it handled at once.
            await asyncio.sleep(0.2)
            await stage.worker()
            first.kill()
            self.assertEqual(await grace.heard.get(), ("news", ["never", 1, True]))
            await grace.emit("note", 5)
            self.assertEqual(await grace.heard.get(), ("news", ["note", 5, False]))
            self.assertTrue(grace.heard.empty())

    async def test_a_handler_that_never_ends_counts_as_handled_after_a_time(self):
        async with Stage() as stage:
            worker, ready = Worker(stage.workers, key=stage.key, backend="kitchen", handler_timeout=0.2), asyncio.Event()
            worker.on("never")(lambda socket: asyncio.Event().wait())
            running = asyncio.create_task(worker.run(ready.set))
            await ready.wait()
            guest = await stage.client()
            with self.assertLogs("sockeye_worker", "WARNING") as logs:
                await guest.emit("never")
                while worker.overdue == 0:
                    await asyncio.sleep(0.01)
            self.assertRegex(logs.output[0], "'never' counts as handled after 0.2 s")
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def test_a_worker_that_was_stopped_and_goes_on_handles_nothing_that_another_has(self):
        async with Stage(silent="3s") as stage:
            first = await stage.worker()
            ada, grace = await stage.guest(), await stage.guest()
            first.send_signal(signal.SIGSTOP)
            second = await stage.worker()
            numbers = range(200)
            for n in numbers:
                await ada.emit("note", n)
            heard = [await grace.heard.get() for _ in numbers]
            first.send_signal(signal.SIGCONT)
            # It comes back as a new worker, and takes all.
            await asyncio.sleep(1)
            second.terminate()
            self.assertEqual(await second.wait(), 0)
            await ada.emit("note", 200)
            while heard[-1] != ("news", ["note", 200, False]):
                heard.append(await grace.heard.get())
            # Its handlers hear that the sockets are gone.
            notes = [said[1][1] for said in heard if said[0] == "news"]
            self.assertEqual(notes, list(range(201)))

    async def test_an_event_that_ends_worker_after_worker_is_refused_and_no_other(self):
        async with Stage() as stage:
            doomed = [await stage.worker() for _ in range(4)]
            guests = [await stage.guest() for _ in range(4)]
            answer = asyncio.create_task(guests[0].call("deadly", timeout=50))
            others = [asyncio.create_task(guest.call("count", n, timeout=50)) for guest in guests[1:] for n in range(20)]
            await asyncio.gather(*(worker.wait() for worker in doomed))
            await stage.worker()
            self.assertEqual(await answer, {"error": "The backend failed on this event"})
            self.assertEqual([n for n, _ in await asyncio.gather(*others)], list(range(20)) * 3)

    async def test_a_link_that_is_cut_under_load_loses_nothing_and_repeats_nothing(self):
        async with Stage() as stage:
            address, cut = await stage.wire()
            await stage.worker(address)
            guests = [await stage.guest() for _ in range(3)]
            answers = []
            for n in range(240):
                answers += [asyncio.create_task(guest.call("count", n, timeout=30)) for guest in guests]
                if n % 80 == 40:
                    cut()
                # What was written goes out.
                await asyncio.sleep(0)
            expected = [(n, False) for n in range(240) for _ in guests]
            # Not assertEqual: its message about such lists takes a minute.
            self.assertTrue(await asyncio.gather(*answers) == expected)
            self.assertEqual([guest.lost for guest in guests], [[]] * 3)

    async def test_a_client_that_left_before_it_was_refused_held_up_all_others(self):
        async with Stage() as stage, stage.own_worker() as worker:
            asked, left = asyncio.Event(), asyncio.Event()

            @worker.connect
            async def decide(socket):
                if socket.auth.get("late"):
                    asked.set()
                    await left.wait()
                    raise Refused("too late")

            worker.on("echo")(lambda socket, *args: args)
            async with stage.raw('40{"late":true}'):
                await asked.wait()
            # The news of its end waits behind the decision.
            while all(desk._items.empty() for desk in worker._desks.values()):
                await asyncio.sleep(0.005)
            left.set()
            guest = await stage.client()
            # More than a worker may have without having handled it.
            for _ in range(30):
                self.assertEqual(len(await guest.call("echo", "x" * 100_000)), 100_000)

    async def test_the_end_of_a_socket_that_has_moved_is_told_by_its_next_worker(self):
        async with Stage() as stage, stage.own_worker() as first:
            story, told = [], asyncio.Event()

            def tell(worker, name):
                @worker.connected
                async def connected(socket):
                    story.append((name, "in", socket.recovered))

                @worker.disconnected
                async def disconnected(socket, reason):
                    story.append((name, "out"))
                    told.set()

            tell(first, "first")
            guest = await stage.client()
            async with stage.own_worker() as second:
                tell(second, "second")
                first.stop()
                while ("second", "in", True) not in story:
                    await asyncio.sleep(0.005)
                self.assertEqual(first._desks, {})
                await guest.disconnect()
                await told.wait()
            self.assertEqual(story, [("first", "in", False), ("second", "in", True), ("second", "out")])

    async def test_a_number_that_python_does_not_read_ended_the_worker(self):
        async with Stage() as stage:
            await stage.worker()
            guest = await stage.guest()
            async with stage.raw('40{"n":%s}' % ("1" * 5_000)) as raw:
                self.assertEqual(await raw.receive_str(), '44{"message":"cannot read the payload of CONNECT"}')
            async with stage.raw("40{}") as raw:
                await raw.receive_str()
                await raw.send_str('421["echo",%s]' % ("1" * 5_000))
                while not (said := await raw.receive_str()).startswith("43"):
                    pass
                self.assertEqual(said, '431[{"error":"The handler failed"}]')
            self.assertEqual(await guest.call("echo", "well"), "well")

    async def test_more_than_16_mib_at_once_ended_the_service_of_all_clients(self):
        async with Stage(more='[limits]\noutbox_bytes_max = "64MiB"') as stage, stage.own_worker() as worker:

            @worker.on("flood")
            def flood(socket):
                for n in range(40):
                    socket.emit("part", n, "x" * (1 << 19))
                return "all"

            @worker.on("huge")
            def huge(socket):
                with self.assertRaises(TooLarge):
                    socket.emit("part", -1, "x" * (17 << 20))
                return "x" * (17 << 20)

            guest, parts = await stage.client(), []
            guest.on("part", lambda n, _: parts.append(n))
            self.assertEqual(await guest.call("flood"), "all")
            self.assertEqual(await guest.call("huge"), {"error": "The handler failed"})
            self.assertEqual(parts, list(range(40)))

    async def test_a_worker_that_is_refused_says_so(self):
        async with Stage() as stage:
            worker = Worker(stage.workers, key="sockeye_wrong", backend="kitchen")
            with self.assertRaisesRegex(LinkRefused, "no backend of this name has this key"):
                await worker.run()

    async def test_what_waits_for_a_gateway_is_bounded(self):
        worker = Worker("127.0.0.1:9", key="sockeye_none", backend="kitchen")
        running = asyncio.create_task(worker.run())
        await asyncio.sleep(0)
        refusal = "cannot send `%s`: 64 MiB wait for the gateway at 127.0.0.1:9; the link to it is down, and is tried again"
        long = "x" * (4 << 20)
        with self.assertRaisesRegex(TooMuchWaits, refusal % "join"):
            for n in range(16):
                worker.join(long)
        self.assertEqual(n, 15)
        with self.assertRaisesRegex(TooMuchWaits, refusal % "emit"):
            worker.emit("news", long)
        # What the gateway waits for is sent in any case.
        worker.command(ack=Ack(socket="a", ack=1, args=long.encode()))
        running.cancel()

    async def test_callers_waited_for_ever_for_a_gateway_that_was_away(self):
        worker = Worker("127.0.0.1:9", key="sockeye_none", backend="kitchen")
        running = asyncio.create_task(worker.run())
        await asyncio.sleep(0)
        for asked in (worker.ask("ready?", timeout=0.1), worker.fetch(timeout=0.1), worker.servers.ask("load", timeout=0.1)):
            with self.assertRaisesRegex(ConnectionError, "did not give one in 0.1 s; the link to it is down, and is tried again"):
                await asked
        # SIGTERM ended it never.
        worker.stop()
        await running

    async def test_a_second_handler_for_an_event_is_an_error(self):
        worker = Worker("127.0.0.1:9", key="", backend="kitchen")
        worker.on("news")(print)
        with self.assertRaisesRegex(ValueError, "cannot register len for .* in /: print is registered"):
            worker.on("news")(len)
