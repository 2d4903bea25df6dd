// What support staff come for besides limits: suppressions, and what became of a
// message that a provider took.

import assert from "node:assert/strict";
import { test } from "node:test";
import { number, open, world } from "./world.ts";
import { poll } from "./weir.ts";

interface Message {
  status: string;
  provider_message_id?: string;
}

test("a recipient is suppressed for one class, and that one is lifted and no other", async () => {
  const { weir } = await world();
  const n = number();
  await weir.call("PUT", "/v1/suppressions", { to: n.e164, channel: "sms", class: "verify", reason: "asked by phone" }, { Prefer: "wait=60" });

  const { page, close } = await open(`#/recipients/${encodeURIComponent(n.national)}`);
  const panel = page.getByRole("region", { name: "Suppressions", exact: true });
  await panel.getByRole("row", { name: /^sms, class verify it is lifted asked by phone/ }).waitFor();
  await panel.getByRole("button", { name: "Suppress", exact: true }).click();
  const dialog = page.getByRole("dialog", { name: "Suppress this recipient?" });
  await dialog.getByLabel("Channel").selectOption("sms");
  await dialog.getByLabel("Class").fill("once");
  await dialog.getByLabel("Reason").fill("by mail");
  await dialog.getByRole("button", { name: "Suppress" }).click();
  const made = panel.getByRole("row", { name: /^sms, class once it is lifted by mail/ });
  await made.waitFor();
  assert.equal((await weir.send({ to: n.e164, class: "once" })).code, "message_suppressed");
  assert.equal((await weir.send({ to: n.e164, class: "notice" })).status, "queued", "it covers one class");

  await panel.getByRole("button", { name: "Lift the suppression of sms, class once" }).click();
  const lift = page.getByRole("dialog", { name: "Lift this suppression?" });
  await lift.getByText("It was suppressed for: by mail").waitFor();
  await lift.getByRole("button", { name: "Lift it" }).click();
  await page.getByText("Lifted", { exact: true }).waitFor();
  await made.waitFor({ state: "detached" });
  assert.equal(await panel.getByRole("row", { name: /class verify/ }).count(), 1, "the other one stands, and nothing blinks");
  assert.equal((await weir.send({ to: n.e164, class: "once" })).status, "queued");
  assert.equal((await weir.send({ to: n.e164, class: "verify" })).code, "message_suppressed");
  await page.getByRole("link", { name: /suppressed/ }).first().click();
  await page.getByText("The recipient opted out").first().waitFor();
  await close();
});

test("who may only read sees suppressions and cannot change them", async () => {
  const { weir } = await world();
  const n = number();
  await weir.call("PUT", "/v1/suppressions", { to: n.e164, reason: "asked by phone" }, { Prefer: "wait=60" });
  const key = weir.key("support-reader", "default", "read");
  const at = await weir.keyed();
  const { page, close } = await open(`#/recipients/${encodeURIComponent(n.e164)}`, { at });
  await page.getByLabel("API key").fill(key);
  await page.getByRole("button", { name: "Sign in" }).click();
  const panel = page.getByRole("region", { name: "Suppressions", exact: true });
  await panel.getByRole("row", { name: /^any channel, any class it is lifted asked by phone/ }).waitFor();
  await page.getByText("No: the recipient has opted out.").waitFor();
  assert.equal(await panel.getByRole("button").count(), 0);
  const refused = await page.evaluate(async (to) => (await fetch(`/v1/suppressions?to=${encodeURIComponent(to)}`, { method: "DELETE" })).status, n.e164);
  assert.equal(refused, 403, "the server refuses it too");
  await close();
});

test("receipts: delivered after sent, while one looks", async () => {
  const { weir } = await world();
  const n = number();
  const { id } = await weir.send({ channel: "voice", provider: "calls", to: n.e164, class: "once" });
  await weir.comesTo(id, "sent");
  const { page, close } = await open(`#/messages/${id}`);
  await page.getByText("calls took it.").waitFor();
  await weir.receipt({ id, to: n.e164, status: "delivered" });
  await page.getByText("calls took it and says that it arrived.").waitFor();
  const steps = page.getByRole("region", { name: "Timeline" }).getByRole("listitem");
  assert.deepEqual((await steps.allInnerTexts()).map((t) => t.split(/\s/)[0]).slice(-2), ["sent", "delivered"]);
  await steps.last().getByText("The provider's receipt said so.").waitFor();
  await close();
});

test("a receipt with the provider's code, what it suppresses, and its callback once more", async () => {
  const { weir } = await world();
  const n = number();
  const { id } = await weir.send({ channel: "voice", provider: "calls", to: n.e164, class: "once" });
  await weir.comesTo(id, "sent");
  const { provider_message_id: theirs } = await weir.call<Message>("GET", `/v1/messages/${id}`);
  assert.equal(theirs, `stub-${id}`);
  await weir.receipt({ id, to: n.e164, status: "undelivered", error_code: "E17", error: "the line is dead", suppress: "invalid" });
  await weir.comesTo(id, "undelivered");
  const told = () => weir.provider.told.filter((t) => t.message === id);
  await poll("it is called back", () => told().length > 0);
  assert.equal(told()[0]?.type, "message.undelivered");

  const { page, close } = await open("");
  await page.getByRole("searchbox").fill(id);
  await page.keyboard.press("Enter");
  await page.getByText("calls took it, and says that it did not arrive: E17: the line is dead.").waitFor();
  await page.getByRole("region", { name: "Timeline" }).getByRole("listitem").last().getByText("E17: the line is dead").waitFor();
  await page.getByText(`stub-${id}`).waitFor();

  const before = told().length; // a receiver that is slow is told twice
  await page.getByRole("button", { name: "Repeat callbacks" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Repeat callbacks" }).click();
  await page.getByText("Asked for: the callbacks come again").waitFor();
  await poll("it is called back again", () => told().length > before);
  assert.deepEqual([...new Set(told().map((t) => t.id))], [told()[0]?.id], "under the same id");

  await page.getByRole("link", { name: n.e164 }).click();
  await page.getByRole("region", { name: "Suppressions", exact: true }).getByRole("row", { name: /^voice, any class it is lifted invalid/ }).waitFor();
  await close();
});
