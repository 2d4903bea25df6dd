// A change of a limit that is not saved is not lost: who leaves finds it again, and
// who closes the page is asked.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { open, visit, world } from "./world.ts";

const windows = (page: Page) => page.getByRole("textbox", { name: "Windows", exact: true });
const found = (page: Page) => page.getByText(/^Your unsaved changes, made at \d\d:\d\d:\d\d\.$/);

async function limit(name: string, allow = "1/1h"): Promise<void> {
  const { weir } = await world();
  await weir.call("PUT", `/v1/limits/${name}`, { match: { class: name }, per: ["recipient", "class"], allow: [allow] });
}

/** changed opens a limit of its own and changes it; asked is how often the browser has asked whether to leave. */
async function changed(name: string) {
  await limit(name);
  const o = await open(`#/limits/${name}`);
  let asked = 0;
  o.page.on("dialog", () => asked++); // world.ts answers it
  await windows(o.page).fill("4/1h");
  await o.page.getByRole("row", { name: "allow 1/1h 4/1h" }).waitFor();
  return { ...o, asked: () => asked };
}

test("who goes to another view finds his changes again, with when he made them, and may discard them", async () => {
  const { weir } = await world();
  const { page, close } = await changed("draft-view");
  await page.getByRole("navigation", { name: "Views" }).getByRole("link", { name: "Limits" }).click();
  const entry = page.getByRole("row", { name: /draft-view/ });
  await entry.getByText("unsaved changes").waitFor();
  assert.equal(await page.getByText("unsaved changes").count(), 1, "the others have none");
  await entry.getByRole("link").click();
  await found(page).waitFor();
  assert.equal(await windows(page).inputValue(), "4/1h");
  await page.getByRole("row", { name: "allow 1/1h 4/1h" }).waitFor();
  assert.deepEqual((await weir.call<{ value: { allow: string[] } }>("GET", "/v1/limits/draft-view")).value.allow, ["1/1h"], "nothing was saved");

  await page.getByRole("button", { name: "Discard them" }).click();
  await page.getByText("Nothing is changed yet.").waitFor();
  assert.equal(await windows(page).inputValue(), "1/1h");
  await visit(page, "#/limits");
  await entry.waitFor();
  assert.equal(await page.getByText("unsaved changes").count(), 0);
  await visit(page, "#/limits/draft-view");
  await page.getByText("Nothing is changed yet.").waitFor();
  assert.equal(await found(page).count(), 0);
  await close();
});

test("who reloads is asked, and finds them again; what is written as text too, though it is no limit yet", async () => {
  const { page, close, asked } = await changed("draft-reload");
  await page.reload();
  await found(page).waitFor();
  assert.equal(await windows(page).inputValue(), "4/1h");
  assert.equal(asked(), 1);
  await page.getByRole("button", { name: "Text", exact: true }).click();
  await page.getByLabel("The limit as text").fill("{ half");
  await page.getByText("This is no JSON").waitFor();
  await page.reload();
  await found(page).waitFor();
  assert.equal(await page.getByLabel("The limit as text").inputValue(), "{ half");
  await page.getByRole("button", { name: "Discard them" }).click();
  await page.getByText("Nothing is changed yet.").waitFor();
  const before = asked();
  await page.reload();
  await page.getByText("Nothing is changed yet.").waitFor();
  assert.equal(asked(), before, "who has changed nothing is not asked");
  await close();
});

test("who closes the page is asked, but not once it is saved", async () => {
  const one = await changed("draft-close");
  const question = one.page.waitForEvent("dialog");
  const gone = one.page.waitForEvent("close");
  await one.page.close({ runBeforeUnload: true });
  assert.equal((await question).type(), "beforeunload");
  await gone;
  await one.close();

  const two = await changed("draft-saved");
  await two.page.getByRole("button", { name: "Save without trying" }).click();
  await two.page.getByText("Nothing is changed yet.").waitFor();
  const closed = two.page.waitForEvent("close");
  await two.page.close({ runBeforeUnload: true });
  await closed;
  assert.equal(two.asked(), 0);
  await two.close();
});

test("what is saved is no draft any more; what somebody else changed meanwhile is shown beside one", async () => {
  const { page, close } = await changed("draft-theirs");
  await visit(page, "#/retry-after");
  await page.getByRole("heading", { name: "Retry-After", level: 1 }).waitFor();
  await limit("draft-theirs", "2/1h");
  await visit(page, "#/limits/draft-theirs");
  await page.getByRole("alert").getByText("Somebody else changed this limit meanwhile").waitFor();
  await page.getByRole("row", { name: "allow 2/1h 4/1h" }).waitFor();
  await page.getByRole("button", { name: "Keep mine, and go on from theirs" }).click();
  await page.getByRole("table", { name: "What changes" }).getByRole("row", { name: "allow 2/1h 4/1h" }).waitFor();
  await page.getByRole("button", { name: "Save without trying" }).click();
  await page.getByText("Nothing is changed yet.").waitFor();
  await visit(page, "#/limits");
  await page.getByRole("row", { name: /draft-theirs/ }).waitFor();
  assert.equal(await page.getByText("unsaved changes").count(), 0);
  await close();
});

test("a new limit is kept too, and nobody else who signs in here is shown it", async () => {
  const { page, close } = await open("#/limits?new=1");
  await page.getByLabel("Name").fill("draft-new");
  await visit(page, "#/limits");
  await page.getByRole("link", { name: "New limit (unsaved)" }).click();
  await found(page).waitFor();
  assert.equal(await page.getByLabel("Name").inputValue(), "draft-new");
  // As if another key had written it.
  await visit(page, "#/retry-after");
  await page.getByRole("heading", { name: "Retry-After", level: 1 }).waitFor();
  await page.evaluate(() => {
    for (const [k, v] of Object.entries(sessionStorage)) if (k.startsWith("weir.draft.")) sessionStorage.setItem(k, JSON.stringify({ ...JSON.parse(v as string), by: "acme/other" }));
  });
  await visit(page, "#/limits?new=1");
  await page.getByText("Give it a name").waitFor();
  assert.equal(await page.getByLabel("Name").inputValue(), "");
  assert.equal(await found(page).count(), 0);
  await close();
});
