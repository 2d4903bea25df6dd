// What pages say when they cannot say all: servers that are slow, away or half
// there, parts that do not come; and that a page is found as it was left.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Page, Route } from "playwright-core";
import { number, open, visit, world } from "./world.ts";
import { poll } from "./weir.ts";

const problem = (status: number, code: string, detail: string) => ({ status, headers: { "Content-Type": "application/problem+json" }, body: JSON.stringify({ type: "about:blank", title: code, status, code, detail }) });
const figure = (page: Page, name: string) => page.locator(".figure").filter({ hasText: name }).locator("dd");

test("while ClickHouse is away the overview says so once, and no figure is made up; it comes back by itself", async () => {
  let away = true;
  const { page, close } = await open("", {
    before: async (page) => {
      await page.clock.install();
      await page.route(/\/v1\/(stats|messages)/, (route) => (away ? route.fulfill(problem(503, "warehouse_unavailable", "ClickHouse does not answer.")) : route.continue()));
    },
  });
  await page.getByRole("alert").getByText("ClickHouse does not answer.").waitFor();
  await figure(page, "Waiting").filter({ hasText: /\d/ }).waitFor(); // from Kafka
  for (const name of ["Messages ended", "Success", "p95 to sent", "Refused by limits", "Failed"]) await figure(page, name).and(page.getByText(/^–/)).waitFor();
  assert.equal(await page.getByRole("alert").count(), 1);
  await page.getByText("Not known now.").nth(4).waitFor(); // both charts and three lists
  assert.equal(await page.locator(".skeleton").count(), 0);
  // It does not blink while it is asked again.
  await page.evaluate(() => {
    const w = globalThis as unknown as { blinks: number };
    w.blinks = 0;
    new MutationObserver(() => document.querySelector("main [role=alert]") || w.blinks++).observe(document.body, { subtree: true, childList: true });
  });
  for (let i = 0; i < 3; i++) {
    const asked = page.waitForResponse(/\/v1\/stats\?days/);
    await page.clock.fastForward(10_000);
    await (await asked).finished();
  }
  assert.equal(await page.evaluate(() => (globalThis as unknown as { blinks: number }).blinks), 0);
  away = false;
  await page.clock.fastForward(60_000);
  await figure(page, "Messages ended").getByText(/^\d/).waitFor();
  await page.getByRole("alert").waitFor({ state: "detached" });
  await close();
});

test("a view that comes late takes nothing from who is writing in the search box", async () => {
  let come = (): void => {};
  const late = new Promise<void>((r) => (come = r));
  const { page, close } = await open("#/retry-after", {
    before: (page) =>
      page.route(/assets\/home-.*\.js/, async (route) => {
        await late;
        await route.continue();
      }),
  });
  await page.getByRole("navigation", { name: "Views" }).getByRole("link", { name: "Overview" }).click();
  const search = page.getByRole("searchbox");
  await search.fill("138 0000");
  come();
  await page.getByRole("heading", { name: "Overview", level: 1 }).waitFor();
  await page.keyboard.type(" 0000");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "+8613800000000", level: 1 }).or(page.getByRole("heading", { name: "138 0000 0000", level: 1 })).waitFor();
  await page.waitForFunction(() => document.activeElement?.tagName === "H1"); // as after every look-up
  await close();
});

test("an answer that takes longer than the page asks again is waited for", async () => {
  const { page, close } = await open("#/providers", {
    before: async (page) => {
      await page.clock.install();
      await page.route(/\/v1\/health/, async (route) => {
        await page.clock.fastForward(7000); // it is asked every 3 s
        await route.continue();
      });
    },
  });
  await page.getByRole("region", { name: "simulated", exact: true }).waitFor();
  await close();
});

test("a list of what is in memory alone says that it is not all", async () => {
  const { weir } = await world();
  const n = number();
  await weir.send({ to: n.e164, class: "verify" });
  let rows = true;
  const half = async (route: Route) => {
    const answer = await route.fetch();
    const page = (await answer.json()) as { messages: unknown[] };
    await route.fulfill({ response: answer, json: { messages: rows ? page.messages : [], partial: true } });
  };
  const { page, close } = await open(`#/recipients/${encodeURIComponent(n.national)}`, { before: (page) => page.route(/\/v1\/messages\?/, half) });
  await page.getByText("Only what this server has in memory is shown: about the last ten minutes.").waitFor();
  await page.getByRole("table", { name: "Messages to" }).getByRole("link", { name: "sent" }).waitFor();
  rows = false;
  await page.reload();
  await page.getByText("None in these minutes").waitFor();
  assert.equal(await page.getByText("No message to this recipient is known").count(), 0, "nobody knows that now");
  await visit(page, "#/messages");
  await page.getByText("Only what this server has in memory is shown: about the last ten minutes.").waitFor();
  await close();
});

test("parts that do not come are said: a chart's, a view's, the sign-in's", async () => {
  const { weir } = await world();
  const gone = (part: string) => (page: Page) => page.route(new RegExp(`/assets/${part}-`), (route) => route.abort());
  const chart = await open("", { before: gone("plot") });
  await chart.page.getByText(/^The chart could not be loaded\. Messages a minute/).waitFor();
  await chart.close();
  const view = await open("#/limits", { before: gone("limits") });
  await view.page.getByRole("alert").getByText("A part of the console could not be loaded.").waitFor();
  await view.close();
  weir.key("states-reader", "default", "read"); // or nobody could sign in there
  const signIn = await open("", { at: await weir.keyed(), before: gone("sign-in") });
  await signIn.page.getByRole("alert").getByText("A part of the console could not be loaded.").waitFor();
  await signIn.close();
});

test("charts are drawn in a browser whose language Intl does not know", async () => {
  const { page, close } = await open("", { before: (page) => page.addInitScript(() => Object.defineProperty(Navigator.prototype, "language", { get: () => "en-US@posix", configurable: true })) });
  await page.locator(".chart canvas").nth(1).waitFor();
  await close();
});

test("a limit whose changes are further back than one page of revisions is not said to have none", async () => {
  const { page, close } = await open("#/limits/verify", {
    before: (page) =>
      page.route(/\/v1\/revisions/, (route) =>
        route.fulfill({ json: { revisions: [{ revision: 70, at: "2026-11-22T01:00:00Z", by: "ops", changes: [{ kind: "limit", name: "other", op: "remove" }] }], next_cursor: "20" } }),
      ),
  });
  await page.getByText("None of the last 1 revisions changed it.").waitFor();
  await page.getByRole("button", { name: "Older changes" }).waitFor();
  assert.equal(await page.getByText("No change is recorded").count(), 0);
  await close();
});

test("back leads to the page as it was left: its filters, and where one had scrolled", async () => {
  const { weir } = await world();
  await weir.batch(Array.from({ length: 150 }, () => ({ to: number().e164, class: "backward" })));
  await poll("all are listed", async () => (await weir.call<{ messages: unknown[] }>("GET", "/v1/messages?class=backward&limit=500")).messages.length === 150);
  const { page, close } = await open("#/messages?class=backward", { viewport: { width: 1280, height: 420 } });
  const box = page.locator(".table-box.boxed");
  await box.waitFor();
  await page.evaluate(() => scrollTo(0, 120));
  await box.evaluate((b) => b.scrollTo(0, 1500));
  await poll("the browser has told of it", () => page.evaluate(() => scrollY > 100 && !!document.querySelector('tr[data-row="45"]')));
  const link = box.locator('tr[data-row="45"]').getByRole("link", { name: /^\+86/ });
  const to = await link.innerText();
  await link.evaluate((a: HTMLElement) => a.click());
  await page.getByRole("heading", { level: 1, name: to }).waitFor();
  assert.equal(await page.evaluate(() => scrollY), 0, "another page begins at its top");
  await page.goBack();
  await poll("it is where it was", async () => (await page.evaluate(() => scrollY)) > 100 && (await box.evaluate((b) => b.scrollTop)) === 1500);
  await page.reload();
  await poll("and after a refresh", async () => (await page.evaluate(() => scrollY)) > 100 && (await box.evaluate((b) => b.scrollTop)) === 1500);
  // The fields say what is shown.
  assert.equal(await page.getByLabel("Class").inputValue(), "backward");
  await page.getByLabel("Class").fill("verify");
  await page.getByRole("button", { name: "Filter" }).click();
  await page.waitForURL(/class=verify/);
  await page.getByRole("cell", { name: "backward", exact: true }).first().waitFor({ state: "detached" });
  await page.goBack();
  await poll("the class is that of the address", async () => (await page.getByLabel("Class").inputValue()) === "backward");
  await close();
});

test("messages of a span of time, in the address and in the fields", async () => {
  const { weir } = await world();
  const n = number();
  await weir.send({ to: n.e164, class: "span" });
  await poll("it is listed", async () => (await weir.call<{ messages: unknown[] }>("GET", "/v1/messages?class=span")).messages.length === 1);
  const { page, close } = await open("#/messages?class=span&from=2020-01-01T00:00:00.000Z");
  await page.getByRole("link", { name: n.e164 }).waitFor();
  assert.equal(await page.getByLabel("From").inputValue(), "2020-01-01T08:00", "in the browser's zone");
  await page.getByText("Times are UTC+08:00").waitFor();
  await page.getByLabel("Until").fill("2020-01-02T08:30");
  await page.getByRole("button", { name: "Filter" }).click();
  await page.getByText("No message matches").waitFor();
  assert.match(page.url(), /until=2020-01-02T00%3A30%3A00\.000Z/);
  await close();
});

test("pressing Filter again, or Look again, asks again", async () => {
  const { weir } = await world();
  const { page, close } = await open("#/messages?class=again");
  await page.getByText("No message matches").waitFor();
  for (const button of ["Filter", "Look again"]) {
    const n = number();
    await weir.known((await weir.send({ to: n.e164, class: "again" })).id);
    await page.getByRole("button", { name: button }).click();
    await page.getByRole("link", { name: n.e164 }).waitFor();
  }
  await close();
});

test("a dialog gives the focus back to what opened it", async () => {
  const { weir } = await world();
  const n = number();
  const later = await weir.send({ to: n.e164, class: "promo", send_at: new Date(Date.now() + 3_600_000).toISOString() });
  await weir.comesTo(later.id, "scheduled");
  const { page, close } = await open(`#/recipients/${encodeURIComponent(n.e164)}`);
  const focused = () => page.evaluate(() => document.activeElement?.textContent);
  for (const [view, button, dialog] of [
    ["", "Suppress", "Suppress this recipient?"],
    ["#/providers", "Change pace of stub", "The pace of stub"],
    [`#/messages/${later.id}`, "Cancel it", "Take this message back?"],
  ] as const) {
    if (view) await visit(page, view);
    const opener = page.getByRole("button", { name: button, exact: true });
    await opener.focus();
    await page.keyboard.press("Enter");
    await page.getByRole("dialog", { name: dialog }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    assert.equal(await focused(), await opener.textContent(), button);
  }
  // Nobody takes "Cancel" for the other thing.
  await page.getByRole("button", { name: "Cancel it" }).click();
  await page.getByRole("button", { name: "Leave it" }).waitFor();
  assert.deepEqual(await page.getByRole("dialog").getByRole("button").allInnerTexts(), ["Leave it", "Cancel the message"]);
  await page.getByRole("button", { name: "Leave it" }).click();
  assert.equal((await weir.call<{ status: string }>("GET", `/v1/messages/${later.id}`)).status, "scheduled");
  await close();
});

test("a message that there is not is not asked for without end", async () => {
  let asked = 0;
  let there = false;
  const { weir } = await world();
  const { id } = await weir.send({ to: number().e164, class: "once" });
  const { page, close } = await open("", {
    before: async (page) => {
      await page.clock.install();
      await page.route(`**/v1/messages/${id}`, (route) => {
        asked++;
        return there ? route.continue() : route.fulfill(problem(404, "message_not_found", "There is no such message."));
      });
    },
  });
  await visit(page, `#/messages/${id}`);
  await page.getByText("No such message").waitFor();
  await poll("it is asked for again", async () => {
    await page.clock.runFor(1000);
    return asked === 11;
  });
  for (let i = 0; i < 30; i++) await page.clock.runFor(1000);
  assert.equal(asked, 11, "not without end");
  there = true;
  await page.getByRole("button", { name: "Look again" }).click();
  await page.getByRole("region", { name: "Timeline" }).waitFor();
  await close();
});

test("an address that changes while the page is drawn for the first time is followed", async () => {
  const { page, close } = await open("", {
    before: (page) =>
      page.addInitScript(() => {
        new MutationObserver((_, seen) => {
          if (!document.getElementById("main")) return;
          seen.disconnect();
          location.hash = "#/retry-after";
        }).observe(document, { childList: true, subtree: true });
      }),
  });
  await page.getByRole("heading", { level: 1, name: "Retry-After" }).waitFor();
  await close();
});

test("a part that comes between a drawing and its effects is shown", async () => {
  let admit = (): void => {};
  let come = (): void => {};
  const session = new Promise<void>((r) => (admit = r));
  const part = new Promise<void>((r) => (come = r));
  let asked = "";
  const { page, close } = await open("#/retry-after", {
    before: async (page) => {
      await page.clock.install();
      await page.clock.pauseAt(Date.now() + 60_000); // effects wait for a frame
      await page.route("**/v1/session", async (route) => {
        await session;
        await route.continue();
      });
      await page.route(/assets\/retry-after-.*\.js/, async (route) => {
        asked = route.request().url();
        await part;
        await route.continue();
      });
    },
  });
  await poll("the part is asked for", async () => {
    await page.clock.runFor(100);
    return asked !== "";
  });
  admit();
  await page.getByText("no key needed here").waitFor(); // drawn again, for another tenant
  come();
  await page.evaluate((url) => import(url), asked);
  await page.clock.runFor(1000);
  await page.getByRole("heading", { level: 1, name: "Retry-After" }).waitFor();
  await close();
});

test("what happens stands still under a mouse, and says so, and not under a finger", async () => {
  const { weir } = await world();
  const send = async () => {
    const n = number();
    await weir.send({ to: n.e164, class: "once" });
    return n.e164;
  };
  const mouse = await open("");
  const rows = (page: Page) => page.getByRole("table", { name: "The latest messages that came to an end" });
  await mouse.page.getByText("live", { exact: true }).waitFor();
  const first = await send();
  await rows(mouse.page).getByRole("link", { name: first }).waitFor();
  await rows(mouse.page).hover();
  await mouse.page.getByText("paused", { exact: true }).waitFor();
  const second = await send();
  await poll("the rate goes on", async () => !(await mouse.page.locator(".live .num").innerText()).startsWith("0 "));
  assert.equal(await rows(mouse.page).getByRole("link", { name: second }).count(), 0);
  await mouse.page.mouse.move(5, 5);
  await rows(mouse.page).getByRole("link", { name: second }).waitFor();
  await mouse.close();

  const finger = await open("", { hasTouch: true, isMobile: true, viewport: { width: 390, height: 800 } });
  await finger.page.getByText("live", { exact: true }).waitFor();
  const third = await send();
  await rows(finger.page).getByRole("link", { name: third }).waitFor();
  await rows(finger.page).getByRole("columnheader").first().tap();
  const fourth = await send();
  await rows(finger.page).getByRole("link", { name: fourth }).waitFor();
  await finger.close();
});
