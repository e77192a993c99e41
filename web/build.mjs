// Regenerates what the binary embeds: the chat page (chat/dist), the console (console/dist) and the
// Socket.IO client bundles (bundles). `node build.mjs` writes; `node build.mjs --check` writes nothing and fails when the
// committed files are stale.
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { execFileSync } from "node:child_process";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, brotliDecompressSync, gunzipSync, gzipSync } from "node:zlib";

const web = dirname(fileURLToPath(import.meta.url));

/**
 * What the chat page may weigh without the Socket.IO client, as files and as sent to a browser. The last 2 KiB came with the list
 * of who is in a room.
 */
const PAGE_BYTES_MAX = 59 * 1024;
const PAGE_GZIP_BYTES_MAX = 20 * 1024;

/** What the console may weigh. */
const CONSOLE_BYTES_MAX = 120 * 1024;
const CONSOLE_GZIP_BYTES_MAX = 40 * 1024;

/**
 * The names that Socket.IO's own server answers under its path; browsers in the field ask for all
 * of them.
 */
const BUNDLES = [
  "socket.io.js",
  "socket.io.min.js",
  "socket.io.esm.min.js",
  "socket.io.msgpack.min.js",
];

/** Installs the exact versions of package-lock.json if they are missing. */
function ensureDependencies() {
  if (
    existsSync(join(web, "node_modules/rolldown")) &&
    existsSync(join(web, "node_modules/socket.io-client"))
  )
    return;
  console.log("web: node_modules is missing, running `npm ci`");
  execFileSync("npm", ["ci", "--no-audit", "--no-fund"], { cwd: web, stdio: "inherit" });
}

/** One file of script, minified: a module, or a classic script that runs where it stands. */
async function bundleScript(entry, format = "esm") {
  const { rolldown } = await import("rolldown");
  const bundle = await rolldown({
    input: join(web, entry),
    cwd: web,
    logLevel: "warn",
    resolve: { alias: { "@sockeye/client": join(web, "../sdk/client/src/index.ts") } },
  });
  const { output } = await bundle.generate({ format, minify: true, comments: false });
  await bundle.close();
  return Buffer.from(output[0].code);
}

/** Markup without indentation; line ends stay, since white space between inline elements shows. */
function squeezeMarkup(html) {
  return Buffer.from(html.replace(/^\s+/gm, ""));
}

/**
 * Style sheets in reading order, without comments and needless spaces. Our strings and selectors
 * hold neither.
 */
function joinStyles(folder, names) {
  const css = names.map((name) => readFileSync(join(web, folder, name), "utf8")).join("\n");
  const squeezed = css
    .replace(/\/\*[\s\S]*?\*\//g, "")
    .replace(/\s+/g, " ")
    .replace(/ ?([{};,>]) ?/g, "$1")
    .replace(/: /g, ":")
    .replace(/, /g, ",")
    .replace(/;}/g, "}");
  return Buffer.from(`${squeezed.trim()}\n`);
}

function checkBudget(what, files, bytesMax) {
  const bytes = byteCount(files);
  if (bytes > bytesMax)
    throw new Error(`${what} has ${bytes} bytes, above its budget of ${bytesMax}: make it smaller`);
}

function byteCount(files) {
  return [...files.values()].reduce((sum, file) => sum + file.length, 0);
}

async function chatPage() {
  const page = new Map();
  page.set("index.html", squeezeMarkup(readFileSync(join(web, "chat/index.html"), "utf8")));
  page.set("icon.svg", readFileSync(join(web, "chat/icon.svg")));
  page.set(
    "style.css",
    joinStyles("chat/src/style", ["base.css", "rooms.css", "messages.css", "controls.css"]),
  );
  page.set("theme.js", await bundleScript("chat/src/theme-boot.ts"));
  page.set("app.js", await bundleScript("chat/src/main.ts"));
  return withPacked("chat page", page, PAGE_BYTES_MAX, PAGE_GZIP_BYTES_MAX);
}

async function consolePage() {
  const page = new Map();
  page.set("index.html", squeezeMarkup(readFileSync(join(web, "console/index.html"), "utf8")));
  page.set("icon.svg", readFileSync(join(web, "console/icon.svg")));
  const styles = [
    "base.css",
    "frame.css",
    "tables.css",
    "plots.css",
    "picture.css",
    "controls.css",
  ];
  page.set("style.css", joinStyles("console/src/style", styles));
  page.set("app.js", await bundleScript("console/src/main.ts", "iife"));
  return withPacked("console", page, CONSOLE_BYTES_MAX, CONSOLE_GZIP_BYTES_MAX);
}

function withPacked(what, page, bytesMax, packedBytesMax) {
  const packed = new Map(
    [...page].map(([name, file]) => [`${name}.gz`, gzipSync(file, { level: 9 })]),
  );
  checkBudget(what, page, bytesMax);
  checkBudget(`compressed ${what}`, packed, packedBytesMax);
  return new Map([...page, ...packed]);
}

/** The eight stock files; source maps only compressed, since every developer tool asks for gzip. */
function clientBundles() {
  const from = join(web, "node_modules/socket.io-client");
  const { version } = JSON.parse(readFileSync(join(from, "package.json"), "utf8"));
  const files = new Map([
    ["VERSION", Buffer.from(`${version}\n`)],
    ["LICENSE-socket.io-client", readFileSync(join(from, "LICENSE"))],
  ]);
  for (const name of BUNDLES) {
    const script = readFileSync(join(from, "dist", name));
    files.set(name, script);
    files.set(`${name}.gz`, gzipSync(script, { level: 9 }));
    files.set(`${name}.br`, brotliCompressSync(script));
    files.set(
      `${name}.map.gz`,
      gzipSync(readFileSync(join(from, "dist", `${name}.map`)), { level: 9 }),
    );
  }
  return files;
}

/** Compressed files are compared by content: the bytes differ between builds of the compressors. */
function sameContent(name, committed, fresh) {
  if (name.endsWith(".gz")) return gunzipSync(committed).equals(gunzipSync(fresh));
  if (name.endsWith(".br"))
    return brotliDecompressSync(committed).equals(brotliDecompressSync(fresh));
  return committed.equals(fresh);
}

function staleFiles(folder, files) {
  const stale = [];
  for (const [name, fresh] of files) {
    const path = join(folder, name);
    if (!existsSync(path) || !sameContent(name, readFileSync(path), fresh))
      stale.push(relative(web, path));
  }
  const present = existsSync(folder) ? readdirSync(folder) : [];
  return stale.concat(
    present
      .filter((name) => !files.has(name))
      .map((name) => `${relative(web, folder)}/${name} (extra)`),
  );
}

function write(folder, files) {
  mkdirSync(folder, { recursive: true });
  for (const name of readdirSync(folder)) if (!files.has(name)) rmSync(join(folder, name));
  for (const [name, fresh] of files) {
    const path = join(folder, name);
    if (!existsSync(path) || !sameContent(name, readFileSync(path), fresh))
      writeFileSync(path, fresh);
  }
}

async function main() {
  ensureDependencies();
  const outputs = [
    [join(web, "chat/dist"), await chatPage()],
    [join(web, "console/dist"), await consolePage()],
    [join(web, "bundles"), clientBundles()],
  ];
  if (process.argv.includes("--check")) {
    const stale = outputs.flatMap(([folder, files]) => staleFiles(folder, files));
    if (stale.length === 0) return console.log("web: generated files are fresh");
    console.error(
      `web: stale generated files, run \`node web/build.mjs\` and commit:\n  ${stale.join("\n  ")}`,
    );
    process.exitCode = 1;
    return;
  }
  for (const [folder, files] of outputs) {
    write(folder, files);
    console.log(`web: ${relative(web, folder)}: ${files.size} files, ${byteCount(files)} bytes`);
  }
}

await main();
