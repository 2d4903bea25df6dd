// How fast the console is, measured in the browser. The bounds leave room for a
// busy machine; the figures are printed.

import assert from "node:assert/strict";
import { before, test } from "node:test";
import type { Page } from "playwright-core";
import { bound, gaps, p99 } from "./frames.ts";
import { open, world } from "./world.ts";
import { poll } from "./weir.ts";

test("the first view is there within a second, from a cold cache, and does not jump", async () => {
  const runs: { ready: number; shift: number; bytes: number }[] = [];
  for (let i = 0; i < 3; i++) {
    const o = await open("", {
      before: async (page: Page) => {
        await page.addInitScript(() => {
          const w = globalThis as unknown as { shift: number; ready: number };
          w.shift = 0;
          w.ready = 0;
          new PerformanceObserver((list) => {
            for (const e of list.getEntries() as (PerformanceEntry & { value: number; hadRecentInput: boolean })[]) if (!e.hadRecentInput) w.shift += e.value;
          }).observe({ type: "layout-shift", buffered: true });
          const look = () => {
            // Interactive: the view's heading is there, and what one would first use takes text.
            if (document.querySelector("main h1") && document.querySelector('input[type="search"]')) w.ready = performance.now();
            else requestAnimationFrame(look);
          };
          requestAnimationFrame(look);
        });
      },
    });
    const cdp = o.bytes;
    await o.page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
    await o.page.waitForTimeout(2000); // figures and charts come: nothing may move for them
    const { ready, shift } = await o.page.evaluate(() => ({ ready: (globalThis as unknown as { ready: number }).ready, shift: (globalThis as unknown as { shift: number }).shift }));
    runs.push({ ready, shift, bytes: cdp() });
    await o.close();
  }
  const best = Math.min(...runs.map((r) => r.ready));
  const shift = Math.max(...runs.map((r) => r.shift));
  const bytes = Math.max(...runs.map((r) => r.bytes));
  console.log(`first view: interactive after ${runs.map((r) => r.ready.toFixed(0)).join(", ")} ms; layout shift ${shift.toFixed(4)}; ${(bytes / 1024).toFixed(1)} KiB over the wire`);
  assert.ok(best > 0 && best <= 1000, `interactive after ${best} ms`);
  assert.ok(shift < 0.01, `layout shift ${shift}`);
  assert.ok(bytes > 5_000 && bytes < 150_000, `${bytes} bytes`);
});

test("10,000 rows are scrolled without jank", async () => {
  const { weir } = await world();
  await weir.batch(Array.from({ length: 10_000 }, (_, i) => ({ to: `+861390${String(i).padStart(7, "0")}`, class: "crowd" })));
  let counts: { status: string; events: number }[] = [];
  const sent = async () => {
    ({ counts } = await weir.call<{ counts: typeof counts }>("GET", "/v1/stats?class=crowd&latency=false"));
    return (counts.find((c) => c.status === "sent")?.events ?? 0) >= 10_000;
  };
  const began = Date.now();
  await poll("all are sent, and Weir is at rest", sent).catch((err: Error) => {
    throw new Error(`${err.message}; there are ${counts.map((c) => `${c.events} ${c.status}`).join(", ")}`);
  });
  const took = Date.now() - began;
  console.log(`10,000 messages sent, and in ClickHouse, after ${(took / 1000).toFixed(1)} s${took > 35_000 ? `: Weir said: ${weir.said}` : ""}`);
  const { page, close } = await open("#/messages?class=crowd");
  const table = page.getByRole("table", { name: "Messages, the newest first" });
  await table.waitFor();
  await poll("all rows are loaded", async () => {
    await page.evaluate(() => document.querySelector(".table-box.boxed")?.scrollTo(0, 1e9));
    return Number(await table.getAttribute("aria-rowcount")) > 10_000;
  });
  assert.ok((await table.getByRole("row").count()) < 120, "only what is seen is drawn");
  await page.evaluate(() => document.querySelector(".table-box.boxed")?.scrollTo(0, 0));
  // The best of five, each beside an empty page: what others do on this machine is in some, what the page does is in all.
  const runs: { p99: number; most: number }[] = [];
  for (let i = 0; i < 5 && !runs.some((r) => r.p99 <= r.most); i++) {
    const most = await bound();
    const all = await gaps(page, 1500, ".table-box.boxed");
    runs.push({ p99: p99(all), most: most.ms });
    console.log(`10,000 rows scrolled: ${all.length} frames, gap p50 ${all[all.length >> 1]?.toFixed(1)}, p99 ${p99(all).toFixed(1)}, longest ${all.at(-1)?.toFixed(1)} ms (an empty page: p99 ${most.idle.toFixed(1)})`);
  }
  assert.ok(runs.some((r) => r.p99 <= r.most), JSON.stringify(runs));
  await close();
});

before(async () => void (await world()));
