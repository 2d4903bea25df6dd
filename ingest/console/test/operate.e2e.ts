// What operators come for: providers and their breakers, paces and weights, alerts,
// and a limit whose trial the server refuses.

import assert from "node:assert/strict";
import { test } from "node:test";
import { number, open, world } from "./world.ts";
import { poll } from "./weir.ts";

test("a provider that fails: its breaker, its codes, who gets its messages, and that it is well again", async (t) => {
  const { weir } = await world();
  const failing: string[] = [];
  const call = async (answer?: { status: number; body: unknown }) => {
    const { e164: to } = number();
    if (answer) {
      weir.provider.answers.set(to, answer);
      failing.push(to);
    }
    return weir.send({ channel: "voice", provider: "calls", to, class: "once" });
  };
  const { page, close } = await open("#/providers");
  const card = page.getByRole("region", { name: "calls", exact: true });
  await card.getByText("http · voice").waitFor();
  const route = page.getByRole("table", { name: "Routes, in the order in which they are asked" }).getByRole("row", { name: /^calls/ });
  await route.getByText("calls 70%").waitFor();
  // One after another, each a try once the breaker has opened: it is tried after ten seconds, and opens again for as long as somebody looks.
  let mended = false;
  t.after(() => (mended = true));
  const fails = (async () => {
    while (!mended) {
      const { id } = await call({ status: 500, body: { code: "E42" } });
      await poll("it fails, or the provider is mended", async () => mended || (await weir.call<{ status: string }>("GET", `/v1/messages/${id}`)).status === "failed");
    }
  })();
  await card.getByText("breaker open").waitFor();
  await card.getByText(/^Its lane stopped calling it: too many calls failed\. Its messages go elsewhere or wait; the next try is at \d\d:\d\d:\d\d\.$/).waitFor();
  await route.getByText("calls 0% not 70%").waitFor();
  await route.getByText("simulated 100% not 30%").waitFor();
  await card.getByRole("list", { name: "Errors of calls in the last hour" }).getByRole("listitem").filter({ hasText: /500.*[1-9]\d* ×/ }).waitFor();

  mended = true;
  await fails;
  for (const to of failing) weir.provider.answers.delete(to);
  const waiting = [await call(), await call(), await call()]; // pinned: they wait for the try
  for (const m of waiting) await weir.comesTo(m.id, "sent");
  await card.getByText("Calls are made, and it gets all of its weight.").waitFor();
  await route.getByText("calls 70%").waitFor();
  await close();
});

test("a pace is changed: what the server refuses is said, what it takes is in force", async () => {
  const { weir } = await world();
  const { page, close } = await open("#/providers");
  await page.getByRole("button", { name: "Change pace of calls" }).click();
  const dialog = page.getByRole("dialog", { name: "The pace of calls" });
  const pace = dialog.getByLabel("Calls at most");
  await pace.fill("0/1s");
  await dialog.getByRole("button", { name: "Show what changes" }).click();
  await dialog.getByRole("alert").waitFor();
  assert.equal(await pace.getAttribute("aria-invalid"), "true");
  await pace.fill("500/1s");
  await dialog.getByRole("button", { name: "Show what changes" }).click();
  await dialog.getByRole("table", { name: "What changes" }).getByRole("row", { name: /^pace .*500\/1s/ }).waitFor();
  assert.deepEqual((await weir.call<{ value: { pace?: string[] } }>("GET", "/v1/providers/calls")).value.pace ?? [], [], "nothing is saved yet");
  await dialog.getByRole("button", { name: "Save" }).click();
  await page.getByText(/^Saved\. Revision \d+ is in force\.$/).waitFor();
  await page.getByRole("region", { name: "calls", exact: true }).getByText("500 a second").waitFor();
  await close();
});

test("weights are changed", async () => {
  const { page, close } = await open("#/providers");
  await page.getByRole("button", { name: "Change weights of calls" }).click();
  const dialog = page.getByRole("dialog", { name: "The weights of calls" });
  await dialog.getByLabel("simulated").fill("70");
  await dialog.getByText("50% of its messages, while all are well").first().waitFor();
  await dialog.getByRole("button", { name: "Show what changes" }).click();
  await dialog.getByRole("table", { name: "What changes" }).waitFor();
  await dialog.getByRole("button", { name: "Save" }).click();
  await page.getByRole("row", { name: /^calls/ }).getByText(/simulated/).waitFor();
  await page.getByRole("row", { name: /^calls/ }).getByTitle("Weight 70: 50% by the policy").first().waitFor();
  await close();
});

test("alerts: who is told of what, and how often", async () => {
  const { page, close } = await open("#/alerts");
  const row = page.getByRole("table", { name: "Alerts in force" }).getByRole("row", { name: /^oncall/ });
  await row.getByText(/^webhook at 127\.0\.0\.1:\d+$/).waitFor();
  await row.getByText("a provider is no longer called").waitFor();
  await row.getByText("once an hour").waitFor();
  await page.getByText("weir alerts test oncall").waitFor();
  await close();
});

test("a trial that the server refuses says why, and counts as none", async () => {
  const { weir } = await world();
  let busy = true;
  const { page, close } = await open("#/limits/waits", {
    before: async (page) => {
      await page.route("**/v1/limits/try", (route) =>
        busy
          ? route.fulfill({ status: 503, headers: { "Content-Type": "application/problem+json", "Retry-After": "10" }, body: JSON.stringify({ type: "about:blank", title: "Busy", status: 503, code: "busy", detail: "Limits are being tried already, and one at a time they may be." }) })
          : route.continue(),
      );
    },
  });
  await page.getByRole("textbox", { name: "Windows", exact: true }).fill("2/1h");
  await page.getByRole("button", { name: "Try it" }).click();
  const done = page.getByRole("region", { name: "What it would have done" });
  await done.getByText("It could not be tried").waitFor();
  await done.getByText("Limits are being tried already, and one at a time they may be. Try again in 10 s.").waitFor();
  await page.getByRole("button", { name: "Save without trying" }).waitFor();
  busy = false;
  await done.getByRole("button", { name: "Try again" }).click();
  await done.getByText(/recorded message|No message was recorded/).first().waitFor();
  await page.getByRole("button", { name: "Save", exact: true }).waitFor();
  // Where somebody takes the limit away meanwhile, nothing is made of it again.
  await weir.call("DELETE", "/v1/limits/waits");
  await poll("it is gone", async () => (await fetch(`${weir.url}/v1/limits/waits`)).status === 404);
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByRole("alert").waitFor();
  assert.equal((await fetch(`${weir.url}/v1/limits/waits`)).status, 404);
  await close();
});
