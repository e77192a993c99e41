// A PostgreSQL of an example's own, in a folder that goes with it.
import { execFileSync, spawnSync } from "node:child_process";
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

/** A command as that user. Where the user may not enter the folder of the programs, as below `/root`, the command keeps the right to pass. */
function as({ uid, gid }, program, args) {
  if (uid === undefined || spawnSync(program, ["--version"], { uid, gid }).status === 0) return { program, args, options: { uid, gid } };
  const ids = [`--reuid=${uid}`, `--regid=${gid}`, "--clear-groups"];
  return { program: "setpriv", args: [...ids, "--securebits=+no_setuid_fixup", "--inh-caps=+dac_override", "--ambient-caps=+dac_override", program, ...args], options: {} };
}

export class Database {
  #programs = programs();
  #folder = mkdtempSync(join(tmpdir(), "sockeye-postgres-"));
  #servant = servant();
  #port;
  url;

  constructor(port) {
    this.#port = port;
    const { uid, gid } = this.#servant;
    const [password, file] = [randomBytes(16).toString("hex"), join(this.#folder, "password")];
    writeFileSync(file, password);
    if (uid !== undefined) for (const path of [this.#folder, file]) chownSync(path, uid, gid);
    const args = ["--username=app", "--auth=scram-sha-256", `--pwfile=${file}`, "--encoding=UTF8", "--no-locale", "--no-sync", "data"];
    try {
      const { program, args: all, options } = this.#command("initdb", args);
      execFileSync(program, all, { ...options, stdio: ["ignore", "ignore", "inherit"] });
    } catch (error) {
      this.remove();
      throw error;
    }
    this.url = `postgres://app:${password}@127.0.0.1:${port}/postgres`;
  }

  #command(name, args) {
    const { program, args: all, options } = as(this.#servant, join(this.#programs, name), args);
    return { program, args: all, options: { ...options, cwd: this.#folder } };
  }

  /** The command that runs it. SIGQUIT ends it at once, its processes with it, and what was committed is there again at the next start. */
  get command() {
    const settings = ["listen_addresses=127.0.0.1", "unix_socket_directories=", "log_min_messages=panic"].flatMap((setting) => ["-c", setting]);
    const { program, args, options } = this.#command("postgres", ["-D", "data", "-p", String(this.#port), ...settings]);
    return { program, args, options: { ...options, signal: "SIGQUIT" } };
  }

  remove() {
    rmSync(this.#folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  }
}
