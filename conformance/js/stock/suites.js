// The list of stock-client suites; one test file per way of using the transports runs them all.
import { describe } from "node:test";
import { COMBINATIONS } from "../peer/stock.js";
import { acknowledgements } from "./acknowledgements.js";
import { binary } from "./binary.js";
import { broadcasts } from "./broadcasts.js";
import { connecting } from "./connecting.js";
import { disconnecting } from "./disconnecting.js";
import { events } from "./events.js";
import { limits } from "./limits.js";
import { operations } from "./operations.js";
import { order } from "./order.js";

const SUITES = [connecting, events, acknowledgements, binary, order, broadcasts, operations, disconnecting, limits];

export function runStockSuites(way, combinations = COMBINATIONS) {
  for (const client of combinations.filter(({ name }) => name.endsWith(way))) {
    describe(client.name, () => SUITES.forEach((suite) => describe(suite.name, () => suite(client))));
  }
}
