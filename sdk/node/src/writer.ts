// Protobuf as bytes, written in one go: a slab is filled from its beginning to its end, and each message is a part of it.

/** Messages share slabs of this size. What is written is never written over: the kernel may read it later. */
const SLAB_BYTES = 64 << 10;
/** A number below 2^53 takes so many bytes at most, and a field's key two. */
const NUMBER_BYTES = 8;
/** Shorter texts are written letter by letter: a call out of JavaScript costs more. */
const SHORT = 32;

const sizeOf = (length: number): number => (length < 0x80 ? 1 : length < 0x4000 ? 2 : length < 0x20_0000 ? 3 : length < 0x1000_0000 ? 4 : 5);

export class Writer {
  #slab = Buffer.allocUnsafeSlow(SLAB_BYTES);
  #begin = 0;
  #at = 0;

  /** What is written since the last call. */
  take(): Buffer {
    const bytes = this.#slab.subarray(this.#begin, this.#at);
    this.#begin = this.#at;
    return bytes;
  }

  /** Drops what is written since then. */
  drop(): void {
    this.#at = this.#begin;
  }

  /** Where the next byte is written, from the beginning of the message. */
  get length(): number {
    return this.#at - this.#begin;
  }

  /** Makes room for so many bytes. */
  #ensure(bytes: number): void {
    if (this.#at + bytes <= this.#slab.length) return;
    const length = this.length;
    const slab = Buffer.allocUnsafeSlow(Math.max(SLAB_BYTES, 2 * (length + bytes)));
    this.#slab.copy(slab, 0, this.#begin, this.#at);
    this.#slab = slab;
    this.#begin = 0;
    this.#at = length;
  }

  #number(value: number): void {
    while (value >= 0x80) {
      this.#slab[this.#at++] = (value % 0x80) | 0x80;
      value = Math.floor(value / 0x80);
    }
    this.#slab[this.#at++] = value;
  }

  byte(value: number): void {
    this.#ensure(1);
    this.#slab[this.#at++] = value;
  }

  raw(bytes: Uint8Array): void {
    this.#ensure(bytes.length);
    this.#slab.set(bytes, this.#at);
    this.#at += bytes.length;
  }

  /** A number in a list of them. */
  plain(value: number): void {
    this.#ensure(NUMBER_BYTES);
    this.#number(value);
  }

  /** The length of a frame, at a place that was left free for it. */
  patchLength(at: number, length: number): void {
    this.#slab.writeUInt32BE(length, this.#begin + at);
  }

  skip(bytes: number): void {
    this.#ensure(bytes);
    this.#at += bytes;
  }

  /** `key`: number and kind of the field, as they are written. */
  number(key: number, value: number): void {
    this.#ensure(2 + 2 * NUMBER_BYTES);
    this.#number(key);
    this.#number(value);
  }

  bytes(key: number, value: Uint8Array): void {
    this.#ensure(2 + NUMBER_BYTES + value.length);
    this.#number(key);
    this.#number(value.length);
    this.#slab.set(value, this.#at);
    this.#at += value.length;
  }

  text(key: number, value: string): void {
    const { length } = value;
    this.#ensure(2 + NUMBER_BYTES + (length < 1_024 ? 3 * length : Buffer.byteLength(value)));
    this.#number(key);
    if (length < SHORT && this.#ascii(value)) return;
    // Most texts have one byte for each letter.
    const reserved = sizeOf(length);
    const begin = this.#at + reserved;
    const written = this.#slab.write(value, begin, "utf8");
    this.#close(begin, reserved, written);
  }

  #ascii(value: string): boolean {
    const slab = this.#slab;
    const { length } = value;
    const begin = this.#at + 1;
    for (let n = 0; n < length; n += 1) {
      const code = value.charCodeAt(n);
      if (code > 0x7f) return false;
      slab[begin + n] = code;
    }
    slab[this.#at] = length;
    this.#at = begin + length;
    return true;
  }

  /** A message in a field. `about`: how long it is, more or less. Returns what `end` takes. */
  begin(key: number, about: number): number {
    this.#ensure(2 + NUMBER_BYTES);
    this.#number(key);
    const reserved = sizeOf(about);
    this.#at += reserved;
    return this.length * 8 + reserved;
  }

  end(mark: number): void {
    this.#ensure(NUMBER_BYTES);
    const reserved = mark % 8;
    const begin = this.#begin + (mark - reserved) / 8;
    this.#close(begin, reserved, this.#at - begin);
  }

  /** Writes the length before what stands behind it; moves that if the length takes another number of bytes. */
  #close(begin: number, reserved: number, length: number): void {
    const size = sizeOf(length);
    if (size !== reserved) this.#slab.copyWithin(begin - reserved + size, begin, begin + length);
    this.#at = begin - reserved;
    this.#number(length);
    this.#at += length;
  }
}
