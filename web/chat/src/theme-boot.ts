// Runs before the first paint, so that a chosen theme never flashes the other one.

import { applyTheme } from "./theme.ts";

applyTheme();
