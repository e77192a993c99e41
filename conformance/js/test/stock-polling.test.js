// The stock clients, polling only.
import { runStockSuites } from "../stock/suites.js";

runStockSuites("polling only");
