// Which server is under test. Set by ../run.sh:
//   CONFORMANCE_URL           the conformance application, default settings
//   CONFORMANCE_PATIENT_URL   the same with more time for a pong and for CONNECT, optional: 200 ms and
//                             1 s are too strict for tests of other things on a busy machine
//   CONFORMANCE_PEER          "sockeye" or "reference" (Socket.IO's Node server)
//   CONFORMANCE_RECOVERY_URL  the same with --recovery, optional
//   CONFORMANCE_MSGPACK_URL   the same with --parser msgpack, optional
//   CONFORMANCE_DEFLATE_URL   the same with --deflate, optional
//   CONFORMANCE_EIO3_URL      the same with --ping-timeout 1000 --allow-eio3, optional

function required(name) {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set: run ../run.sh, or e.g. ${name}=http://127.0.0.1:3000 npm test`);
  return value.replace(/\/$/, "");
}

/** The server whose heartbeat is 300/200 ms, for tests of exactly that. */
export const strictUrl = required("CONFORMANCE_URL");
/** The server for everything else. */
export const url = process.env.CONFORMANCE_PATIENT_URL ?? strictUrl;
export const recoveryUrl = process.env.CONFORMANCE_RECOVERY_URL;
export const msgpackUrl = process.env.CONFORMANCE_MSGPACK_URL;
export const deflateUrl = process.env.CONFORMANCE_DEFLATE_URL;
export const eio3Url = process.env.CONFORMANCE_EIO3_URL;

const peer = process.env.CONFORMANCE_PEER ?? "sockeye";
if (!["sockeye", "reference"].includes(peer)) throw new Error(`CONFORMANCE_PEER is "${peer}", give sockeye or reference`);

/** True for Node's server: a few expectations name a known difference and say why. */
export const isReference = peer === "reference";

/** Settings of the conformance application that tests rely on. */
export const PING_INTERVAL = 300;
export const PING_TIMEOUT = 200;
/** Of the server for clients of protocol 3, which ping by themselves. */
export const EIO3_PING_TIMEOUT = 1000;
export const CONNECT_TIMEOUT = 1000;
/** A session that is refused ends sooner than one that joins nothing, or that keeps silent. */
export const REFUSED_MS = url === strictUrl ? 800 : 4000;
export const MAX_PAYLOAD = 1_000_000;
export const UPGRADE_TIMEOUT = 10_000;
export const ATTACHMENTS_MAX = 10;
