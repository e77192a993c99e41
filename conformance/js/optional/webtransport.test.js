// The stock clients by WebTransport: straight, and on the way up from polling.
import { after } from "node:test";
import { lendWebTransport } from "../peer/chromium.js";
import { WEBTRANSPORT_COMBINATIONS } from "../peer/stock.js";
import { url } from "../peer/target.js";
import { runStockSuites } from "../stock/suites.js";

after(await lendWebTransport(url, process.env.NODE_EXTRA_CA_CERTS));
runStockSuites("", WEBTRANSPORT_COMBINATIONS);
