// Protobuf as it is read: straight from the bytes that came.

/** A message that ends too early, or that is none. */
const torn = () => new RangeError("a message of the gateway cannot be read");

export class Reader {
  readonly bytes: Buffer;
  at: number;
  #end: number;

  constructor(bytes: Buffer) {
    this.bytes = bytes;
    this.at = 0;
    this.#end = bytes.length;
  }

  get more(): boolean {
    return this.at < this.#end;
  }

  /** JavaScript counts to 2^53: nothing in a message is above that. */
  number(): number {
    let byte = this.#next();
    if (byte < 128) return byte;
    let [value, factor] = [byte & 127, 128];
    for (let read = 1; read < 10; read += 1) {
      byte = this.#next();
      value += (byte & 127) * factor;
      if (byte < 128) return value;
      factor *= 128;
    }
    throw torn();
  }

  #next(): number {
    if (this.at >= this.#end) throw torn();
    return this.bytes[this.at++];
  }

  /** Goes behind a part of a known length; returns where it begins. */
  part(): number {
    const length = this.number();
    const begin = this.at;
    if (length > this.#end - begin) throw torn();
    this.at += length;
    return begin;
  }

  /** A part for longer than the bytes that came are there. */
  copy(): Buffer {
    const begin = this.part();
    return Buffer.from(this.bytes.subarray(begin, this.at));
  }

  text(): string {
    const begin = this.part();
    return this.bytes.toString("utf8", begin, this.at);
  }

  /** The same for names that the gateway makes. */
  ascii(): string {
    const begin = this.part();
    return this.bytes.toString("latin1", begin, this.at);
  }

  /** Reads a part as a message. */
  within<T>(read: () => T): T {
    const length = this.number();
    const end = this.#end;
    if (length > end - this.at) throw torn();
    this.#end = this.at + length;
    try {
      return read();
    } finally {
      this.at = this.#end;
      this.#end = end;
    }
  }

  /** Goes over a field that this library does not know. */
  skip(key: number): void {
    switch (key & 7) {
      case 0:
        return void this.number();
      case 2:
        return void this.part();
      case 1:
        return this.#over(8);
      case 5:
        return this.#over(4);
      default:
        throw torn();
    }
  }

  #over(bytes: number): void {
    if (bytes > this.#end - this.at) throw torn();
    this.at += bytes;
  }
}
