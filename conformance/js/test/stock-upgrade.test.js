// The stock clients, polling with upgrade.
import { runStockSuites } from "../stock/suites.js";

runStockSuites("polling with upgrade");
