package sockeye.conformance;

import io.socket.client.Ack;
import io.socket.client.Socket;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.LinkedBlockingQueue;
import org.json.JSONArray;
import org.json.JSONObject;

/** What the Java client must find at a server. Static methods, run once per way of using the transports. */
final class Scenarios {
    private static final int BURST = 200;
    private static final long IDLE_MS = 1500;

    private Scenarios() {}

    @Scenario("connects over the wanted transport")
    static void connects(Client.Way way) throws Exception {
        try (Client client = Client.connect(way)) {
            equal(20, client.socket.id().length());
            String wanted = way.transports[way.transports.length - 1];
            String transport = "";
            // The upgrade goes on behind the connection.
            for (int i = 0; i < 100 && !transport.equals(wanted); i++) {
                JSONObject who = (JSONObject) client.ask("who")[0];
                equal(client.socket.id(), who.getString("id"));
                transport = who.getString("transport");
            }
            equal(wanted, transport);
        }
    }

    @Scenario("the auth payload reaches the server")
    static void auth(Client.Way way) throws Exception {
        try (Client client = Client.connect(way, "/lab", Map.of("user", "ann"))) {
            JSONObject who = (JSONObject) client.ask("who")[0];
            equal("ann", who.getJSONObject("auth").getString("user"));
        }
    }

    @Scenario("the main namespace greets with the auth payload and mirrors messages")
    static void mainNamespace(Client.Way way) throws Exception {
        try (Client client = Client.create(way, "/", Map.of("token", "x"), false)) {
            LinkedBlockingQueue<Object[]> greeting = client.inbox("auth");
            LinkedBlockingQueue<Object[]> back = client.inbox("message-back");
            client.open();
            equal("x", ((JSONObject) Client.take(greeting, "the greeting")[0]).getString("token"));
            client.socket.emit("message", 1, "two", new JSONObject("{\"three\":[3]}"));
            Object[] args = Client.take(back, "message-back");
            equal(1, args[0]);
            equal("two", args[1]);
            equal("{\"three\":[3]}", args[2].toString());
        }
    }

    @Scenario("an unknown namespace is refused")
    static void unknownNamespace(Client.Way way) throws Exception {
        equal("Invalid namespace", refusal(way, "/nowhere").getString("message"));
    }

    @Scenario("a refusal carries message and data")
    static void refusalWithData(Client.Way way) throws Exception {
        JSONObject error = refusal(way, "/forbidden");
        equal("not authorized", error.getString("message"));
        equal("E_AUTH", error.getJSONObject("data").getString("code"));
    }

    private static JSONObject refusal(Client.Way way, String namespace) throws Exception {
        try (Client client = Client.create(way, namespace, null, false)) {
            LinkedBlockingQueue<Object[]> errors = client.inbox(Socket.EVENT_CONNECT_ERROR);
            client.socket.connect();
            return (JSONObject) Client.take(errors, "connect_error")[0];
        }
    }

    @Scenario("values of every JSON kind come back")
    static void values(Client.Way way) throws Exception {
        try (Client client = Client.connect(way)) {
            Object[] values = {1, -1, 1.5, "text", "", true, false, JSONObject.NULL};
            for (Object value : values) {
                Object[] back = client.ask("echo", value, "and");
                equal(value, back[0] == null ? JSONObject.NULL : back[0]);
                equal("and", back[1]);
            }
            String nested = "{\"a\":[{\"b\":[null,1]}]}";
            equal(nested, client.ask("echo", new JSONObject(nested))[0].toString());
            equal(0, client.ask("echo").length);
        }
    }

    @Scenario("texts survive")
    static void texts(Client.Way way) throws Exception {
        String[] texts = {"é ß λόγος 汉字", "😀 𝄞", "a\u2028b", "nul \0 and \u001f", "a\u001eb", "\"\\/\b\f\n\r\t", "42[\"x\"]"};
        try (Client client = Client.connect(way)) {
            for (String text : texts) {
                equal(text, client.ask("echo", text)[0]);
            }
        }
    }

    @Scenario("the client answers the server's question")
    static void questions(Client.Way way) throws Exception {
        try (Client client = Client.connect(way)) {
            client.socket.on("question", args -> ((Ack) args[args.length - 1]).call("fine", args[0]));
            LinkedBlockingQueue<Object[]> answer = client.inbox("answer");
            client.socket.emit("ask", 7);
            equal(List.of("fine", 7), Arrays.asList(Client.take(answer, "the answer")));
        }
    }

    @Scenario("binary goes there and back, empty and large too")
    static void binary(Client.Way way) throws Exception {
        try (Client client = Client.connect(way)) {
            for (int size : new int[] {0, 1, 126, 65_536, 150_000}) {
                byte[] sent = new byte[size];
                new Random(size).nextBytes(sent);
                Object back = client.ask("echo", (Object) sent)[0];
                check(Arrays.equals(sent, (byte[]) back), size + " bytes");
            }
            equal(7, client.ask("length", (Object) new byte[7])[0]);
        }
    }

    @Scenario("binary in the client's answer, several attachments at their places")
    static void binaryAnswer(Client.Way way) throws Exception {
        try (Client client = Client.connect(way)) {
            client.socket.on("question", args -> {
                JSONArray list = new JSONArray();
                list.put(args[0]);
                list.put("between");
                list.put(new byte[] {9});
                ((Ack) args[args.length - 1]).call(list);
            });
            LinkedBlockingQueue<Object[]> answer = client.inbox("answer");
            client.socket.emit("ask", (Object) new byte[] {1, 2});
            JSONArray list = (JSONArray) Client.take(answer, "the answer")[0];
            check(Arrays.equals(new byte[] {1, 2}, (byte[]) list.get(0)), "first attachment");
            equal("between", list.get(1));
            check(Arrays.equals(new byte[] {9}, (byte[]) list.get(2)), "second attachment");
        }
    }

    @Scenario("a burst from the server arrives complete and in order")
    static void burst(Client.Way way) throws Exception {
        try (Client client = Client.connect(way)) {
            LinkedBlockingQueue<Object[]> ticks = client.inbox("tick");
            client.socket.emit("burst", "tick", BURST);
            equal(numbers(), Client.takeFirsts(ticks, BURST));
        }
    }

    @Scenario("a burst from the client arrives complete and in order")
    static void clientBurst(Client.Way way) throws Exception {
        try (Client client = Client.connect(way)) {
            LinkedBlockingQueue<Object[]> echoes = client.inbox("echo");
            for (Object i : numbers()) {
                client.socket.emit("echo", i);
            }
            equal(numbers(), Client.takeFirsts(echoes, BURST));
        }
    }

    private static List<Object> numbers() {
        List<Object> numbers = new ArrayList<>();
        for (int i = 0; i < BURST; i++) {
            numbers.add(i);
        }
        return numbers;
    }

    @Scenario("rooms: the sender is left out, strangers hear nothing")
    static void rooms(Client.Way way) throws Exception {
        try (Client sender = Client.connect(way); Client member = Client.connect(way); Client stranger = Client.connect(way)) {
            String room = "java-" + sender.socket.id();
            JSONArray joined = (JSONArray) member.ask("join", room)[0];
            equal(Set.of(member.socket.id(), room), new HashSet<>(List.of(joined.get(0), joined.get(1))));
            sender.ask("join", room);
            List<LinkedBlockingQueue<Object[]>> heard = new ArrayList<>();
            for (Client client : List.of(sender, member, stranger)) {
                heard.add(client.inbox("everyone-said-" + room));
            }
            sender.socket.emit("to", room, "everyone-said-" + room, "to");
            sender.socket.emit("all", "everyone-said-" + room, "all");
            equal(List.of("all"), Client.takeFirsts(heard.get(0), 1));
            equal(List.of("to", "all"), Client.takeFirsts(heard.get(1), 2));
            equal(List.of("all"), Client.takeFirsts(heard.get(2), 1));
        }
    }

    @Scenario("collect gathers every member's answer")
    static void collect(Client.Way way) throws Exception {
        try (Client a = Client.connect(way); Client b = Client.connect(way)) {
            String room = "java-" + a.socket.id();
            for (Client client : List.of(a, b)) {
                client.ask("join", room);
                client.socket.on("poll", args -> ((Ack) args[args.length - 1]).call(args[0]));
            }
            Object[] result = a.ask("collect", room, 3000, "poll", "x");
            equal("[\"x\",\"x\"]", result[1].toString());
        }
    }

    @Scenario("kick: io server disconnect, no reconnection")
    static void kick(Client.Way way) throws Exception {
        try (Client client = Client.create(way, "/lab", null, true).open()) {
            LinkedBlockingQueue<Object[]> gone = client.inbox(Socket.EVENT_DISCONNECT);
            client.socket.emit("kick");
            equal("io server disconnect", Client.take(gone, "disconnect")[0]);
            Thread.sleep(300);
            check(!client.socket.connected(), "it reconnected");
        }
    }

    @Scenario("kick-close: io server disconnect, and the connection ends soon")
    static void kickClose(Client.Way way) throws Exception {
        try (Client client = Client.connect(way)) {
            LinkedBlockingQueue<Object[]> gone = client.inbox(Socket.EVENT_DISCONNECT);
            client.socket.emit("kick-close");
            equal("io server disconnect", Client.take(gone, "disconnect")[0]);
        }
    }

    @Scenario("drop: the client notices and comes back by itself")
    static void drop(Client.Way way) throws Exception {
        try (Client client = Client.create(way, "/lab", null, true).open()) {
            String first = client.socket.id();
            LinkedBlockingQueue<Object[]> gone = client.inbox(Socket.EVENT_DISCONNECT);
            LinkedBlockingQueue<Object[]> back = client.inbox(Socket.EVENT_CONNECT);
            client.socket.emit("drop");
            String reason = (String) Client.take(gone, "disconnect")[0];
            // This client never answers a close frame: it sees the end of TCP, or its own ping timeout.
            check(List.of("transport close", "transport error", "ping timeout").contains(reason), reason);
            Client.take(back, "the reconnection");
            check(!first.equals(client.socket.id()), "the id stayed");
            equal("again", client.ask("echo", "again")[0]);
        }
    }

    @Scenario("the client's own disconnect is seen by the server")
    static void ownDisconnect(Client.Way way) throws Exception {
        try (Client observer = Client.connect(way)) {
            Client client = Client.connect(way);
            String id = client.socket.id();
            client.close();
            int there = 1;
            for (int i = 0; i < 100 && there > 0; i++) {
                there = ((JSONArray) observer.ask("fetch", id)[1]).length();
                Thread.sleep(20);
            }
            equal(0, there);
        }
    }

    @Scenario("an idle connection stays up over several heartbeats")
    static void idle(Client.Way way) throws Exception {
        try (Client client = Client.connect(way)) {
            LinkedBlockingQueue<Object[]> gone = client.inbox(Socket.EVENT_DISCONNECT);
            Thread.sleep(IDLE_MS);
            check(gone.isEmpty(), "it was disconnected");
            equal("awake", client.ask("echo", "awake")[0]);
        }
    }

    private static void equal(Object expected, Object actual) {
        check(Objects.equals(expected, actual), "expected " + expected + ", got " + actual);
    }

    private static void check(boolean holds, String otherwise) {
        if (!holds) {
            throw new AssertionError(otherwise);
        }
    }
}
