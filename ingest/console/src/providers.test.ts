import { expect, test } from "vitest";
import type { Lane, ProviderHealth } from "./api/operate.ts";
import { callsWords, paceWords, parts, standing } from "./providers.ts";

const now = Date.parse("2026-11-22T01:00:00Z");
const lane = (l: Partial<Lane>): Lane => ({ lane: 0, breaker: "closed", calls: 0, failures: 0, refused: 0, at: "2026-11-22T00:59:50Z", ...l });
const provider = (lanes: Lane[], p: Partial<ProviderHealth> = {}): ProviderHealth => ({ name: "a", type: "http", channels: ["sms"], pace: [], smooth: false, concurrency: 64, share: 1, lanes, ...p });

test.each([
  ["well", provider([lane({ calls: 10 })]), "ok", /all of its weight/],
  ["quiet", provider([lane({ at: "2026-11-22T00:00:00Z" })]), "ok", /when there are messages/],
  ["never called", provider([]), "mute", /No lane/],
  ["only decides", provider([], { type: "none" }), "mute", /only decides/],
  ["some calls fail", provider([lane({ calls: 10, failures: 4 })], { share: 0.6 }), "warn", /40% of them fail, it gets 60%/],
  ["probing", provider([lane({}), lane({ breaker: "half_open" })]), "warn", /^1 of 2 lanes/],
  ["open", provider([lane({ breaker: "open", probe_at: "2026-11-22T00:59:00Z" })]), "bad", /^Its lane stopped.*next call is a try/],
  ["open, one of two, beats half open", provider([lane({ breaker: "open" }), lane({ breaker: "half_open" })]), "bad", /^1 of 2 lanes stopped.*tried again soon/],
])("%s", (_, p, tone, words) => {
  const s = standing(p, now);
  expect(s.tone).toBe(tone);
  expect(s.words).toMatch(words);
});

test("stalled beats well, and not an open breaker or a silence", () => {
  expect(standing(provider([lane({ calls: 10 })]), now, true).state).toBe("stalled");
  expect(standing(provider([]), now, true).state).toBe("stalled");
  expect(standing(provider([lane({ breaker: "open" })]), now, true).state).toBe("breaker open");
  expect(standing(provider([lane({ silent_until: "2026-11-22T01:00:30Z" })]), now, true).state).toBe("well");
});

test.each([
  ["none", {}, "no calls"],
  ["well", { calls: 10 }, "10 calls, all accepted"],
  ["refused for good", { calls: 10, refused: 10 }, "10 calls, 10 refused (100%)"],
  ["both", { calls: 10, refused: 1, failures: 2 }, "10 calls, 1 refused (10%), 2 failed (20%)"],
])("calls: %s", (_, l, words) => expect(callsWords(standing(provider([lane(l)]), now))).toBe(words));

test.each([
  ["5/1s", "5 a second"],
  ["2000/60s", "2,000 a minute"],
  ["5000/1h30m", "5,000 in 1 h 30 min"],
  ["3/500ms", "3 in 500 ms"],
])("pace %s", (w, words) => expect(paceWords(w)).toBe(words));

test("a route's parts, as meant and now", () => {
  const got = parts([{ provider: "a", weight: 70 }, { provider: "b", weight: 30 }], (p) => (p === "a" ? 0 : 1));
  expect(got.map((p) => [p.meant, p.now])).toEqual([[0.7, 0], [0.3, 1]]);
  expect(parts([{ provider: "a" }, { provider: "b" }], () => 0).map((p) => p.now)).toEqual([0, 0]);
});
