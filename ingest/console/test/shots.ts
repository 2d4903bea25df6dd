// Makes the pictures of docs/console: each view on a wide screen, one in the
// dark, one on a phone. Run it as npm run shots, and look at what it made.

import { execFileSync } from "node:child_process";
import { mkdirSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { end, number, open, world } from "./world.ts";
import { traffic } from "./traffic.ts";
import { bin, poll } from "./weir.ts";

const into = resolve(import.meta.dirname, "../../../docs/console");
mkdirSync(into, { recursive: true });
const { weir } = await world();

// Some minutes of everything, so that the charts have something to show: Node's
// argument --minutes=0 is for those who only look at how a view is laid out.
const minutes = Number(process.argv.find((a) => a.startsWith("--minutes="))?.slice(10) ?? 12);
if (minutes > 0) await traffic(weir, minutes);
if (minutes > 0) execFileSync(bin, ["audit", "--dir", weir.dir, "--since", "1h"], { stdio: "ignore" });
const n = number();
await weir.send({ to: n.e164, class: "verify" });
for (let i = 0; i < 2; i++) await weir.send({ to: n.e164, class: "verify" });
await weir.send({ to: n.e164, class: "once" });
const refused = (await weir.send({ to: n.e164, class: "verify" })).id;
await weir.call("PUT", "/v1/suppressions", { to: n.e164, channel: "sms", class: "marketing", reason: "asked by phone" }, { Prefer: "wait=60" });
// A message with a receipt, and a provider whose breaker has opened.
const called = number();
const receipted = (await weir.send({ channel: "voice", provider: "calls", to: called.e164, class: "once" })).id;
await weir.comesTo(receipted, "sent");
await weir.receipt({ id: receipted, to: called.e164, status: "undelivered", error_code: "E17", error: "the line is dead" });
await weir.comesTo(receipted, "undelivered");
await weir.batch(Array.from({ length: 150 }, (_, i) => ({ to: `+8613900${String(i % 400).padStart(6, "0")}`, class: ["verify", "promo", "watched", "once"][i % 4] })));
for (const to of ["+15005550001", "+15005550004", "+15005550009"]) for (let i = 0; i < 3; i++) await weir.send({ to, class: "once" });
await weir.send({ to: "+15005550013", class: "notice" });
await weir.send({ to: n.e164, class: "once", send_at: new Date(Date.now() + 7_200_000).toISOString() });
await poll("ClickHouse has counted it", async () => (await weir.call<{ limits: unknown[] }>("GET", "/v1/stats")).limits.length > (minutes > 0 ? 2 : 0));

const shots: { name: string; view: string; dark?: boolean; phone?: boolean; shows: RegExp }[] = [
  { name: "overview", view: "", shows: /Messages ended/ },
  { name: "overview-dark", view: "", dark: true, shows: /Messages ended/ },
  { name: "recipient", view: `#/recipients/${encodeURIComponent(n.national)}`, shows: /Not before|Yes, now/ },
  { name: "recipient-phone", view: `#/recipients/${encodeURIComponent(n.national)}`, phone: true, shows: /Not before|Yes, now/ },
  { name: "message", view: `#/messages/${refused}`, shows: /Evidence/ },
  { name: "receipt", view: `#/messages/${receipted}`, shows: /E17/ },
  { name: "messages", view: "#/messages", shows: /shown|messages/ },
  { name: "limits", view: "#/limits", shows: /Who changed what/ },
  { name: "limit", view: "#/limits/promo", shows: /Nothing is changed yet/ },
  { name: "providers", view: "#/providers", shows: /simulated/ },
  { name: "queues", view: "#/queues", shows: /What was given up on|Dead letters/ },
  { name: "alerts", view: "#/alerts", shows: /oncall/ },
  { name: "proof", view: "#/proof", shows: /Proof/ },
  { name: "retry-after", view: "#/retry-after", shows: /Retry-After/ },
];
/** some is a second of traffic. */
const some = () => weir.batch(Array.from({ length: 60 }, (_, i) => ({ to: `+8613900${String((i * 7) % 400).padStart(6, "0")}`, class: ["verify", "once", "watched", "once"][i % 4] })));
const failing = async () => {
  for (let i = 0; i < 5; i++) {
    const { e164: to } = number();
    weir.provider.answers.set(to, { status: 500, body: { code: "E42" } });
    await weir.comesTo((await weir.send({ channel: "voice", provider: "calls", to, class: "once" })).id, "failed");
  }
};
const only = process.argv.slice(2).find((a) => !a.startsWith("--")); // part of a name
for (const s of shots) {
  if (only && !s.name.includes(only)) continue;
  if (s.name === "providers") await failing();
  const { page, close } = await open(s.view, { colorScheme: s.dark ? "dark" : "light", viewport: s.phone ? { width: 360, height: 1200 } : { width: 1280, height: s.name === "messages" ? 600 : 900 }, ...(s.phone ? { isMobile: true } : {}) });
  await page.locator("main").getByText(s.shows).first().waitFor();
  await page.locator(".skeleton").first().waitFor({ state: "detached" });
  if (s.name === "limit") {
    await page.getByRole("textbox", { name: "Windows", exact: true }).fill("1/1h");
    await page.getByRole("table", { name: "What changes" }).waitFor();
    await page.getByRole("button", { name: "Try it" }).click();
    await page.getByText(/newly refused|decided as it was/).first().waitFor();
  }
  if (s.view === "") {
    await page.getByText("live", { exact: true }).waitFor();
    await some();
  }
  await page.waitForTimeout(s.view === "" ? 2500 : 1200); // charts and figures
  const path = join(into, `${s.name}.png`);
  await page.screenshot({ path });
  const size = statSync(path).size;
  console.log(`${s.name} ${(size / 1024).toFixed(0)} KiB`);
  if (size > 140 * 1024) throw new Error(`${path} is over 140 KiB`);
  await close();
}
await end();
