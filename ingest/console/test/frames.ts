// Frames of a page: how evenly they come.

import type { Page } from "playwright-core";
import { world } from "./world.ts";

/** gaps are the times between frames while something goes on, in ms, the longest last. What is scrolled goes 120 px a frame, a hard flick of the wheel. */
export async function gaps(page: Page, ms: number, scroll?: string): Promise<number[]> {
  return page.evaluate(
    ({ ms, scroll }) =>
      new Promise<number[]>((done) => {
        const box = scroll ? document.querySelector(scroll) : null;
        const out: number[] = [];
        let before = performance.now();
        const end = before + ms;
        const frame = (t: number) => {
          out.push(t - before);
          before = t;
          if (box) box.scrollTop = (box.scrollTop + 120) % box.scrollHeight;
          if (t < end) requestAnimationFrame(frame);
          else done(out.slice(2).sort((a, b) => a - b));
        };
        requestAnimationFrame(frame);
      }),
    { ms, scroll },
  );
}

export const p99 = (sorted: number[]) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * 0.99))] ?? Infinity;
/**
 * bound is the longest p99 of gaps that passes: four frames, and what an empty
 * page on this machine has at the same time, since a busy one drops frames of
 * any page.
 */
export async function bound(): Promise<{ ms: number; idle: number }> {
  const { browser } = await world();
  const page = await browser.newPage();
  await page.addInitScript("globalThis.__name = (f) => f");
  await page.goto("about:blank");
  const idle = p99(await gaps(page, 2000));
  await page.close();
  return { ms: 67 + 2 * Math.max(0, idle - 17), idle };
}
