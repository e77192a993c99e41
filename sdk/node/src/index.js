// A worker in the shape of Socket.IO's server. The gateway holds the sockets; this process holds the logic.
import { EventEmitter } from "node:events";
import { decode, encode } from "./codec.js";
import { Link } from "./link.js";

const ASK_TIMEOUT_MS = 10_000;

/** Whom an emit, a join or a fetch is for. Each call gives a new one. */
class Operator {
  #to;
  constructor(namespace, to = {}) {
    this.namespace = namespace;
    this.#to = { rooms: [], except: [], volatile: false, timeout: undefined, ...to };
  }

  #with(more) {
    return new Operator(this.namespace, { ...this.#to, ...more });
  }

  to(rooms) {
    return this.#with({ rooms: [...this.#to.rooms, ...[rooms].flat()] });
  }

  in(rooms) {
    return this.to(rooms);
  }

  except(rooms) {
    return this.#with({ except: [...this.#to.except, ...[rooms].flat()] });
  }

  get volatile() {
    return this.#with({ volatile: true });
  }

  timeout(ms) {
    return this.#with({ timeout: ms });
  }

  get target() {
    return { namespace: this.namespace.name, rooms: this.#to.rooms, except: this.#to.except };
  }

  #message(event, args) {
    return { to: this.target, event, ...encode(args), volatile: this.#to.volatile };
  }

  emit(event, ...args) {
    if (typeof args.at(-1) === "function") {
      const done = args.pop();
      this.emitWithAck(event, ...args).then(
        (answers) => done(null, answers),
        (error) => done(error, error.responses),
      );
    } else {
      this.namespace.server.command({ emit: this.#message(event, args) });
    }
    return true;
  }

  /** The answers of all; rejects with what came (`responses`) when some are missing. */
  async emitWithAck(event, ...args) {
    const ask = { emit: this.#message(event, args), timeout_ms: this.#to.timeout ?? ASK_TIMEOUT_MS };
    const { answers, missing } = await this.namespace.server.query({ ask });
    const responses = answers.map((answer) => decode(answer.args, answer.attachments)[0]);
    if (missing === 0) return responses;
    throw Object.assign(new Error("operation has timed out"), { responses });
  }

  socketsJoin(rooms) {
    this.namespace.server.command({ join: { of: this.target, rooms: [rooms].flat() } });
  }

  socketsLeave(rooms) {
    this.namespace.server.command({ leave: { of: this.target, rooms: [rooms].flat() } });
  }

  disconnectSockets(close = false) {
    this.namespace.server.command({ disconnect: { of: this.target, close } });
  }

  /** All sockets that are meant, wherever their workers are. */
  async fetchSockets() {
    const fetch = { of: this.target, timeout_ms: this.#to.timeout ?? ASK_TIMEOUT_MS };
    const { sockets } = await this.namespace.server.query({ fetch });
    return sockets.map(({ socket, rooms, data }) => {
      const one = new Operator(this.namespace, { rooms: [socket] });
      return {
        id: socket,
        rooms: new Set(rooms),
        data: JSON.parse(data),
        emit: (...args) => one.emit(...args),
        join: (rooms) => one.socketsJoin(rooms),
        leave: (rooms) => one.socketsLeave(rooms),
        disconnect: (close) => one.disconnectSockets(close),
      };
    });
  }
}

export class Socket extends EventEmitter {
  #said = "{}";
  #middlewares = [];

  constructor(namespace, connect) {
    super();
    this.nsp = namespace;
    this.id = connect.socket;
    this.handshake = {
      auth: JSON.parse(connect.auth.toString()),
      query: Object.fromEntries(new URLSearchParams(connect.query)),
      headers: Object.fromEntries(connect.headers.map(({ name, value }) => [name.toLowerCase(), value.toString()])),
      address: connect.address,
    };
    this.user = connect.user || undefined;
    this.rooms = new Set([this.id]);
    this.data = {};
    this.recovered = false;
    this.connected = false;
  }

  get #self() {
    return new Operator(this.nsp, { rooms: [this.id] });
  }

  emit(event, ...args) {
    if (typeof args.at(-1) === "function") {
      const done = args.pop();
      // One client answers: its arguments are the callback's, as in Socket.IO.
      this.nsp.server
        .query({ ask: { emit: { to: this.#self.target, event, ...encode(args) }, timeout_ms: ASK_TIMEOUT_MS } })
        .then(({ answers: [answer] }) => answer && done(...decode(answer.args, answer.attachments)), logged);
      return true;
    }
    return this.#self.emit(event, ...args);
  }

  async emitWithAck(event, ...args) {
    return (await this.#self.emitWithAck(event, ...args))[0];
  }

  join(rooms) {
    const all = [rooms].flat();
    all.forEach((room) => this.rooms.add(room));
    this.#self.socketsJoin(all);
  }

  leave(room) {
    this.rooms.delete(room);
    this.#self.socketsLeave(room);
  }

  /** To members of rooms, but not to this socket. */
  to(rooms) {
    return new Operator(this.nsp, { except: [this.id] }).to(rooms);
  }

  in(rooms) {
    return this.to(rooms);
  }

  get broadcast() {
    return new Operator(this.nsp, { except: [this.id] });
  }

  get volatile() {
    return this.#self.volatile;
  }

  use(middleware) {
    this.#middlewares.push(middleware);
    return this;
  }

  disconnect(close = false) {
    this.#self.disconnectSockets(close);
    return this;
  }

  /** Calls the program's own listeners. A client may name its event `error`: Node throws such an event if nobody listens. */
  fire(event, ...args) {
    return (event !== "error" || this.listenerCount(event) > 0) && super.emit(event, ...args);
  }

  /** @internal */
  take(event, redelivered) {
    const args = decode(event.args, event.attachments);
    if (event.ack !== 0) {
      args.push((...answer) => {
        this.nsp.server.command({ ack: { socket: this.id, ack: event.ack, ...encode(answer) } });
        this.save();
      });
    }
    this.redelivered = redelivered;
    run(this.#middlewares, [event.event, ...args], (error) => {
      if (error) this.fire("error", error);
      else this.fire(event.event, ...args);
      this.save();
    });
  }

  /** `data` goes with the socket when it moves to another worker. */
  save() {
    const data = JSON.stringify(this.data);
    if (data === this.#said) return;
    this.#said = data;
    this.nsp.server.command({ set_data: { socket: this.id, data } });
  }

  /** @internal */
  restore({ rooms, data }) {
    this.rooms = new Set([this.id, ...rooms]);
    this.#said = data;
    this.data = JSON.parse(data);
    this.recovered = true;
  }
}

/** One middleware after the other, until one has an error. */
function run(middlewares, value, done) {
  const step = (at) => {
    if (at === middlewares.length) return done();
    middlewares[at](value, (error) => (error ? done(error) : step(at + 1)));
  };
  step(0);
}

class Namespace extends Operator {
  #listeners = new EventEmitter();
  #middlewares = [];
  sockets = new Map();

  constructor(server, name) {
    super(null);
    this.namespace = this;
    this.server = server;
    this.name = name;
  }

  on(event, listener) {
    this.#listeners.on(event, listener);
    return this;
  }

  use(middleware) {
    this.#middlewares.push(middleware);
    return this;
  }

  /** @internal */
  connect(connect) {
    const socket = new Socket(this, connect);
    this.sockets.set(socket.id, socket);
    run(this.#middlewares, socket, (error) => {
      if (this.sockets.get(socket.id) !== socket) return;
      const data = error?.data === undefined ? "" : JSON.stringify(error.data);
      this.server.command({ decision: { socket: socket.id, admit: !error, message: error?.message ?? "", data } });
      if (error) this.sockets.delete(socket.id);
      else this.#welcome(socket);
    });
  }

  /** @internal */
  resume(resume) {
    const socket = new Socket(this, resume.connect);
    socket.restore(resume);
    this.sockets.set(socket.id, socket);
    this.#welcome(socket);
  }

  #welcome(socket) {
    socket.connected = true;
    this.#listeners.emit("connection", socket);
    socket.save();
  }

  /** @internal */
  end(socket, reason, rooms) {
    this.sockets.delete(socket.id);
    socket.connected = false;
    if (rooms) socket.rooms = new Set(rooms);
    socket.fire("disconnecting", reason);
    socket.rooms.clear();
    socket.fire("disconnect", reason);
  }
}

export class Server {
  #namespaces = new Map();
  #queries = new Map();
  #numbers = 0;
  #link;
  #ended;

  /** @param {{ gateway: string, key: string, backend: string, weight?: number }} options */
  constructor(options) {
    this.#ended = Promise.withResolvers?.() ?? withResolvers();
    this.ready = new Promise((resolve, reject) => {
      this.#link = new Link(options, {
        item: (item) => this.#take(item),
        ready: resolve,
        failed: (error) => {
          console.error(`sockeye: the gateway refuses this worker: ${error.details}`);
          reject(error);
          this.#forget();
          this.#ended.resolve();
        },
        lost: () => this.#forget(),
        ended: () => this.#ended.resolve(),
      });
    });
    const main = this.of("/");
    for (const name of ["on", "use", "to", "in", "except", "timeout", "emit", "emitWithAck", "socketsJoin", "socketsLeave"]) {
      this[name] = (...args) => main[name](...args);
    }
    this.fetchSockets = () => main.fetchSockets();
    this.disconnectSockets = (close) => main.disconnectSockets(close);
    this.sockets = main;
  }

  of(name) {
    if (!this.#namespaces.has(name)) this.#namespaces.set(name, new Namespace(this, name));
    return this.#namespaces.get(name);
  }

  /** Hands the sockets over to other workers; their clients notice nothing. Resolves when nothing is left. */
  close() {
    this.#link.leave();
    return this.#ended.promise;
  }

  /** @internal */
  command(what) {
    return this.#link.command(what);
  }

  /** @internal */
  query(what) {
    const query = ++this.#numbers;
    const [name] = Object.keys(what);
    return new Promise((resolve, reject) => {
      const command = this.command({ [name]: { ...what[name], query } });
      if (command === undefined) reject(new Error("this worker has ended"));
      else this.#queries.set(query, { command, resolve, reject });
    });
  }

  #take({ what, redelivered, ...item }) {
    const value = item[what];
    switch (what) {
      case "connect":
        return this.of(value.namespace).connect(value);
      case "resume":
        return this.of(value.connect.namespace).resume(value);
      case "event":
        return this.#find(value.socket)?.take(value, redelivered);
      case "gone": {
        const socket = this.#find(value.socket);
        return socket?.nsp.end(socket, value.reason, value.rooms);
      }
      case "answers":
      case "found":
        this.#queries.get(value.query)?.resolve(value);
        return this.#queries.delete(value.query);
      case "failed":
        return this.#failed(value);
    }
  }

  /** The caller that waits for the command's answer gets the error. */
  #failed({ command, message }) {
    console.error(`sockeye: command ${command} failed: ${message}`);
    for (const [query, waiting] of this.#queries) {
      if (waiting.command === command) {
        this.#queries.delete(query);
        waiting.reject(new Error(message));
      }
    }
  }

  #find(id) {
    for (const namespace of this.#namespaces.values()) {
      const socket = namespace.sockets.get(id);
      if (socket) return socket;
    }
  }

  /** The gateway gave this worker up, and its sockets to others. */
  #forget() {
    for (const namespace of this.#namespaces.values()) {
      for (const socket of [...namespace.sockets.values()]) namespace.end(socket, "worker replaced");
    }
    const empty = { answers: [], missing: 1, sockets: [], incomplete: true };
    this.#queries.forEach(({ resolve }) => resolve(empty));
    this.#queries.clear();
  }
}

/** The error of a command was written to the log when it came. */
const logged = () => {};

function withResolvers() {
  const all = {};
  all.promise = new Promise((resolve, reject) => Object.assign(all, { resolve, reject }));
  return all;
}
