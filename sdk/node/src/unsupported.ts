/** What Socket.IO's own server can do and a worker cannot. */
export class Unsupported extends Error {
  readonly code = "SOCKEYE_UNSUPPORTED";

  constructor(what: string, why: string) {
    super(`cannot use ${what} with @sockeye/server: ${why}`);
    this.name = "Unsupported";
  }
}
