// Minutes of traffic for the pictures: several channels, classes and limits, and
// providers that fail.

import type { Weir } from "./weir.ts";

export async function traffic(weir: Weir, minutes: number): Promise<void> {
  await weir.call("PUT", "/v1/providers/simulated", { type: "simulated", channels: ["sms", "voice", "email", "webhook"], pace: ["200/1s"], settings: { latency: "20ms-180ms" } });
  await weir.call("PUT", "/v1/limits/tenant-hour", { per: ["tenant"], allow: ["100000/1h"] });
  const until = Date.now() + minutes * 60_000;
  for (let i = 0; Date.now() < until; i++) {
    await weir.batch(second(weir, i, minutes * 60));
    await new Promise((r) => setTimeout(r, 1000));
  }
}

/** second is the traffic of a second: codes and notices in waves, a campaign in the middle that runs into its limit, some minutes later a provider that fails now and then. */
function second(weir: Weir, i: number, all: number): Record<string, unknown>[] {
  const wave = 14 + Math.round(7 * Math.sin(i / 55) + 4 * Math.sin(i / 17));
  const sms = (tail: number) => ({ to: `+8613900${String(tail % 900).padStart(6, "0")}` });
  const out: Record<string, unknown>[] = Array.from({ length: wave }, (_, j) => ({ ...sms(i * 37 + j * 101), class: ["verify", "once", "notice", "watched", "once"][(i + j) % 5] }));
  if (i > all * 0.35 && i < all * 0.6) for (let j = 0; j < 18; j++) out.push({ ...sms(i * 53 + j * 29), class: "promo" });
  for (let j = 0; j < 3; j++) out.push({ channel: "email", to: `reader-${(i * 7 + j) % 400}@example.com`, class: "notice", subject: "Hello" });
  if (i % 2) out.push({ channel: "voice", to: `+8613700${String((i * 17) % 700).padStart(6, "0")}`, class: "once" });
  const token = `device-${(i * 11) % 300}`;
  const failing = i > all * 0.7 && i < all * 0.8;
  weir.provider.answers.set(token, failing && i % 3 ? { status: 503, body: { error: "overloaded" } } : { status: 200, body: { id: `push-${i}` } });
  out.push({ channel: "push", to: token, class: "notice", title: "Hello" });
  // Recipients that mean something to the simulated provider: refused for good, not now, with receipts, once in vain.
  const odd = ["+15005550001", "+15005550005", "+15005550008", "+15005550011", "+15005550010", "+15005550013"];
  if (i % (failing ? 2 : 7) === 0) out.push({ to: odd[i % odd.length], class: "once" });
  return out;
}
