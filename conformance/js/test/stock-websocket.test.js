// The stock clients, websocket only.
import { runStockSuites } from "../stock/suites.js";

runStockSuites("websocket only");
