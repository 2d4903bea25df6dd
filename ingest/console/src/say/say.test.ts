import { describe, expect, test } from "vitest";
import { add, nothing } from "../api/redrive.ts";
import { append, renew } from "../api/pages.ts";
import { oftenWords, toWords, whenWords } from "./alert.ts";
import { differences, fromFields, fromText, limitWords, matchWords, perWords, toFields, toText, valueWords } from "./limit.ts";
import { sumUp } from "./revision.ts";
import { type Evidence, type LimitState, type Message, again, answer, canCancel, canRetry, countdown, covers, evidenceWords, leftWords, next, scopeWords, short, suppressionWords, why } from "./why.ts";
import { parseWindow, windowWords } from "./window.ts";
import { local } from "../ui/format.ts";

const now = Date.parse("2026-11-22T06:02:30.000Z");
const at = (ms: number) => new Date(now + ms).toISOString();
const clock = (ms: number) => local(now + ms, now);

describe("windows", () => {
  test.each([
    ["1/60s", "1 per 60 s"],
    ["5/1h", "5 per hour"],
    ["3/1h30m", "3 per 1 h 30 min"],
    ["1000/1ms", "1,000 per 1 ms"],
    ["10/calendar-day", "10 per calendar day"],
    ["bucket 10 refill 0.5/s", "a burst of 10, then 0.5 per s"],
    ["bucket 10 refill 3/5m", "a burst of 10, then 3 per 5 min"],
    ["what is this", "what is this"],
    ["5/calendar-week", "5/calendar-week"],
    ["", ""],
  ])("%s is %s", (text, words) => expect(windowWords(text)).toBe(words));
  test("a length in ms", () => expect(parseWindow("1/1d2h3m4s5ms")).toMatchObject({ ms: 86_400_000 + 7_200_000 + 180_000 + 4000 + 5 }));
});

describe("evidence", () => {
  const e = (over: Partial<Evidence>): Evidence => ({ limit: "verify", scope: "recipient=+8613800000000,class=verify", window: "1/60s", n: 1, count: 1, cost: 1, oldest: at(-20_000), ...over });
  test("one place", () => expect(evidenceWords(e({}), now)).toBe(`limit verify allows 1 per 60 s for this recipient and class verify; the place of ${clock(-20_000)} stands until ${clock(40_000)}`));
  test("several", () => expect(evidenceWords(e({ window: "5/1h", n: 5, count: 5 }), now)).toContain(`5 stood in it, and the oldest, of ${clock(-20_000)} stands until ${clock(3_580_000)}`));
  test("a calendar day", () => expect(evidenceWords(e({ window: "10/calendar-day", n: 10, count: 10, start: at(-3_600_000) }), now)).toContain(`10 were taken since ${clock(-3_600_000)}`));
  test("a bucket", () => expect(evidenceWords(e({ window: "bucket 10 refill 1/s", n: 10, count: 10 }), now)).toContain("the bucket had 0 left"));
  test("more than it ever holds", () => expect(evidenceWords(e({ cost: 3 }), now)).toContain("this message alone takes 3, so it can never pass"));
  test.each([
    ["", "everybody"],
    ["recipient=+86138", "this recipient"],
    ["mailbox=ann@gmail.com,class=x", "this mailbox and class x"],
    ["tenant=acme,country=CN", "tenant acme and country CN"],
    ["recipient=a,b@example.com,class=x", "this recipient and class x"],
    ["metadata.ip=10.0.0.1", "ip 10.0.0.1"],
    ["prefix:4=8613", "prefix 8613"],
  ])("scope %s", (scope, words) => expect(scopeWords(scope)).toBe(words));
});

test("what a provider says from right to left stands by itself", () => {
  expect(answer({ error_code: "E1", error: "no" })).toBe("E1: no");
  expect(answer({ error: "\u05e9\u05dc\u05d5\u05dd" })).toBe("\u2068\u05e9\u05dc\u05d5\u05dd\u2069");
  expect(answer({ error_code: "E1", error: "\u202eon" })).toBe("\u2068E1: \u202eon\u2069");
});

describe("why", () => {
  const m = (over: Partial<Message>): Message => ({ id: "x", status: "sent", timeline: [], ...over }) as Message;
  test("refused, with evidence, and when the next may go", () => {
    const decision = { verdict: "refuse", partition: 4, seq: 3, t: at(0), revision: 1, evidence: [{ limit: "verify", scope: "recipient=x", window: "1/60s", n: 1, count: 1, cost: 1, oldest: at(-20_000) }] };
    const said = why(m({ status: "limited", retry_at: at(40_000), timeline: [{ kind: "status", status: "limited", at: at(0), decision } as never] }), now);
    expect(said).toBe(`Refused: limit verify allows 1 per 60 s for this recipient; the place of ${clock(-20_000)} stands until ${clock(40_000)}. The next may go at ${clock(40_000)}, in 40 s.`);
  });
  test.each<[Partial<Message>, string]>([
    [{ status: "limited", limit: "verify", window: "5/1h" }, "Refused: limit verify allows 5 per hour."],
    [{ status: "failed", reason: "permanent", attempt: 1, provider: "p", error_code: "E1", error: "no" }, "The provider refused it for good: p said E1: no. It was tried once."],
    [{ status: "failed", reason: "attempts_exhausted", attempt: 4 }, "All attempts were used up. It was tried 4 times."],
    [{ status: "sent", provider: "p", attempt: 3 }, "p took it at attempt 3."],
    [{ status: "sent", provider: "p", observed: true, limit: "w" }, "p took it. Limit w only observes; enforced, it would have refused it."],
    [{ status: "deferred", reason: "quiet_hours" }, "Waiting: its class is quiet at this hour."],
    [{ status: "rejected", error: "a variable is missing" }, "The request cannot be carried out: a variable is missing."],
  ])("%j", (of, words) => expect(why(m(of), now)).toBe(words));
  test("every status has a sentence", () => {
    for (const status of ["accepted", "scheduled", "deferred", "queued", "sending", "retrying", "sent", "delivered", "undelivered", "failed", "unknown", "limited", "suppressed", "expired", "cancelled", "rejected", "duplicate"]) expect(why(m({ status: status as never }), now).length, status).toBeGreaterThan(8);
  });
  test("when again", () => {
    expect(again(at(-1000), now)).toBe(`One may go since ${clock(-1000)}.`);
    expect(again(undefined, now)).toBe("");
    expect(countdown(400)).toBe("1 s");
    expect(countdown(59_400)).toBe("1 min");
  });
  test("what can be done", () => {
    expect(["accepted", "scheduled", "deferred", "queued", "retrying", "sent", "limited"].filter(canCancel)).toEqual(["accepted", "scheduled", "deferred", "queued", "retrying"]);
    expect(["limited", "failed", "expired", "sent", "suppressed"].filter(canRetry)).toEqual(["limited", "failed", "expired"]);
  });
  test("a row", () => {
    expect(short(m({ limit: "v", window: "1/60s" }))).toBe("limit v, 1 per 60 s");
    expect(short(m({ error_code: "E", error: "x", reason: "permanent" }))).toBe("E: x");
    expect(short(m({ reason: "no_usable_provider" }))).toBe("No provider is usable now");
    expect(short(m({ reason: "some_new_reason" }))).toBe("Some new reason");
  });
});

describe("what is left", () => {
  const l = (over: Partial<LimitState>): LimitState => ({ limit: "v", window: "5/1h", n: 5, remaining: 3, reset: at(90_000), ...over });
  test.each<[Partial<LimitState>, string]>([
    [{}, `3 of 5 left, one more at ${clock(90_000)}`],
    [{ remaining: 5 }, "5 of 5 left"],
    [{ window: "5/calendar-day" }, `3 of 5 left, all again at ${local(now + 90_000, now, false)}`],
    [{ reset: undefined }, "3 of 5 left"],
  ])("%j", (of, words) => expect(leftWords(l(of), now)).toBe(words));
  test("the next may go when the last full window opens", () => {
    expect(next([l({}), l({ remaining: 0, limit: "a" }), l({ remaining: 0, limit: "b", reset: at(200_000) })], now)).toMatchObject({ at: now + 200_000, limit: { limit: "b" } });
    expect(next([l({})], now)).toBeUndefined();
    expect(next([l({ remaining: 0, reset: at(-1) })], now)).toBeUndefined();
  });
  test("an opt-out covers what it names", () => {
    expect(covers({ at: at(0) }, "sms", "x")).toBe(true);
    expect(covers({ at: at(0), channel: "email" }, "sms", "x")).toBe(false);
    expect(covers({ at: at(0), class: "x" }, "sms", "x")).toBe(true);
    expect(suppressionWords({ at: at(0), class: "x", tenant: "t" }, now)).toBe(`opted out of class x at ${clock(0)}`);
    expect(suppressionWords({ at: at(0), channel: "sms", tenant: "t", expires_at: at(60_000), reason: "stop" }, now)).toBe(`opted out of sms messages at ${clock(0)}, until ${clock(60_000)} (stop)`);
    expect(suppressionWords({ at: null }, now)).toBe("opted out of everything, of every tenant");
  });
});

describe("a limit as a form and as text", () => {
  const l = { name: "v", match: { class: ["a", "b"], country: ["CN"] }, per: ["recipient"], allow: ["1/60s"], timezone: "Asia/Shanghai", overrides: [{ to: "+8613800000000", allow: ["3/60s"] }] };
  test("comes back as it was", () => {
    expect(fromFields(toFields(l), l)).toEqual(l);
    expect(fromText(toText(l))).toEqual(l);
  });
  test("what is a default is left out, and so is what was emptied", () => {
    const f = { ...toFields({ ...l, mode: "observe", exempt: ["+8613900000000"] }), mode: "enforce", exempt: "", timezone: " ", match: "" };
    expect(fromFields(f, { ...l, mode: "observe", exempt: ["x"] })).toEqual({ name: "v", per: ["recipient"], allow: ["1/60s"], overrides: l.overrides });
  });
  test("wrong text says so", () => {
    expect(() => fromText("{")).toThrow(/no JSON/);
    expect(() => fromText("[]")).toThrow(/object/);
  });
  test("words", () => {
    expect(limitWords(l)).toBe("Class a or b, country CN: 1 per 60 s, for each recipient.");
    expect(perWords([])).toBe("all messages together");
    expect(perWords(["prefix:4", "metadata.ip"])).toBe("each prefix of 4 digits and ip");
    expect(matchWords({})).toBe("every message");
    expect(valueWords([{ a: 1 }])).toBe("a 1");
    expect(valueWords([{ provider: "a", weight: 70 }, { provider: "b" }])).toBe("a 70; b 1");
    expect(valueWords(undefined)).toBe("nothing");
  });
  test("differences", () => {
    expect(differences(l, l)).toEqual([]);
    expect(differences({ match: { class: "a" } }, { match: { class: ["a"] } })).toEqual([]); // one value, written in two ways
    expect(differences(l, { ...l, allow: ["2/60s"], match: { class: ["a"] }, mode: "observe" })).toEqual([
      { field: "match.class", old: ["a", "b"], new: ["a"] },
      { field: "match.country", old: ["CN"] },
      { field: "allow", old: ["1/60s"], new: ["2/60s"] },
      { field: "mode", new: "observe" },
    ]);
  });
});

describe("pages", () => {
  const key = (r: { id: number; v?: string }) => String(r.id);
  const rows = (...ids: number[]) => ids.map((id) => ({ id }));
  const more = (...ids: number[]) => ({ rows: rows(...ids), next: "old", further: true });
  test.each([
    ["new ones are in front, known ones in their new state", { rows: [{ id: 3 }, { id: 2, v: "new" }], next: "fresh" }, more(2, 1), { rows: [{ id: 3 }, { id: 2, v: "new" }, { id: 1 }], next: "old" }],
    ["what it should have and has not is gone", { rows: rows(5, 3), next: "fresh" }, more(5, 4, 3, 2), { rows: rows(5, 3, 2), next: "old" }],
    ["of one page nothing stays but what it has", { rows: rows(5, 3), next: "fresh" }, { ...more(5, 4, 3), further: false }, { rows: rows(5, 3), next: "fresh" }],
    ["a page that is all there is replaces all", { rows: rows(3), next: undefined }, more(5, 4, 3), { rows: rows(3), next: undefined }],
    ["what memory alone has takes nothing away", { rows: rows(6, 3), next: undefined, partial: true }, more(5, 4, 3), { rows: rows(6, 3, 5, 4), next: "old", partial: true }],
    ["only new ones: what was there stays", { rows: rows(9, 8), next: "fresh" }, more(3, 2), { rows: rows(9, 8, 3, 2), next: "old" }],
  ])("a first page is asked for again: %s", (_, fresh, have, want) => expect(renew(fresh, have, key)).toMatchObject(want));
  test("a further page brings no row twice", () => expect(append([{ id: 3 }, { id: 2 }], [{ id: 2 }, { id: 1 }], key)).toEqual([{ id: 3 }, { id: 2 }, { id: 1 }]));
  test("a redrive's calls are summed", () => {
    const part = { matched: 3, redriven: 2, skipped: { gone: 1 }, by_reason: { permanent: 2 }, may_be_received: 1, dry_run: false };
    expect(add(add(nothing, { ...part, cursor: "c" }), part)).toEqual({ matched: 6, redriven: 4, skipped: { gone: 2 }, by_reason: { permanent: 4 }, may_be_received: 2, going: false });
  });
});

describe("alerts", () => {
  test.each([
    [{ type: "slack", url: "${SLACK_WEBHOOK_URL}" }, "Slack, ${SLACK_WEBHOOK_URL}"],
    [{ type: "slack", url: "https://hooks.slack.com/services/T0/B0/secret" }, "Slack at hooks.slack.com"],
    [{ type: "webhook", url: "file:/run/url" }, "webhook, file:/run/url"],
    [{ type: "webhook", url: "${HOST}/path?token=secret" }, "webhook"],
    [{ type: "email", address: "ops@example.com", provider: "mail" }, "mail to ops@example.com by mail"],
  ] as const)("of a secret address only the host is shown: %j", (to, words) => expect(toWords(to)).toBe(words));
  test("what and how often", () => {
    expect(whenWords("breaker.open")).toBe("a provider is no longer called");
    expect(whenWords("something.new")).toBe("something.new");
    expect(oftenWords("1/10m")).toBe("once in 10 min");
    expect(oftenWords(undefined)).toBe("once in 10 min");
    expect(oftenWords("5/1h")).toBe("5 an hour");
  });
});

test("a revision in lines: what was made together, and each change by itself", () => {
  const made = (kind: string, ...names: string[]) => names.map((name) => ({ op: "add" as const, kind, name }));
  expect(
    sumUp([
      ...made("limit", "verify", "promo"),
      { op: "change", kind: "limit", name: "waits", fields: [{ field: "allow", old: ["1/1h"], new: ["2/1h"] }] },
      ...made("class", ..."abcdefghij"),
      { op: "remove", kind: "limit", name: "old" },
    ] as Parameters<typeof sumUp>[0]),
  ).toEqual([
    { words: "limits verify, promo made" },
    { words: "limit waits changed", fields: "allow 1/1h → 2/1h" },
    { words: "classes a, b, c, d, e, f, g, h and 2 more made" },
    { words: "limit old removed" },
  ]);
});
