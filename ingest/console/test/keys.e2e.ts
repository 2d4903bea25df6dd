// Signing in, and what a key lets its holder see: on a process that asks for keys.

import assert from "node:assert/strict";
import { before, test } from "node:test";
import { poll } from "./weir.ts";
import { type Opened, number, open, visit, world } from "./world.ts";

let at = "";
const keys = { reader: "", other: "", admin: "" };
const n = number();
let refused = "";

before(async () => {
  const { weir } = await world();
  keys.admin = weir.key("console-admin", "default", "send,read,admin");
  keys.reader = weir.key("console-reader", "default", "read");
  keys.other = weir.key("acme-reader", "acme", "read,send");
  at = await weir.keyed();
  await weir.send({ to: n.e164, class: "verify" });
  refused = (await weir.send({ to: n.e164, class: "verify" })).id;
});

async function signIn(key: string, view = ""): Promise<Opened> {
  const o = await open(view, { at });
  await o.page.getByLabel(/key/i).first().fill(key);
  await o.page.getByRole("button", { name: "Sign in" }).click();
  return o;
}

test("a wrong key is told so, and the page stays shut", async () => {
  const { page, close } = await signIn("weir_live_wrong");
  await page.getByText("The API key is unknown, was revoked, or has expired.").waitFor();
  for (const hidden of ["Overview", "Messages", "Limits"]) assert.equal(await page.getByRole("navigation").getByRole("link", { name: hidden }).count(), 0, hidden);
  await close();
});

test("a key that reads sees its messages, and no control that changes anything; when it is revoked the page shuts", async () => {
  const { weir } = await world();
  const { page, close } = await signIn(keys.reader);
  await page.getByRole("navigation", { name: "Views" }).getByRole("link", { name: "Recipients" }).waitFor();
  for (const hidden of ["Limits", "Providers", "Alerts", "Proof"]) assert.equal(await page.getByRole("navigation").getByRole("link", { name: hidden }).count(), 0, hidden);
  await page.getByRole("searchbox").fill(n.national);
  await page.keyboard.press("Enter");
  await page.getByRole("link", { name: "limited" }).first().click();
  await page.getByText("limit verify allows 1 per 20 min").first().waitFor();
  for (const button of ["Send again", "Cancel it"]) assert.equal(await page.getByRole("button", { name: button }).count(), 0, button);
  await visit(page, "#/queues");
  await page.getByRole("heading", { name: "Dead letters" }).waitFor();
  for (const button of [/Redrive/, /Send again/]) assert.equal(await page.getByRole("button", { name: button }).count(), 0, String(button));
  assert.equal(await page.getByRole("heading", { name: "Delays" }).count(), 0);
  for (const [view, scope] of Object.entries({ "#/limits": "policy", "#/limits/verify": "policy", "#/providers": "operate", "#/alerts": "policy", "#/proof": "operate" })) {
    await visit(page, view);
    await page.getByText(`This needs the scope ${scope}`).waitFor();
    assert.equal(await page.getByRole("button", { name: /Save|Delete|Enforce/ }).count(), 0, view);
  }
  await visit(page, "#/messages?class=verify");
  await page.getByRole("link", { name: n.e164 }).first().waitFor();
  weir.revoke("console-reader");
  await poll("it is told", async () => {
    const again = page.getByRole("button", { name: "Look again" });
    if (await again.isVisible()) await again.click();
    return page.getByText("The session is over: the key was revoked or has expired, or 12 hours have passed.").isVisible();
  });
  assert.equal(await page.getByText(n.e164).count(), 0, "nothing of what was seen stays");
  assert.equal(await page.getByRole("navigation").getByRole("link", { name: "Messages" }).count(), 0);
  await page.getByLabel("API key").waitFor();
  await close();
});

test("another tenant's key sees nothing of the first", async () => {
  const { page, close } = await signIn(keys.other);
  await page.getByRole("navigation", { name: "Views" }).getByRole("link", { name: "Messages" }).click();
  await page.getByText("No message matches").waitFor();
  await page.getByRole("searchbox").fill(n.e164);
  await page.keyboard.press("Enter");
  await page.getByText("No message to this recipient is known").waitFor();
  await page.getByRole("searchbox").fill(refused);
  await page.keyboard.press("Enter");
  await page.getByText("No such message").waitFor();
  await visit(page, "#/queues");
  await page.getByText("Weir gave up on nothing").waitFor();
  await close();
});

test("an operator looks at another tenant's messages and changes none; who signs out is out", async () => {
  const theirs = number();
  const sent = await fetch(`${at}/v1/messages`, { method: "POST", headers: { Authorization: `Bearer ${keys.other}` }, body: JSON.stringify({ channel: "sms", to: theirs.e164, class: "verify", body: "b", send_at: new Date(Date.now() + 3_600_000).toISOString() }) });
  assert.equal(sent.status, 202, await sent.text());
  const { page, close } = await signIn(keys.admin);
  await page.getByRole("navigation", { name: "Views" }).getByRole("link", { name: "Messages" }).click();
  await page.getByRole("link", { name: n.e164 }).first().waitFor();
  const tenant = page.getByLabel("Tenant whose messages are shown");
  await tenant.selectOption("acme");
  await page.getByRole("link", { name: theirs.e164 }).first().waitFor();
  assert.equal(await page.getByText(n.e164).count(), 0, "what is another tenant's is gone");
  await page.getByRole("link", { name: "scheduled" }).first().click();
  await page.getByText("scheduled").first().waitFor();
  assert.equal(await page.getByRole("button", { name: /Cancel/ }).count(), 0, "an operator only looks");
  await tenant.selectOption("default");
  await page.getByText("No such message").waitFor();
  await page.getByRole("navigation", { name: "Views" }).getByRole("link", { name: "Limits" }).waitFor();
  await page.reload();
  await page.getByRole("navigation", { name: "Views" }).getByRole("link", { name: "Limits" }).waitFor();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("button", { name: "Sign in" }).waitFor();
  await page.reload();
  await page.getByRole("button", { name: "Sign in" }).waitFor();
  await close();
});
