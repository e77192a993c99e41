package sockeye.conformance;

import io.socket.client.Ack;
import io.socket.client.IO;
import io.socket.client.Socket;
import io.socket.engineio.client.transports.Polling;
import io.socket.engineio.client.transports.WebSocket;
import java.net.URI;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** One stock socket of its own connection, with blocking waits around its callbacks. */
final class Client implements AutoCloseable {
    /** Longer than the patient server's heartbeat, by which this client notices the loss of a peer that keeps TCP open. */
    static final long WAIT_MS = 8000;

    /** The ways of using the transports that every scenario runs over. */
    enum Way {
        POLLING(Polling.NAME),
        WEBSOCKET(WebSocket.NAME),
        UPGRADE(Polling.NAME, WebSocket.NAME);

        final String[] transports;

        Way(String... transports) {
            this.transports = transports;
        }
    }

    final Socket socket;

    private Client(Socket socket) {
        this.socket = socket;
    }

    /** A socket that is not connecting yet, so that listeners can be set first. */
    static Client create(Way way, String namespace, Map<String, String> auth, boolean reconnects) {
        IO.Options options = IO.Options.builder()
                .setForceNew(true)
                .setTransports(way.transports)
                .setReconnection(reconnects)
                .setReconnectionDelay(50)
                .setReconnectionDelayMax(100)
                .setAuth(auth)
                .build();
        return new Client(IO.socket(URI.create(Main.URL + namespace), options));
    }

    static Client connect(Way way) throws Exception {
        return connect(way, "/lab", null);
    }

    static Client connect(Way way, String namespace, Map<String, String> auth) throws Exception {
        return create(way, namespace, auth, false).open();
    }

    Client open() throws Exception {
        LinkedBlockingQueue<Object[]> connected = inbox(Socket.EVENT_CONNECT);
        socket.connect();
        take(connected, "connect");
        return this;
    }

    /** Collects the arguments of each `event`. */
    LinkedBlockingQueue<Object[]> inbox(String event) {
        LinkedBlockingQueue<Object[]> queue = new LinkedBlockingQueue<>();
        socket.on(event, queue::add);
        return queue;
    }

    static Object[] take(LinkedBlockingQueue<Object[]> inbox, String what) throws InterruptedException {
        Object[] args = inbox.poll(WAIT_MS, TimeUnit.MILLISECONDS);
        if (args == null) {
            throw new AssertionError("waited " + WAIT_MS + " ms for " + what);
        }
        return args;
    }

    static List<Object> takeFirsts(LinkedBlockingQueue<Object[]> inbox, int count) throws InterruptedException {
        List<Object> firsts = new ArrayList<>();
        while (firsts.size() < count) {
            firsts.add(take(inbox, "item " + firsts.size() + " of " + count)[0]);
        }
        return firsts;
    }

    /** Emits and returns the acknowledgement's arguments. */
    Object[] ask(String event, Object... args) throws InterruptedException {
        LinkedBlockingQueue<Object[]> answer = new LinkedBlockingQueue<>();
        socket.emit(event, args, (Ack) answer::add);
        return take(answer, "the ack of " + event);
    }

    @Override
    public void close() {
        socket.disconnect();
    }
}
