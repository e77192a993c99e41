// Stock clients in Java for upgrades.mjs: each says numbers to its room of ten, and asks a worker.
// java -cp 'conformance/java/target/dependency/*' Crowd.java URL,URL 60: says "ready" when all are in their rooms, ends on a line from its standard
// input, and prints what it counted as a line of JSON.
import io.socket.client.Ack;
import io.socket.client.AckWithTimeout;
import io.socket.client.IO;
import io.socket.client.Manager;
import io.socket.client.Socket;
import java.net.URI;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import okhttp3.Dispatcher;
import okhttp3.OkHttpClient;
import org.json.JSONArray;
import org.json.JSONObject;

public final class Crowd {
    static final int ROOM = 10;
    static final long PACE_MS = 6_000;
    static final AtomicLong asked = new AtomicLong(), answered = new AtomicLong(), unanswered = new AtomicLong();
    static final AtomicLong cuts = new AtomicLong(), lost = new AtomicLong(), twice = new AtomicLong(), disordered = new AtomicLong();
    static final JSONArray delays = new JSONArray();
    static volatile boolean over = false;
    /** Each polling client holds a request; by default OkHttp sends five to a host at once. */
    static final OkHttpClient HTTP = new OkHttpClient.Builder().dispatcher(dispatcher()).readTimeout(1, TimeUnit.MINUTES).build();

    static Dispatcher dispatcher() {
        Dispatcher dispatcher = new Dispatcher();
        dispatcher.setMaxRequests(10_000);
        dispatcher.setMaxRequestsPerHost(10_000);
        return dispatcher;
    }

    /** One client; every third polls. */
    static final class Client {
        final int at;
        final String room;
        final Socket main, shop;
        final Map<Integer, Integer> heard = new HashMap<>();
        int said, questions;

        Client(int at, String url) {
            this.at = at;
            this.room = "java-" + at / ROOM;
            IO.Options options = new IO.Options();
            options.callFactory = HTTP;
            options.webSocketFactory = HTTP;
            options.transports = new String[] {at % 3 == 0 ? "polling" : "websocket"};
            Manager manager = new Manager(URI.create(url), options);
            main = manager.socket("/", options);
            shop = manager.socket("/shop", options);
            main.on(Socket.EVENT_DISCONNECT, reason -> cuts.incrementAndGet());
            shop.on(Socket.EVENT_DISCONNECT, reason -> cuts.incrementAndGet());
            main.on("n", words -> hear((JSONObject) words[0]));
        }

        void open() throws InterruptedException {
            CountDownLatch open = new CountDownLatch(3);
            main.on(Socket.EVENT_CONNECT, none -> {
                open.countDown();
                main.emit("join", new Object[] {room}, (Ack) answer -> open.countDown());
            });
            shop.on(Socket.EVENT_CONNECT, none -> open.countDown());
            main.connect();
            shop.connect();
            if (open.await(30, TimeUnit.SECONDS)) return;
            System.err.println("client " + at + " did not connect within 30 s");
            System.exit(1);
        }

        synchronized void hear(JSONObject word) {
            int from = word.optInt("from"), n = word.optInt("n"), due = heard.getOrDefault(from, 0);
            if (n < due) {
                twice.incrementAndGet();
                return;
            }
            lost.addAndGet(n - due);
            heard.put(from, n + 1);
        }

        void speak() {
            if (over) return;
            main.emit("n", new JSONObject(Map.of("from", at, "n", said++)));
            int question = questions++;
            long began = System.currentTimeMillis();
            asked.incrementAndGet();
            shop.emit("count", new Object[] {question}, new AckWithTimeout(30_000) {
                @Override
                public void onSuccess(Object... answer) {
                    answered.incrementAndGet();
                    if (!Integer.valueOf(question).equals(answer[0])) disordered.incrementAndGet();
                    synchronized (delays) {
                        delays.put(new JSONArray(List.of(began, System.currentTimeMillis() - began)));
                    }
                }

                @Override
                public void onTimeout() {
                    unanswered.incrementAndGet();
                }
            });
        }
    }

    public static void main(String[] words) throws Exception {
        String[] urls = words[0].split(",");
        int count = Integer.parseInt(words[1]);
        List<Client> clients = new ArrayList<>();
        for (int at = 0; at < count; at++) clients.add(new Client(at, urls[at % urls.length]));
        for (Client client : clients) client.open();
        System.out.println("ready");
        ScheduledExecutorService clock = Executors.newScheduledThreadPool(2);
        for (Client client : clients) clock.scheduleAtFixedRate(client::speak, client.at * PACE_MS / count, PACE_MS, TimeUnit.MILLISECONDS);
        System.in.read();
        over = true;
        for (int tries = 0; answered.get() + unanswered.get() < asked.get() && tries < 400; tries++) Thread.sleep(100);
        Thread.sleep(5_000);
        // A number that nobody has heard by now is lost.
        for (Client client : clients)
            for (Client other : clients)
                if (other != client && other.room.equals(client.room)) lost.addAndGet(other.said - client.heard.getOrDefault(other.at, 0));
        long said = clients.stream().mapToLong(client -> client.said).sum();
        JSONObject figures = new JSONObject(Map.of("said", said, "asked", asked.get(), "answered", answered.get(), "unanswered", unanswered.get(),
                "cuts", cuts.get(), "lost", lost.get(), "twice", twice.get(), "disordered", disordered.get(), "delays", delays));
        System.out.println(figures);
        System.exit(0);
    }
}
