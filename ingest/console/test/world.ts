// What all tests share: one Weir, one browser. A test has a page of its own,
// which remembers what went wrong in it.

import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { findChromium } from "./chromium.ts";
import { Weir } from "./weir.ts";

export interface World {
  weir: Weir;
  browser: Browser;
}

let begun: Promise<World> | undefined;

export function world(): Promise<World> {
  begun ??= (async () => {
    const c = await findChromium();
    const [weir, browser] = await Promise.all([Weir.start(), chromium.launch({ executablePath: c.path, env: { ...(process.env as Record<string, string>), ...c.env }, args: ["--disable-dev-shm-usage"] })]);
    console.log(`Chromium ${browser.version()} from ${c.from}; Weir at ${weir.url}`);
    return { weir, browser };
  })();
  return begun;
}

export async function end(): Promise<void> {
  const w = await begun?.catch(() => undefined);
  await w?.browser.close();
  await w?.weir.stop();
}

/** pages are those that are open: a test that fails leaves its own. */
const pages = new Set<Page>();

/** tell prints what the open pages show and what Weir said last, for who reads why a test failed, and closes the pages. */
export async function tell(): Promise<void> {
  console.log(`Weir said: ${(await begun)?.weir.said}`);
  for (const page of pages) {
    const text = await page.evaluate(() => `${location.href}, focus on ${document.activeElement?.tagName}\n${document.body.innerText}`).catch((err: Error) => err.message);
    console.log(`The page showed: ${text.slice(0, 4000)}`);
    pages.delete(page);
    await left(page);
  }
}

/** left closes a page for good. What a test does to calls may be under way, since pages go on asking: it would fail for the page's end, and whichever test runs then with it. */
async function left(page: Page): Promise<void> {
  if (!page.isClosed()) await page.unrouteAll({ behavior: "ignoreErrors" });
  await page.context().close();
}

/** Opened is a page with what the browser complained about. */
export interface Opened {
  page: Page;
  /** Errors of scripts, violations of the content security policy, calls to other hosts. */
  complaints: string[];
  /** What came over the wire so far, headers and compressed bodies, without event streams. */
  bytes: () => number;
  close: () => Promise<void>;
}

/** open opens a view: "#/limits". A page that complained fails its test when it is closed. */
export async function open(view: string, options: BrowserContextOptions & { at?: string; before?: (page: Page) => Promise<unknown> } = {}): Promise<Opened> {
  const { weir, browser } = await world();
  const { at = weir.url, before, ...rest } = options;
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, timezoneId: "Asia/Shanghai", locale: "en-GB", ...rest });
  // tsx names functions through __name, which a page does not have.
  await context.addInitScript("globalThis.__name = (f) => f");
  const complaints: string[] = [];
  await context.exposeBinding("complain", (_, text: string) => void complaints.push(text));
  await context.addInitScript(() => addEventListener("securitypolicyviolation", (e) => (globalThis as unknown as { complain(t: string): void }).complain(`CSP: ${e.violatedDirective} ${e.blockedURI}`)));
  const page = await context.newPage();
  pages.add(page);
  page.setDefaultTimeout(60_000); // on a machine that does much else
  page.on("pageerror", (err) => complaints.push(`script: ${err.message}`));
  page.on("dialog", (d) => {
    if (d.type() === "beforeunload") return void d.accept();
    complaints.push(`dialog: ${d.message()}`);
    void d.dismiss();
  });
  page.on("request", (r) => {
    const { protocol, host } = new URL(r.url());
    if (protocol.startsWith("http") && host !== new URL(at).host) complaints.push(`calls ${host}`);
  });
  const network = await context.newCDPSession(page);
  await network.send("Network.enable");
  let bytes = 0;
  network.on("Network.loadingFinished", (e) => (bytes += e.encodedDataLength));
  await before?.(page);
  await page.goto(`${at}/console/${view}`);
  const close = async () => {
    pages.delete(page);
    await left(page);
    if (complaints.length > 0) throw new Error(`the page complained: ${complaints.join("; ")}`);
  };
  return { page, complaints, bytes: () => bytes, close };
}

/** number makes a Chinese mobile number that no other call of this run makes. */
let last = Math.floor(Math.random() * 5e6) * 10;
export function number(): { e164: string; national: string } {
  last += 1;
  const tail = String(last).padStart(8, "0");
  return { e164: `+86138${tail}`, national: `138 ${tail.slice(0, 4)} ${tail.slice(4)}` };
}

/** clock is how the pages write a time in the tests' zone, as a part of a regular expression: with its date, where that is not today's, and a day or a year may begin while one looks. */
export function clock(ms: number): string {
  const [year, ...day] = new Date(ms).toLocaleDateString("sv-SE", { timeZone: "Asia/Shanghai" }).split("-");
  const time = new Date(ms).toLocaleTimeString("en-GB", { timeZone: "Asia/Shanghai", hour12: false });
  return `((${year}-)?${day.join("-")} )?${time}`;
}

/** visit goes to another view in the page that is open, as a link does. */
export const visit = (page: Page, view: string): Promise<void> => page.evaluate((v) => void (location.hash = v || "#/"), view);
