// What people come for, done as they do it: by what is written on the page.

import assert from "node:assert/strict";
import { test } from "node:test";
import { clock, number, open, world } from "./world.ts";
import { poll } from "./weir.ts";

interface Message {
  id: string;
  status: string;
  redrive_of?: string;
  timeline: { decision?: { evidence?: { oldest: string }[] } }[];
}

test("why a number got nothing: from its national spelling to the limit, the window and the time", async () => {
  const { weir } = await world();
  const n = number();
  await weir.send({ to: n.e164, class: "verify" });
  const refused = await weir.send({ to: n.e164, class: "verify" });
  let known: Message | undefined;
  // Who waits is answered by the decision, a moment before it is in the tail that reads.
  await poll("the refusal is in the message's timeline", async () => !!(known = await weir.call<Message>("GET", `/v1/messages/${refused.id}`)).timeline.at(-1)?.decision?.evidence);
  const oldest = Date.parse(known!.timeline.at(-1)!.decision!.evidence![0]!.oldest);
  const sentence = `limit verify allows 1 per 20 min for this recipient and class verify; the place of ${clock(oldest)} stands until ${clock(oldest + 1_200_000)}`;

  const { page, close } = await open("");
  await page.getByRole("searchbox", { name: "Find a recipient or a message" }).fill(n.national);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: n.e164, level: 1 }).waitFor();
  await page.getByText(new RegExp(`Not before ${clock(oldest + 1_200_000)}`)).waitFor();
  await page.getByText("0 of 1 left").waitFor();
  await page.getByText("4 of 5 left").waitFor();
  await page.getByText(new RegExp(sentence)).waitFor();
  await page.getByRole("table", { name: "Messages to" }).getByRole("link", { name: "limited" }).click();
  await page.getByRole("heading", { name: "Message", level: 1 }).waitFor();
  await page.getByText(new RegExp(`Refused: ${sentence}\\. The next may go at ${clock(oldest + 1_200_000)}`)).waitFor();
  await page.getByText("Policy revision").waitFor();
  await close();
});

test("a limit is changed after its effect was seen, and counts from then on", async () => {
  const { weir } = await world();
  const [a, b] = [number(), number()];
  for (const n of [a, b]) for (let i = 0; i < 2; i++) await weir.send({ to: n.e164, class: "promo" });
  assert.equal((await weir.send({ to: a.e164, class: "promo" })).code, "quota_exceeded");

  const { page, close } = await open("#/limits");
  await page.getByRole("link", { name: "promo" }).click();
  await page.getByRole("heading", { name: "promo", level: 1 }).waitFor();
  await page.getByRole("textbox", { name: "Windows", exact: true }).fill("3/1h");
  const diff = page.getByRole("table", { name: "What changes" });
  await diff.getByRole("row", { name: "allow 2/1h 3/1h" }).waitFor();
  await page.getByRole("button", { name: "Save without trying" }).waitFor();
  await page.getByLabel("Recorded traffic of").selectOption({ label: "the last hour" });
  await page.getByRole("button", { name: "Try it" }).click();
  await page.getByText("1 newly admitted").waitFor();
  assert.equal(await page.getByText("newly refused").count(), 0);
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByText(/^Saved: revision \d+ is in force$/).waitFor();
  await page.getByText("Nothing is changed yet.").waitFor();
  await page.getByText("allow 2/1h → 3/1h").waitFor();

  await poll("the new limit is in force", async () => (await weir.call<{ limits: { n: number }[] }>("GET", `/v1/quota?to=${encodeURIComponent(b.e164)}&class=promo`)).limits[0]?.n === 3);
  assert.equal((await weir.send({ to: b.e164, class: "promo" })).status, "queued", "the third passes now");
  assert.equal((await weir.send({ to: b.e164, class: "promo" })).code, "quota_exceeded", "the fourth does not");
  await close();
});

test("somebody else's change is shown, and never overwritten", async () => {
  const { weir } = await world();
  const { page, close } = await open("#/limits/shared");
  await page.getByRole("textbox", { name: "Windows", exact: true }).fill("7/1h");
  await page.getByRole("row", { name: "allow 5/1h 7/1h" }).waitFor();
  await weir.call("PUT", "/v1/limits/shared", { match: { class: "shared" }, per: ["recipient", "class"], allow: ["6/1h"] });
  await page.getByRole("button", { name: "Save without trying" }).click();
  await page.getByRole("alert").getByText("Somebody else changed this limit meanwhile").waitFor();
  await page.getByRole("row", { name: "allow 6/1h 7/1h" }).waitFor();
  const now = () => weir.call<{ value: { allow: string[] } }>("GET", "/v1/limits/shared");
  assert.deepEqual((await now()).value.allow, ["6/1h"], "nothing was saved");
  await page.getByRole("button", { name: "Keep mine, and go on from theirs" }).click();
  await page.getByRole("table", { name: "What changes" }).getByRole("row", { name: "allow 6/1h 7/1h" }).waitFor();
  await page.getByRole("button", { name: "Save without trying" }).click();
  await page.getByText(/^Saved: revision \d+/).waitFor();
  assert.deepEqual((await now()).value.allow, ["7/1h"]);
  await close();
});

test("what cannot be saved is said at its field, and changes nothing", async () => {
  const { weir } = await world();
  const { page, close } = await open("#/limits/shared");
  const windows = page.getByRole("textbox", { name: "Windows", exact: true });
  const before = await weir.call<{ revision: number }>("GET", "/v1/limits");
  await windows.fill("0/1h");
  await page.getByText("It cannot be saved so").waitFor();
  assert.equal(await windows.getAttribute("aria-invalid"), "true");
  assert.ok(await page.getByRole("button", { name: "Save without trying" }).isDisabled());
  assert.equal((await weir.call<{ revision: number }>("GET", "/v1/limits")).revision, before.revision);
  await close();
});

test("a limit that observes is enforced in one step, with its effect shown", async () => {
  const { weir } = await world();
  const n = number();
  for (let i = 0; i < 2; i++) assert.equal((await weir.send({ to: n.e164, class: "watched" })).status, "queued");
  await poll("ClickHouse has counted it", async () => (await weir.call<{ limits: { limit: string; observed?: number }[] }>("GET", "/v1/stats")).limits.some((l) => l.limit === "watched" && l.observed === 1));

  const { page, close } = await open("#/limits");
  await page.getByRole("row", { name: /watched observes/ }).getByRole("link").click();
  await page.getByText("In the last 24 h it let pass 1 message that it would have refused.").waitFor();
  await page.getByRole("button", { name: "Enforce it…" }).click();
  const dialog = page.getByRole("dialog", { name: "Enforce watched?" });
  await dialog.getByText("1 newly refused").waitFor();
  await dialog.getByRole("button", { name: "Enforce watched" }).click();
  await page.getByText(/^watched is enforced: revision \d+ is in force$/).waitFor();
  assert.equal(await page.getByText("This limit only observes.").count(), 0);

  const next = number();
  await poll("it is enforced", async () => {
    const s = await weir.send({ to: next.e164, class: "watched" });
    return s.code === "quota_exceeded";
  });
  await close();
});

test("a limit is made and deleted", async () => {
  const { page, close } = await open("#/limits");
  await page.getByRole("link", { name: "New limit" }).click();
  await page.getByLabel("Name").fill("passing");
  await page.getByRole("textbox", { name: "Counts only" }).fill("class: passing");
  await page.getByText("Class passing: 1 per 60 s, for each recipient and class.").waitFor();
  await page.getByRole("button", { name: "Save without trying" }).click();
  await page.getByRole("heading", { name: "passing", level: 1 }).waitFor();
  await page.getByRole("button", { name: "Delete…" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete passing" }).click();
  await page.getByRole("heading", { name: "Limits", level: 1 }).waitFor();
  await page.getByRole("table", { name: "Limits in force" }).getByRole("link", { name: "verify" }).waitFor();
  assert.equal(await page.getByRole("table", { name: "Limits in force" }).getByRole("link", { name: "passing" }).count(), 0);
  await close();
});

test("dead letters are redriven: a dry run first, then what it counted is sent", async () => {
  const { weir } = await world();
  const fails = async (to: string) => {
    weir.provider.answers.set(to, { status: 400, body: {} });
    const { id } = await weir.send({ channel: "push", to, class: "buried", title: "Hello" });
    await weir.comesTo(id, "failed");
    weir.provider.answers.delete(to); // the provider is mended
    return id;
  };
  const to = `device-${Date.now()}`;
  const id = await fails(to);

  const { page, close } = await open("#/queues");
  const letters = page.getByRole("region", { name: "Dead letters" });
  await letters.getByLabel("Class").fill("buried");
  await letters.getByLabel("Why").selectOption("permanent"); // what ended for good is sent again only where it is named
  await letters.getByRole("button", { name: "Filter" }).click();
  await letters.getByRole("button", { name: "Redrive what matches…" }).click();
  await letters.getByText("Dry run: 1 message would be sent again").waitFor();
  assert.equal((await sentAgain()).length, 0, "a dry run sends nothing");
  const second = await fails(`${to}-b`); // nobody has seen it
  await poll("it is a dead letter", async () => (await weir.call<{ entries: unknown[] }>("GET", "/v1/dlq?class=buried")).entries.length === 2);
  await letters.getByRole("button", { name: "Send 1 message again" }).click();
  await letters.getByText("1 message sent again", { exact: true }).waitFor();
  await letters.getByRole("link", { name: "The provider refused it for good" }).nth(1).waitFor(); // the list is as of now

  let again: Message | undefined;
  await poll("the new message is sent", async () => {
    again = (await sentAgain())[0];
    return again?.status === "sent";
  });
  const { messages } = await weir.call<{ messages: Message[] }>("GET", `/v1/messages?to=${to}-b`);
  assert.deepEqual(messages.map((m) => m.id), [second], "what came in between was not sent");
  await page.getByRole("searchbox").fill(again!.id);
  await page.keyboard.press("Enter");
  await page.getByText("stub took it.").waitFor();
  await page.getByRole("link", { name: /^the message/ }).click();
  await page.getByText("The provider refused it for good: stub said").waitFor();
  await close();

  async function sentAgain(): Promise<Message[]> {
    const { messages } = await weir.call<{ messages: Message[] }>("GET", `/v1/messages?to=${to}`);
    return messages.filter((m) => m.redrive_of === id);
  }
});

test("a message that waits is cancelled, and one that was refused is sent again", async () => {
  const { weir } = await world();
  const n = number();
  const later = await weir.send({ to: n.e164, class: "promo", send_at: new Date(Date.now() + 3_600_000).toISOString() });
  await weir.comesTo(later.id, "scheduled");
  const { page, close } = await open(`#/messages/${later.id}`);
  await page.getByRole("button", { name: "Cancel it" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel the message" }).click();
  await page.getByText("It was taken back before it was sent.").waitFor();
  assert.equal(await page.getByRole("button", { name: "Cancel it" }).count(), 0);

  await weir.send({ to: n.e164, class: "verify" });
  const refused = await weir.send({ to: n.e164, class: "verify" });
  await page.getByRole("searchbox").fill(refused.id);
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Send again" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Send again" }).click();
  await page.getByRole("link", { name: `the message ${refused.id.slice(0, 8)}…` }).waitFor();
  await close();
});
