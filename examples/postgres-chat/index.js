// A chat whose messages live in PostgreSQL: a message is acknowledged when it is in the table.
import express from "express";
import pg from "pg";
import { createServer } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { Server } from "@sockeye/server"; // was: from "socket.io"

const SHOWN = 50;
const NAME_MAX = 30;
const TEXT_MAX = 1_000;
const START_TRIES = 30;
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

// The page makes `key`: a message that is said again is the same message. Two programs may start at once, hence the lock.
const TABLE = `
  begin;
  select pg_advisory_xact_lock(1);
  create table if not exists messages (
    id bigint generated always as identity primary key,
    key uuid not null unique,
    author text not null,
    text text not null,
    said_at timestamptz not null default now()
  );
  commit`;
const INSERT = `
  insert into messages (key, author, text) values ($1, $2, $3)
  on conflict (key) do update set key = excluded.key
  returning id, key, author, text, said_at`;
const LAST = `select id, key, author, text, said_at from messages order by id desc limit ${SHOWN}`;

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, connectionTimeoutMillis: 3_000, query_timeout: 5_000 });
// A connection that is not in use may be lost: the next query takes another one.
pool.on("error", (error) => console.error(`lost a connection to PostgreSQL: ${error.message}`));

async function prepare() {
  for (let tries = 1; ; tries++) {
    try {
      return await pool.query(TABLE);
    } catch (error) {
      if (tries === START_TRIES) throw error;
      await sleep(1_000);
    }
  }
}

/** Characters that people may write, and PostgreSQL can keep. */
const isText = (text, max) => typeof text === "string" && text.trim() !== "" && text.length <= max && !text.includes("\0");

/** An answer in any case: pages say a message again when they are told to come later. */
async function answer(done, work) {
  const given = await work().catch((error) => {
    console.error(`cannot use PostgreSQL: ${error.message}`);
    return { later: true };
  });
  if (typeof done === "function") done(given);
}

const app = express();
const server = createServer(app);
const io = new Server(server);

app.get("/", (req, res) => {
  res.sendFile(fileURLToPath(new URL("./index.html", import.meta.url)));
});

// Anybody may take any name. tables/index.js asks for a token.
io.use((socket, next) => {
  const { name } = socket.handshake.auth;
  if (!isText(name, NAME_MAX)) return next(new Error(`a name has 1 to ${NAME_MAX} characters`));
  socket.data.name = name.trim();
  next();
});

// A listener that returns a promise has handled its event when the promise is kept. Until then the gateway would give the event to another worker, if this one died.
io.on("connection", (socket) => {
  socket.on("last", (done) =>
    answer(done, async () => {
      const { rows } = await pool.query(LAST);
      return { messages: rows.reverse() };
    }));

  socket.on("say", (said, done) =>
    answer(done, async () => {
      const { key, text } = said ?? {};
      if (typeof key !== "string" || !UUID.test(key) || !isText(text, TEXT_MAX)) return { refused: `a message has a key and 1 to ${TEXT_MAX} characters` };
      const { rows: [message] } = await pool.query(INSERT, [key, socket.data.name, text]);
      io.emit("message", message);
      return { id: message.id };
    }));
});

await prepare();
const port = process.env.PORT ?? 3000;
server.listen(port, () => {
  console.log(`listening on port ${port}`);
});
