// Protobuf as it is read: straight from the bytes that came.

/** A message that ends too early, or that is none. */
const torn = () => new RangeError("a message of the gateway cannot be read");

/** Names of events repeat. Those that came lately are kept, each at a place that its bytes give. */
const PLACES = 256;
/** Longer ones are made anew. */
const NAME_BYTES_MAX = 32;
const names: string[] = new Array(PLACES).fill("");
const nameBytes = Buffer.alloc(PLACES * NAME_BYTES_MAX);
const nameLengths = new Uint8Array(PLACES);

/** A name that came before is the same object: its listeners are found without a look at its letters. */
function nameOf(bytes: Buffer, begin: number, end: number): string {
  const length = end - begin;
  if (length === 0 || length > NAME_BYTES_MAX) return bytes.toString("utf8", begin, end);
  const place = (length * 7 + bytes[begin] * 5 + bytes[begin + (length >> 1)] * 3 + bytes[end - 1]) % PLACES;
  const known = place * NAME_BYTES_MAX;
  let same = nameLengths[place] === length ? 0 : length + 1;
  while (same < length && nameBytes[known + same] === bytes[begin + same]) same += 1;
  if (same === length) return names[place];
  bytes.copy(nameBytes, known, begin, end);
  nameLengths[place] = length;
  return (names[place] = bytes.toString("utf8", begin, end));
}

export class Reader {
  readonly bytes: Buffer;
  at: number;
  #end: number;

  /** Of these bytes, those from `at` to `end`. */
  constructor(bytes: Buffer, at = 0, end = bytes.length) {
    this.bytes = bytes;
    this.at = at;
    this.#end = end;
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

  /** The same for a name that may come again. */
  name(): string {
    const begin = this.part();
    return nameOf(this.bytes, begin, this.at);
  }

  /** The same for names that the gateway makes. */
  ascii(): string {
    const begin = this.part();
    return this.bytes.toString("latin1", begin, this.at);
  }

  /** From here on there is only a part, which is a message. Returns what `leave` takes. */
  enter(): number {
    const length = this.number();
    const outer = this.#end;
    if (length > outer - this.at) throw torn();
    this.#end = this.at + length;
    return outer;
  }

  /** Goes behind the part. What could not be read ends the link, so nobody reads on behind an error. */
  leave(outer: number): void {
    this.at = this.#end;
    this.#end = outer;
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
