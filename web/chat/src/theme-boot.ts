// Runs before the first paint, so that a chosen theme never flashes the other one, and before the
// other scripts, so that one that does not come is noticed.

import { watchLoading } from "./loading.ts";
import { applyTheme } from "./theme.ts";

applyTheme();
watchLoading();
