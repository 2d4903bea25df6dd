// Runs all browser tests in one process: they share one Weir and one browser.

import { existsSync } from "node:fs";
import { after } from "node:test";
import { findChromium } from "./chromium.ts";
import { bin } from "./weir.ts";
import { end } from "./world.ts";

let missing = "";
if (!existsSync(bin)) missing = "bin/weir: run make build";
else
  try {
    await findChromium();
  } catch (err) {
    missing = err instanceof Error ? err.message : String(err);
  }
if (missing) {
  console.error(`NOT RUN: the console's browser tests: ${missing}.`);
  process.exit(process.env.CI ? 1 : 0);
}
after(end);

const only = process.env.ONLY;
for (const name of ["tasks", "keys", "access", "hostile", "live", "speed"]) if (!only || only === "all" || only.split(",").includes(name)) await import(`./${name}.e2e.ts`);
