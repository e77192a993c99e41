// A PostgreSQL of an example's own, in a folder that goes with it.
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { chownSync, existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";

const DEBIANS = "/usr/lib/postgresql";

/** Where its programs are: what `cargo xtask test` has unpacked, Debian's newest, or what is in the PATH. */
function programs() {
  const versions = existsSync(DEBIANS) ? readdirSync(DEBIANS).sort((a, b) => Number(b) - Number(a)) : [];
  const unpacked = fileURLToPath(new URL("../target/tools/bin", import.meta.url));
  const folders = [unpacked, ...versions.map((version) => join(DEBIANS, version, "bin")), ...process.env.PATH.split(delimiter)];
  const found = folders.find((folder) => ["initdb", "postgres"].every((name) => existsSync(join(folder, name))));
  if (!found) throw new Error("cannot find PostgreSQL: install it, as with `apt-get install postgresql`");
  return found;
}

/** PostgreSQL does not run as root. */
function servant() {
  if (process.getuid() !== 0) return {};
  const [uid, gid] = ["-u", "-g"].map((which) => Number(execFileSync("id", [which, "nobody"], { encoding: "utf8" })));
  return { uid, gid };
}

export class Database {
  #programs = programs();
  #folder = mkdtempSync(join(tmpdir(), "sockeye-postgres-"));
  #options = { ...servant(), cwd: this.#folder };
  #port;
  url;

  constructor(port) {
    this.#port = port;
    const { uid, gid } = this.#options;
    const [password, file] = [randomBytes(16).toString("hex"), join(this.#folder, "password")];
    writeFileSync(file, password);
    if (uid !== undefined) for (const path of [this.#folder, file]) chownSync(path, uid, gid);
    const args = ["--username=app", "--auth=scram-sha-256", `--pwfile=${file}`, "--encoding=UTF8", "--no-locale", "--no-sync", "data"];
    try {
      execFileSync(join(this.#programs, "initdb"), args, { ...this.#options, stdio: ["ignore", "ignore", "inherit"] });
    } catch (error) {
      this.remove();
      throw error;
    }
    this.url = `postgres://app:${password}@127.0.0.1:${port}/postgres`;
  }

  /** What runs it. SIGQUIT ends it at once, its processes with it, and what was committed is there again at the next start. */
  get command() {
    const settings = ["listen_addresses=127.0.0.1", "unix_socket_directories=", "log_min_messages=panic"].flatMap((setting) => ["-c", setting]);
    return { program: join(this.#programs, "postgres"), args: ["-D", "data", "-p", this.#port, ...settings], options: { ...this.#options, signal: "SIGQUIT" } };
  }

  remove() {
    rmSync(this.#folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  }
}
