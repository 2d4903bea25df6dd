// The console for those who have no mouse, who do not see it, and on a phone.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { before, test } from "node:test";
import type { Page } from "playwright-core";
import { number, open, visit, world } from "./world.ts";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const n = number();
let refused = "";
let sent = "";

/** Every view, and what shows that it has what it asked for. */
const views = (): [string, string, RegExp][] => [
  ["overview", "", /Overview/],
  ["recipients", "#/recipients", /Look up/],
  ["recipient", `#/recipients/${encodeURIComponent(n.national)}`, /Not before|Yes, now/],
  ["messages", "#/messages", /\+86138\d{8}/],
  ["message, refused", `#/messages/${refused}`, /Evidence/],
  ["message, sent", `#/messages/${sent}`, /Places taken/],
  ["limits", "#/limits", /verify/],
  ["limit", "#/limits/verify", /Nothing is changed yet/],
  ["new limit", "#/limits?new=1", /What it allows/],
  ["providers", "#/providers", /simulated/],
  ["queues", "#/queues", /Dead letters/],
  ["alerts", "#/alerts", /oncall/],
  ["proof", "#/proof", /Proof/],
  ["retry-after", "#/retry-after", /Retry-After/],
  ["nowhere", "#/nowhere", /leads nowhere/],
];

before(async () => {
  const { weir } = await world();
  sent = (await weir.send({ to: n.e164, class: "verify" })).id;
  refused = (await weir.send({ to: n.e164, class: "verify" })).id;
  await weir.comesTo(sent, "sent");
});

/** settled goes to a view and waits until all of it is there. By way of one that has nothing: what the view before shows says nothing of this one. */
async function settled(page: Page, view: string, shows: RegExp): Promise<void> {
  await visit(page, "#/nowhere");
  await page.locator("main").getByText("leads nowhere").waitFor();
  await visit(page, view);
  await page.locator("main").getByText(shows).first().waitFor();
  await page.locator(".skeleton").first().waitFor({ state: "detached" }); // nothing is loading any more
}

test("without a mouse: a number is looked up, and its message opened", async () => {
  const { page, close } = await open("");
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  await page.keyboard.press("Tab");
  assert.equal(await focused(page), "Skip to content");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement?.id), "main");
  await page.keyboard.press("/");
  await page.keyboard.type(n.national);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: n.e164, level: 1 }).waitFor();
  await page.getByRole("link", { name: "limited" }).first().waitFor();
  let opened = false;
  for (let i = 0; i < 60 && !opened; i++) {
    await page.keyboard.press("Tab");
    const ring = await page.evaluate(() => {
      const s = getComputedStyle(document.activeElement ?? document.body);
      return `${s.outlineStyle} ${s.outlineWidth}`;
    });
    assert.match(ring, /^(solid|auto) [1-9]/, `the focus is seen on ${await focused(page)}`);
    if ((await focused(page)).includes("limited")) {
      await page.keyboard.press("Enter");
      opened = true;
    }
  }
  assert.ok(opened, "Tab came to the refused message");
  await page.getByText(/^Refused: limit verify allows 1 per 20 min/).waitFor();
  // The new view's heading has the focus, so that what comes next is read from there.
  await page.waitForFunction(() => document.activeElement?.tagName === "H1");
  await close();
});

const focused = (page: Page) => page.evaluate(() => (document.activeElement?.textContent ?? "").trim());

for (const colorScheme of ["light", "dark"] as const)
  test(`axe finds nothing in any view, ${colorScheme}`, async () => {
    const { page, close } = await open("", { colorScheme, bypassCSP: true });
    await page.evaluate(axe);
    const found: string[] = [];
    for (const [name, view, shows] of views()) {
      await settled(page, view, shows);
      const violations = await page.evaluate(async () => {
        const { axe } = globalThis as unknown as { axe: { run: (context: Document, options: object) => Promise<{ violations: { id: string; help: string; nodes: { html: string }[] }[] }> } };
        return (await axe.run(document, { resultTypes: ["violations"] })).violations.map((v) => `${v.id}: ${v.help}: ${v.nodes.map((x) => x.html.slice(0, 160)).join(" | ")}`);
      });
      found.push(...violations.map((v) => `${name}: ${v}`));
    }
    assert.deepEqual(found, []);
    await close();
  });

test("on a phone of 360 px nothing has to be scrolled sideways", async () => {
  const { page, close } = await open("", { viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true });
  for (const [name, view, shows] of views()) {
    await settled(page, view, shows);
    const [wide, seen] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    assert.ok(wide! <= 360 && seen! <= 360, `${name}: ${wide} px wide`);
  }
  await close();
});
