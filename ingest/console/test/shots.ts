// Makes the pictures of docs/console: each view on a wide screen, one in the
// dark, one on a phone. Run it as npm run shots, and look at what it made.

import { execFileSync } from "node:child_process";
import { mkdirSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { end, number, open, world } from "./world.ts";
import { bin, poll } from "./weir.ts";

const into = resolve(import.meta.dirname, "../../../docs/console");
mkdirSync(into, { recursive: true });
const { weir } = await world();

// Some minutes of everything, so that the charts have something to show: Node's
// argument --minutes=0 is for those who only look at how a view is laid out.
const minutes = Number(process.argv.find((a) => a.startsWith("--minutes="))?.slice(10) ?? 6);
const until = Date.now() + minutes * 60_000;
for (let i = 0; Date.now() < until; i++) {
  const many = 20 + Math.round(12 * Math.sin(i / 20) + 8 * Math.sin(i / 7));
  await weir.batch(Array.from({ length: many }, (_, j) => ({ to: `+8613900${String((i * 37 + j * 101) % 900).padStart(6, "0")}`, class: ["verify", "once", "watched", "once", "promo"][(i + j) % 5] })));
  if (i % 9 === 0) await weir.send({ to: i % 2 ? "+15005550001" : "+15005550013", class: "once" });
  await new Promise((r) => setTimeout(r, 1000));
}
if (minutes > 0) execFileSync(bin, ["audit", "--dir", weir.dir, "--since", "1h"], { stdio: "ignore" });
const n = number();
await weir.send({ to: n.e164, class: "verify" });
for (let i = 0; i < 2; i++) await weir.send({ to: n.e164, class: "verify" });
await weir.send({ to: n.e164, class: "once" });
const refused = (await weir.send({ to: n.e164, class: "verify" })).id;
await weir.batch(Array.from({ length: 150 }, (_, i) => ({ to: `+8613900${String(i % 400).padStart(6, "0")}`, class: ["verify", "promo", "watched", "once"][i % 4] })));
for (const to of ["+15005550001", "+15005550004", "+15005550009"]) for (let i = 0; i < 3; i++) await weir.send({ to, class: "once" });
await weir.send({ to: "+15005550013", class: "notice" });
await weir.send({ to: n.e164, class: "once", send_at: new Date(Date.now() + 7_200_000).toISOString() });
await poll("ClickHouse has counted it", async () => (await weir.call<{ limits: unknown[] }>("GET", "/v1/stats")).limits.length > 2, 60_000);

const shots: { name: string; view: string; dark?: boolean; phone?: boolean; shows: RegExp }[] = [
  { name: "overview", view: "", shows: /Messages ended/ },
  { name: "overview-dark", view: "", dark: true, shows: /Messages ended/ },
  { name: "recipient", view: `#/recipients/${encodeURIComponent(n.national)}`, shows: /Not before|Yes, now/ },
  { name: "recipient-phone", view: `#/recipients/${encodeURIComponent(n.national)}`, phone: true, shows: /Not before|Yes, now/ },
  { name: "message", view: `#/messages/${refused}`, shows: /Evidence/ },
  { name: "messages", view: "#/messages", shows: /shown|messages/ },
  { name: "limits", view: "#/limits", shows: /Who changed what/ },
  { name: "limit", view: "#/limits/promo", shows: /Nothing is changed yet/ },
  { name: "providers", view: "#/providers", shows: /simulated/ },
  { name: "queues", view: "#/queues", shows: /What was given up on|Dead letters/ },
  { name: "proof", view: "#/proof", shows: /Proof/ },
  { name: "retry-after", view: "#/retry-after", shows: /Retry-After/ },
];
const only = process.argv.slice(2).find((a) => !a.startsWith("--")); // part of a name
for (const s of shots) {
  if (only && !s.name.includes(only)) continue;
  const { page, close } = await open(s.view, { colorScheme: s.dark ? "dark" : "light", viewport: s.phone ? { width: 360, height: 1200 } : { width: 1280, height: s.name === "messages" ? 600 : 900 }, ...(s.phone ? { isMobile: true } : {}) });
  await page.locator("main").getByText(s.shows).first().waitFor();
  await page.locator(".skeleton").first().waitFor({ state: "detached" });
  if (s.name === "limit") {
    await page.getByRole("textbox", { name: "Windows", exact: true }).fill("1/1h");
    await page.getByRole("table", { name: "What changes" }).waitFor();
    await page.getByRole("button", { name: "Try it" }).click();
    await page.getByText(/newly refused|decided as it was/).first().waitFor({ timeout: 30_000 });
  }
  await page.waitForTimeout(1200); // charts and figures
  const path = join(into, `${s.name}.png`);
  await page.screenshot({ path });
  const size = statSync(path).size;
  console.log(`${s.name} ${(size / 1024).toFixed(0)} KiB`);
  if (size > 140 * 1024) throw new Error(`${path} is over 140 KiB`);
  await close();
}
await end();
