// What comes late, a view's code or an answer, takes nothing from who has gone on
// meanwhile, and what was not there yet when it was asked for is asked for again.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Page, Route } from "playwright-core";
import { number, open, visit, world } from "./world.ts";
import { poll } from "./weir.ts";

/** gate holds back whoever waits for it until it is opened. */
function gate() {
  let release = (): void => {};
  const opened = new Promise<void>((r) => (release = r));
  return { opened, open: () => release() };
}

const soon = (ms: number) => new Promise((r) => setTimeout(r, ms));

/** limit brings a limit of its own into force. */
async function limit(name: string, more: object = {}): Promise<void> {
  const { weir } = await world();
  await weir.call("PUT", `/v1/limits/${name}`, { match: { class: name }, per: ["recipient", "class"], allow: ["1/1h"], ...more });
}

const windows = (page: Page) => page.getByRole("textbox", { name: "Windows", exact: true });
const row = (page: Page, name: string) => page.getByRole("table", { name: "What changes" }).getByRole("row", { name });

test("a view that comes late leaves the focus where one has gone with Tab", async () => {
  const late = gate();
  const { page, close } = await open("#/retry-after", {
    before: (page) =>
      page.route(/assets\/home-.*\.js/, async (route) => {
        await late.opened;
        await route.continue();
      }),
  });
  await page.getByRole("navigation", { name: "Views" }).getByRole("link", { name: "Overview" }).click();
  await page.keyboard.press("Tab");
  late.open();
  await page.getByRole("heading", { name: "Overview", level: 1 }).waitFor();
  await page.waitForFunction(() => document.title.startsWith("Overview")); // what follows drawing has been done
  assert.equal(await page.evaluate(() => document.activeElement?.textContent), "Recipients");
  await close();
});

test("a filter that is written in at once keeps what was written", async () => {
  const { page, close } = await open("#/queues", {
    before: (page) =>
      page.addInitScript(() => {
        new MutationObserver((_, seen) => {
          const field = [...document.querySelectorAll("label")].find((l) => l.textContent === "Class")?.control as HTMLInputElement | null | undefined;
          if (!field) return;
          seen.disconnect();
          field.value = "once";
          field.dispatchEvent(new Event("input", { bubbles: true }));
        }).observe(document, { childList: true, subtree: true });
      }),
  });
  await page.waitForFunction(() => document.title.startsWith("Queues"));
  await page.getByRole("button", { name: "Filter" }).click();
  await page.waitForURL(/class=once/);
  assert.equal(await page.getByLabel("Class").inputValue(), "once");
  await close();
});

test("a list whose answers take longer than news comes is shown all the same", async () => {
  const { weir } = await world();
  const n = number();
  let on = true;
  const news = (async () => {
    for (; on; await soon(200)) await weir.batch([{ to: n.e164, class: "once" }]);
  })();
  const { page, close } = await open(`#/recipients/${encodeURIComponent(n.national)}`, {
    before: (page) =>
      page.route(/\/v1\/messages\?/, async (route) => {
        await soon(1500);
        await route.continue().catch(() => {}); // it was taken back
      }),
  });
  await page
    .getByRole("table", { name: `Messages to ${n.e164}` })
    .waitFor()
    .finally(() => (on = false));
  await news;
  await close();
});

test("a message that is known only by and by is shown, however slow the answers", async () => {
  const { weir } = await world();
  const { id } = await weir.send({ to: number().e164, class: "once" });
  let asked = 0;
  const { page, close } = await open(`#/messages/${id}`, {
    before: (page) =>
      page.route(`**/v1/messages/${id}`, async (route) => {
        if (++asked === 1) return route.fulfill({ status: 404, contentType: "application/problem+json", json: { type: "about:blank", title: "Unknown", status: 404, code: "message_not_found", detail: "No message of yours has this id." } });
        await soon(2500); // it is asked for again after a second
        await route.continue().catch(() => {});
      }),
  });
  await page.getByRole("region", { name: "Timeline" }).waitFor();
  await close();
});

test("why one was refused is asked for again where its decision had not been read yet", async () => {
  const { weir } = await world();
  const n = number();
  await weir.send({ to: n.e164, class: "verify" });
  const { id } = await weir.send({ to: n.e164, class: "verify" });
  let behind = true;
  const { page, close } = await open(`#/recipients/${encodeURIComponent(n.national)}`, {
    before: (page) =>
      page.route(`**/v1/messages/${id}`, async (route) => {
        if (!behind) return route.continue();
        behind = false;
        const answer = await route.fetch();
        return route.fulfill({ response: answer, json: { ...((await answer.json()) as object), timeline: [] } });
      }),
  });
  await page.getByRole("region", { name: "Why the last one did not go" }).getByText("for this recipient and class verify; the place of").waitFor();
  await close();
});

test("a limit that another instance has just taken in is shown once this one has it", async () => {
  await limit("late-made");
  let behind = true;
  const { page, close } = await open("#/limits/late-made", {
    before: (page) =>
      page.route("**/v1/limits/late-made", (route) => {
        if (!behind) return route.continue();
        behind = false;
        return route.fulfill({ status: 404, contentType: "application/problem+json", json: { type: "about:blank", title: "Unknown", status: 404, code: "resource_not_found", detail: "There is no such limit." } });
      }),
  });
  await windows(page).waitFor();
  await close();
});

test("a change is in the history, also where that is a little behind; and what others change comes by itself", async () => {
  await limit("late-history");
  let held: unknown;
  const { page, close } = await open("#/limits/late-history", {
    before: (page) =>
      page.route(/\/v1\/revisions/, async (route) => {
        const answer = await route.fetch();
        const now = (await answer.json()) as { revisions: { revision: number }[] };
        const before = (held ??= now) as typeof now;
        if (now.revisions[0]!.revision === before.revisions[0]!.revision) return route.fulfill({ response: answer, json: now });
        held = now; // once it says what was
        return route.fulfill({ response: answer, json: before });
      }),
  });
  await page.getByRole("region", { name: "Who changed what" }).getByText(/^Revision \d+$/).waitFor();
  await windows(page).fill("2/1h");
  await page.getByRole("button", { name: "Save without trying" }).click();
  await page.getByText("allow 1/1h → 2/1h").waitFor();
  await visit(page, "#/limits");
  await page.getByRole("table", { name: "Limits in force" }).waitFor();
  await limit("late-history", { allow: ["3/1h"] });
  await page.getByText("allow 2/1h → 3/1h").waitFor();
  await close();
});

test("what is written while a change is saved stays in the form", async () => {
  await limit("late-save");
  const late = gate();
  const { page, close } = await open("#/limits/late-save", {
    before: (page) =>
      page.route("**/v1/limits/late-save", async (route) => {
        if (route.request().method() === "PUT") await late.opened;
        await route.continue();
      }),
  });
  await windows(page).fill("2/1h");
  await page.getByRole("button", { name: "Save without trying" }).click();
  await windows(page).fill("3/1h");
  late.open();
  await page.getByText(/^Saved: revision \d+ is in force$/).waitFor();
  await row(page, "allow 2/1h 3/1h").waitFor();
  assert.equal(await windows(page).inputValue(), "3/1h");
  await close();
});

test("who has left a new limit while it was saved is not led back", async () => {
  const late = gate();
  const { page, close } = await open("#/limits?new=1", {
    before: (page) =>
      page.route("**/v1/limits/late-new", async (route) => {
        if (route.request().method() === "PUT") await late.opened;
        await route.continue();
      }),
  });
  await page.getByLabel("Name").fill("late-new");
  await page.getByRole("textbox", { name: "Counts only" }).fill("class: late-new");
  await page.getByRole("button", { name: "Save without trying" }).click();
  await visit(page, "#/retry-after");
  await page.getByRole("heading", { name: "Retry-After", level: 1 }).waitFor();
  late.open();
  await page.getByText(/^Saved: revision \d+ is in force$/).waitFor();
  assert.match(page.url(), /#\/retry-after$/);
  await visit(page, "#/limits");
  await page.getByRole("link", { name: "late-new" }).waitFor();
  await page.getByRole("link", { name: "New limit", exact: true }).waitFor(); // nothing of it is unsaved
  await close();
});

test("enforcing a limit leaves what is changed in its form", async () => {
  await limit("late-observer", { mode: "observe" });
  const { page, close } = await open("#/limits/late-observer");
  await windows(page).fill("9/1h");
  await row(page, "allow 1/1h 9/1h").waitFor();
  await page.getByRole("button", { name: "Enforce it…" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Enforce late-observer" }).click();
  await page.getByText("This limit only observes.").waitFor({ state: "detached" });
  await row(page, "allow 1/1h 9/1h").waitFor();
  assert.equal(await page.getByLabel("Mode").inputValue(), "enforce");
  await close();
});

test("what a limit would have refused is asked for again: ClickHouse is seconds behind", async () => {
  await limit("late-counts", { mode: "observe" });
  let counted = false;
  const { page, close } = await open("#/limits/late-counts", {
    before: async (page) => {
      await page.clock.install();
      await page.route(/\/v1\/stats/, async (route) => {
        const answer = await route.fetch();
        await route.fulfill({ response: answer, json: { ...((await answer.json()) as object), limits: counted ? [{ limit: "late-counts", window: "1/1h", observed: 3 }] : [] } });
      });
    },
  });
  await page.getByText("In the last 24 h it would have refused nothing.").waitFor();
  counted = true;
  await page.clock.fastForward(15_000);
  await page.getByText("In the last 24 h it let pass 3 messages that it would have refused.").waitFor();
  await close();
});

test("what a change would do is not said of what was written before it", async () => {
  const late = gate();
  const { page, close } = await open("#/providers", {
    before: (page) =>
      page.route("**/v1/providers/stub?dry_run=true", async (route) => {
        await late.opened;
        await route.continue();
      }),
  });
  await page.getByRole("button", { name: "Change pace of stub" }).click();
  const dialog = page.getByRole("dialog", { name: "The pace of stub" });
  await dialog.getByLabel("Calls at most").fill("100/1s");
  await dialog.getByRole("button", { name: "Show what changes" }).click();
  await dialog.getByLabel("Calls at most").fill("200/1s");
  late.open();
  await dialog.locator('button[type="submit"][aria-busy="false"]').waitFor();
  assert.equal(await dialog.getByRole("button", { name: "Save" }).count(), 0, "what would be saved was not shown");
  await dialog.getByRole("button", { name: "Show what changes" }).click();
  await dialog.getByRole("row", { name: /^pace .*200\/1s/ }).waitFor();
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await close();
});

test("a dry run that ends leaves the focus to who writes in a filter", async () => {
  const { weir } = await world();
  const to = `late-${Date.now()}`;
  weir.provider.answers.set(to, { status: 400, body: {} });
  await weir.comesTo((await weir.send({ channel: "push", to, class: "late", title: "Hello" })).id, "failed");
  const late = gate();
  const { page, close } = await open("#/queues?class=late&reason=permanent", {
    before: (page) =>
      page.route("**/v1/dlq/redrive", async (route) => {
        await late.opened;
        await route.continue();
      }),
  });
  await page.getByRole("button", { name: "Redrive what matches…" }).click();
  const provider = page.getByRole("textbox", { name: "Provider" });
  await provider.pressSequentially("st");
  late.open();
  await page.getByText("Dry run: 1 message would be sent again").waitFor();
  await page.evaluate(() => new Promise((r) => requestAnimationFrame(() => setTimeout(r, 200)))); // what follows drawing has been done
  await page.keyboard.type("ub");
  assert.equal(await provider.inputValue(), "stub");
  await close();
});

test("what no longer waits is gone from the list when one looks again", async () => {
  const { weir } = await world();
  const [a, b] = [number(), number()];
  const later = new Date(Date.now() + 3_600_000).toISOString();
  const sent = [];
  for (const n of [a, b]) sent.push(await weir.send({ to: n.e164, class: "late", send_at: later }));
  for (const s of sent) await weir.comesTo(s.id, "scheduled");
  const { page, close } = await open("#/queues");
  const waiting = page.getByRole("region", { name: "Waiting messages" });
  await waiting.getByRole("link", { name: a.e164 }).waitFor();
  await waiting.getByRole("link", { name: b.e164 }).waitFor();
  await weir.call("POST", `/v1/messages/${sent[0]!.id}/cancel`, undefined, { Prefer: "wait=60" });
  await weir.comesTo(sent[0]!.id, "cancelled");
  await waiting.getByRole("button", { name: "Look again" }).click();
  await waiting.getByRole("link", { name: a.e164 }).waitFor({ state: "detached" });
  await waiting.getByRole("link", { name: b.e164 }).waitFor();
  await close();
});

/** faked answers lists of messages: 150, and one more on a second page. wait may hold one up. */
const faked = (wait: (first: boolean) => Promise<void>) => async (route: Route) => {
  const first = !route.request().url().includes("cursor=");
  await wait(first);
  const message = (i: number) => ({ id: `01a20095-feb5-7a85-b6c8-${String(i).padStart(12, "0")}`, tenant: "default", channel: "sms", class: "faked", to: `+861390${String(i).padStart(7, "0")}`, status: "sent", accepted_at: "2026-11-22T01:00:00Z", timeline: [] });
  await route.fulfill({ json: first ? { messages: Array.from({ length: 150 }, (_, i) => message(i)), next_cursor: "next" } : { messages: [message(150)] } }).catch(() => {});
};

test("the end of a list that is reached while it is asked for again brings more", async () => {
  const late = gate();
  let asked = 0;
  const { page, close } = await open("#/messages?class=faked", { before: (page) => page.route(/\/v1\/messages\?/, faked(async (first) => (first && ++asked === 2 ? late.opened : undefined))) });
  const table = page.getByRole("table", { name: "Messages, the newest first" });
  await table.waitFor();
  await page.getByRole("button", { name: "Look again" }).click();
  await poll("it is asked for again", () => asked === 2);
  await page.locator(".table-box.boxed").evaluate((b) => b.scrollTo(0, b.scrollHeight));
  await page.locator('tr[data-row="149"]').waitFor();
  late.open();
  await poll("the next page is there", async () => (await table.getAttribute("aria-rowcount")) === "152");
  await close();
});

test("back leads to where one was, however long the list takes", async () => {
  let late: ReturnType<typeof gate> | undefined;
  const { page, close } = await open("#/messages?class=faked", {
    before: async (page) => {
      await page.clock.install();
      await page.route(/\/v1\/messages\?/, faked(async () => late?.opened));
    },
  });
  const box = page.locator(".table-box.boxed");
  await box.waitFor();
  await box.evaluate((b) => b.scrollTo(0, 1500));
  await page.locator('tr[data-row="45"]').waitFor();
  await visit(page, "#/retry-after");
  await page.getByRole("heading", { name: "Retry-After", level: 1 }).waitFor();
  late = gate();
  await page.goBack();
  await page.locator(".skeleton").first().waitFor();
  for (let i = 0; i < 4; i++) await page.clock.fastForward(4000);
  late.open();
  await poll("it is where it was", () => box.evaluate((b) => b.scrollTop === 1500));
  await close();
});
