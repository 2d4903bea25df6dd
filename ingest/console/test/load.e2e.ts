// The overview beside a real load: weir dev decides and sends what is sent here,
// streams every status of it, and the page draws. It takes the whole machine, so
// it is run only where it is named (ONLY=load); figures are printed, and the bound
// is that of the speed tests. LOAD is messages a second, 5,000 where it is not said;
// each is two or three events.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { bound, gaps, p99 } from "./frames.ts";
import { open, world } from "./world.ts";

const asked = Number(process.env.LOAD ?? 5000);
const seconds = 10;

test(`the overview under ${asked} messages a second`, async () => {
  const { weir } = await world();
  const most = await bound(); // before the load: how an empty page does here
  const { page, close } = await open("");
  await page.getByText("live", { exact: true }).waitFor();
  const heap = await page.context().newCDPSession(page);
  const used = async () => {
    await heap.send("HeapProfiler.collectGarbage");
    return (await heap.send("Runtime.getHeapUsage")).usedSize / 2 ** 20;
  };
  const before = await used();
  // What the page takes from the stream, as it reads it.
  await page.evaluate(() => {
    const w = globalThis as unknown as { got: number; cut: number };
    w.got = w.cut = 0;
    const parse = JSON.parse;
    JSON.parse = (text: string) => {
      const v = parse(text) as { kind?: string };
      if (v?.kind === "status") w.got++;
      return v;
    };
  });
  const taken = () => page.evaluate(() => (globalThis as unknown as { got: number }).got);

  let sent = 0;
  let stop = false;
  const began = performance.now();
  const producer = (async () => {
    while (!stop) {
      const due = Math.min(Math.floor(((performance.now() - began) / 1000) * asked) - sent, 2000);
      if (due < 50) {
        await new Promise((r) => setTimeout(r, 5));
        continue;
      }
      const from = sent;
      sent += due;
      await weir.batch(Array.from({ length: due }, (_, i) => ({ to: `+861391${String((from + i) % 1e7).padStart(7, "0")}`, class: "load" })));
    }
  })();
  const first = await taken();
  const t0 = performance.now();
  const all = await gaps(page, seconds * 1000);
  const took = (performance.now() - t0) / 1000;
  const got = (await taken()) - first;
  stop = true;
  await producer;
  const rate = sent / ((performance.now() - began) / 1000);
  const dropped = all.reduce((n, gap) => n + Math.max(0, Math.round(gap / (1000 / 60)) - 1), 0);
  const state = await page.locator(".live").innerText();
  const after = await used();
  const rss = Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${weir.pid}/status`, "utf8"))?.[1] ?? 0) / 1024;
  console.log(
    `real load: ${rate.toFixed(0)} messages/s taken in of ${asked} asked, ${(got / took).toFixed(0)} events/s read by the page (it says: ${state.replace(/\s+/g, " ")}); ` +
      `${all.length} frames, gap p50 ${all[all.length >> 1]?.toFixed(1)}, p99 ${p99(all).toFixed(1)}, longest ${all.at(-1)?.toFixed(1)} ms, ${dropped} dropped (an empty page before: p99 ${most.idle.toFixed(1)}); ` +
      `heap ${before.toFixed(1)} MiB before, ${after.toFixed(1)} after; weir dev ${rss.toFixed(0)} MiB`,
  );
  assert.match(state, /live/);
  assert.ok(got > 0);
  assert.ok(after < before + 20, "the page keeps what it has read");
  assert.ok(p99(all) <= 4 * most.ms, `p99 ${p99(all)} ms`); // Weir and the browser share the processors
  await close();
});
