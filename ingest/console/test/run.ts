// Runs all browser tests in one process: they share one Weir and one browser.

import { existsSync } from "node:fs";
import { type TestContext, after, afterEach } from "node:test";
import { findChromium } from "./chromium.ts";
import { bin } from "./weir.ts";
import { end, tell } from "./world.ts";

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
afterEach((t) => ((t as TestContext & { passed: boolean }).passed ? undefined : tell()));

const only = process.env.ONLY;
const wanted = only && only !== "all" ? only.split(",") : ["tasks", "support", "operate", "keys", "access", "hostile", "states", "late", "drafts", "live", "speed"];
for (const name of wanted) await import(`./${name}.e2e.ts`); // load is run only where it is named: it takes the whole machine
