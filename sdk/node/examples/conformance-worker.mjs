// The conformance application with its logic in a worker: `node conformance-worker.mjs APPLICATION [FLAGS]` starts the application
// (`cargo build -p gateway --example conformance`) with these flags, and serves it with the handlers of the reference peer.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { Server } from "@sockeye/server";
import { installNamespaces } from "../../../conformance/reference/namespaces.js";

const ATTACHES = "a worker attaches at ";
const [program, ...flags] = process.argv.slice(2);
const application = spawn(program, ["--worker", "127.0.0.1:0", ...flags], { stdio: ["ignore", "pipe", "inherit"] });
application.on("error", (error) => {
  console.error(`cannot start ${program}: ${error.message}`);
  process.exit(1);
});
// It says why by itself.
application.on("exit", (code) => process.exit(code ?? 1));
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => application.kill());

for await (const line of createInterface({ input: application.stdout })) {
  if (line.startsWith(ATTACHES)) serve(line.slice(ATTACHES.length));
  else console.log(line);
}

function serve(gateway) {
  const io = new Server({ gateway, key: "sockeye-conformance", backend: "conformance" });
  installNamespaces(io);
}
