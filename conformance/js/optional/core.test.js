// One stock client, one transport: for a run that has to be short.
import { runStockSuites } from "../stock/suites.js";

runStockSuites("4.8.4, websocket only");
