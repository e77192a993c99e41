// Takes the pictures of docs/images: starts the gateway (SOCKEYE_BIN), lets people talk, and looks
// at their screens; then at an operator's, over five minutes of traffic, and at two nodes with Redis and a
// worker. `node screenshots.mjs chat`, `console` or `nodes` takes only these; `look FOLDER` takes every
// page of the console on a desk and on a phone, light and dark, to be looked at.

import { mkdirSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { setTimeout as sleep } from "node:timers/promises";
import { io } from "socket.io-client";
import { Cluster } from "./tests/cluster.mjs";
import { Gateway } from "./tests/gateway.mjs";
import { PHONE as NARROW } from "./tests/judge.mjs";
import { Operator, PAGES, Watched } from "./tests/operator.mjs";
import { Person, launchBrowser } from "./tests/person.mjs";
import { sluggard } from "./tests/sluggard.mjs";

const images = join(dirname(fileURLToPath(import.meta.url)), "../docs/images");
const IMAGE_BYTES_MAX = 200 * 1024;
const DESKTOP = { viewport: { width: 1200, height: 750 }, deviceScaleFactor: 1.5 };
const PHONE = {
  viewport: { width: 390, height: 780 },
  deviceScaleFactor: 2,
  isMobile: true,
  hasTouch: true,
};

/** Who says what where; in this order. */
const TALK = [
  ["maya", "global", "Morning! The counting station at the ladder is live again 🐟"],
  ["maya", "global", "Camera and sonar agree to within two fish per hour."],
  ["ines", "global", "That is better than us on a good day."],
  ["tom", "global", "How many came through last night?"],
  ["maya", "global", "1,284 sockeye between sunset and five. The run is two days early."],
  [
    "tom",
    "global",
    "Two days early, with the river this low? I would like to see the temperature next to that curve before we tell anyone.",
  ],
  ["ines", "global", "Same. It was 14.2° at the weir at four, I can send the series."],
  [
    "maya",
    "global",
    "Please do. Field notes are in #field-notes, or by link:\nhttps://run.example.org/notes/2026-run",
  ],
  ["ines", "field-notes", "Gate 3 needs a new hinge, photos tonight."],
  ["tom", "field-notes", "I have one in the truck."],
  ["tom", "global", "Reading. If both series hold until noon I will call the hatchery."],
  ["ines", "global", "Uploaded. Back at the ladder in an hour 🎣"],
];

async function gather(browser, gateway) {
  return {
    maya: await Person.arrive(browser, gateway, "Maya Lind", DESKTOP),
    tom: await Person.arrive(browser, gateway, "Tom Vance", { ...DESKTOP, colorScheme: "dark" }),
    ines: await Person.arrive(browser, gateway, "Ines Okafor", { ...PHONE, colorScheme: "light" }),
  };
}

async function enterRooms({ maya, tom, ines }) {
  for (const room of ["field-notes", "sonar", "hatchery"]) await maya.joinRoom(room);
  for (const room of ["field-notes", "hatchery"]) await tom.joinRoom(room);
  await ines.page.click("#open-rooms");
  await ines.joinRoom("field-notes");
  await maya.openRoom("global");
  await tom.openRoom("global");
  await goTo(ines, "global");
}

/** On the phone the list of rooms has to be opened first. */
async function goTo(person, room) {
  if ((await person.page.textContent("#room-name")) === room) return;
  if (await person.page.isVisible("#open-rooms")) await person.page.click("#open-rooms");
  await person.openRoom(room);
}

async function talk(people) {
  for (const [who, room, text] of TALK) {
    await goTo(people[who], room);
    await people[who].say(text);
    await people[who].seesState(text, "sent");
  }
  for (const person of Object.values(people)) await goTo(person, "global");
  await people.maya.sees(TALK.at(-1)[2]);
}

async function take(person, name) {
  const path = join(images, name);
  await person.page.waitForTimeout(400);
  await person.page.screenshot({ path });
  const { size } = statSync(path);
  if (size > IMAGE_BYTES_MAX)
    throw new Error(`${name} has ${size} bytes, above its budget of ${IMAGE_BYTES_MAX}`);
  console.log(`docs/images/${name}: ${size} bytes`);
}

async function chat(browser) {
  const gateway = await Gateway.start();
  try {
    const people = await gather(browser, gateway);
    await enterRooms(people);
    await talk(people);
    await people.maya.page.fill("#draft", "Thanks, both. See you at the weir");
    await take(people.maya, "chat-desktop.png");
    await take(people.tom, "chat-desktop-dark.png");
    await take(people.ines, "chat-phone.png");
  } finally {
    await gateway.stop();
  }
}

/** Rooms of the console's pictures, the busiest first. */
const ROOMS = ["ladder", "sonar", "hatchery", "field-notes", "weir/north", "weir/south", "orders"];
const USERS = ["maya", "tom", "ines", "ada", "grace", "linus", "noor", "piotr", "yuki", "sam"];
const CLIENTS = 120;
/** As long as the overview looks back. */
const TRAFFIC_MS = 295_000;

/** Two more clients each second, and each says something now and then, until it is to stop. */
async function traffic(watched, clients, stop) {
  for (let second = 0; !stop.aborted; second += 1) {
    for (let n = 0; n < 2 && clients.length < CLIENTS; n += 1)
      clients.push(await newcomer(watched, clients.length));
    clients.forEach((client, index) => {
      if ((second + index) % 4 > 1) return;
      const content = `reading ${second} of counter ${index}`;
      const say = () => client.emit("chat-message", { content, room: ROOMS[index % 3] });
      setTimeout(say, (index * 997) % 1000);
    });
    if (second % 9 === 8) clients[(second * 7) % clients.length].disconnect().connect();
    await sleep(1000);
  }
}

async function newcomer(watched, index) {
  const user = USERS[index] ?? `counter-${index}`;
  const rooms = ROOMS.filter((_, at) => at === index % 3 || index % (at + 2) === 0);
  return await watched.client(user, rooms);
}

async function consolePictures(browser) {
  const watched = await Watched.start();
  const stop = new AbortController();
  try {
    const ops = await Operator.enter(browser, watched, "ops", { ...DESK, colorScheme: "light" });
    const clients = [];
    const going = traffic(watched, clients, stop.signal);
    await sleep(TRAFFIC_MS);
    await ops.page.getByRole("radio", { name: "5 min", exact: true }).check();
    await take(ops, "console-overview.png");
    await ops.open("rooms");
    await take(ops, "console-rooms.png");
    const dark = await Operator.enter(browser, watched, "ops", { ...DESK, colorScheme: "dark" });
    await dark.open(`session/${encodeURIComponent(clients[0].id)}`);
    await take(dark, "console-session.png");
    stop.abort();
    await going;
  } finally {
    await watched.stop();
  }
}

const DESK = { viewport: { width: 1280, height: 830 }, deviceScaleFactor: 1.25 };

/** Someone at the second node who says something now and then to a room of both, and asks the worker. */
async function talker(nodes) {
  const options = { transports: ["websocket"], forceNew: true };
  const room = Array.from({ length: 40 }, (_, n) => io(nodes[n % 2].gateway.url, options));
  const meal = io(`${nodes[0].gateway.url}/meal`, options);
  await Promise.all(room.map((one) => one.emitWithAck("join", "ladder")));
  const talker = room.at(-1);
  const timer = setInterval(() => {
    talker.emit("reading", { counter: 7, fish: 3 });
    meal.emit("order", "soup", () => {});
  }, 400);
  return () => [clearInterval(timer), ...[...room, meal].map((one) => one.disconnect())];
}

async function withCluster(look) {
  const cluster = await Cluster.start();
  let stop;
  try {
    await cluster.worker(2);
    await cluster.crowd(2000);
    stop = await talker(cluster.watched);
    await look(cluster.watched[0], cluster);
  } finally {
    stop?.();
    await cluster.stop();
  }
}

async function follow(ops) {
  await ops.open("trace?event=reading");
  await ops.page.click('#main button:text-is("Follow")');
  await ops.page.waitForFunction(() => document.querySelectorAll("#main tbody tr").length > 12);
}

async function nodesPictures(browser) {
  await withCluster(async (first) => {
    const ops = await Operator.enter(browser, first, "ops", { ...DESK, colorScheme: "light" });
    await ops.open("nodes");
    // Other nodes tell of their sessions each five seconds, and rates need two answers.
    await ops.sees("#main p", /^2 nodes with 2,\d+ sessions/);
    await sleep(12_000);
    await take(ops, "console-nodes.png");
    await follow(ops);
    await take(ops, "console-trace.png");
  });
}

/** A test client that hears the ladder. */
async function listen(ops) {
  await ops.open("try?room=ladder");
  await ops.page.getByLabel("Reason, for the audit").fill("do readings arrive?");
  await ops.page.click('#main button:text-is("Listen")');
  await ops.page.waitForFunction(
    () => document.querySelectorAll('[aria-label="What it hears"] tbody tr').length > 4,
  );
  await ops.page.locator('#main h2:text-is("Listen")').scrollIntoViewIfNeeded();
}

/** What was said when a worker sent away somebody's poison. */
async function readFailures(ops) {
  await ops.open("backends");
  await ops.page.getByLabel("Reason, for the audit").first().fill("why is it poison?");
  await ops.page.keyboard.press("Enter");
  await ops.sees(".spoken pre", /./);
}

/** Pictures for the eye of one who changes the console. */
async function everyPage(browser, folder) {
  mkdirSync(folder, { recursive: true });
  const places = [...PAGES, "sessions?where=nodes", "rooms?where=nodes", "rooms?room=crowd"];
  places.push("rooms?order=slowest");
  await withCluster(async (first, cluster) => {
    await sluggard(first.gateway.url, "crowd");
    const eyes = [];
    for (const [screen, options] of Object.entries({ desk: DESK, phone: NARROW }))
      for (const colorScheme of ["light", "dark"]) {
        const ops = await Operator.enter(browser, first, "ops", { ...options, colorScheme });
        const see = async (name) => {
          await ops.page.waitForTimeout(600);
          const path = join(folder, `${name.replace(/\W+/g, "-")}-${screen}-${colorScheme}.png`);
          await ops.page.screenshot({ path, fullPage: screen === "phone" });
        };
        for (const place of places) {
          await ops.open(place);
          await see(place);
        }
        await ops.open("sessions?room=ladder&where=nodes");
        await ops.page.click("tbody a");
        await ops.sees("#main dt", /Round trip/);
        await see("session");
        await follow(ops);
        await see("trace-lines");
        await listen(ops);
        await see("try-listening");
        eyes.push([ops, see]);
      }
    // From now on the node is not well.
    await cluster.poison("soup", { salt: true });
    for (const [ops, see] of eyes) {
      await readFailures(ops);
      await see("backends-failures");
      await ops.leave();
    }
  });
}

async function main() {
  mkdirSync(images, { recursive: true });
  const [only, folder = "look"] = process.argv.slice(2);
  const browser = await launchBrowser();
  try {
    if (only === "look") return await everyPage(browser, folder);
    if (!only || only === "chat") await chat(browser);
    if (!only || only === "console") await consolePictures(browser);
    if (!only || only === "nodes" || only === "console") await nodesPictures(browser);
  } finally {
    await browser.close();
  }
}

await main();
