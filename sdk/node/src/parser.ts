// Socket.IO's packets without their text: the gateway reads and writes that, so packets pass as objects.
import { EventEmitter } from "node:events";
import type { Link } from "./link.js";

export enum Type {
  Connect,
  Disconnect,
  Event,
  Ack,
  ConnectError,
  BinaryEvent,
  BinaryAck,
}

export interface Packet {
  type: Type;
  nsp: string;
  data?: any;
  id?: number;
  /** For an event of a client: its item. */
  link?: Link;
  number?: number;
}

export class Encoder {
  encode(packet: Packet): Packet[] {
    return [packet];
  }
}

export class Decoder extends EventEmitter {
  add(packet: Packet): void {
    this.emit("decoded", packet);
  }

  destroy(): void {}
}
