import { expect, test } from "vitest";
import { Seconds, byMinute, change, isFailure, isResult, latest, median, sumUp, usual } from "./overview.ts";

const counts = [
  { status: "queued", events: 100 },
  { status: "sending", events: 110 },
  { status: "sent", events: 80, p95_ms: 420 },
  { status: "delivered", events: 60 },
  { status: "failed", events: 10 },
  { status: "limited", events: 25 },
  { status: "duplicate", events: 1 },
  { status: "rejected", events: 4 },
];

test("an hour's counts", () => {
  expect(sumUp(counts)).toEqual({ ended: 120, sent: 80, lost: 14, limited: 25, delivered: 60, undelivered: 0, p95: 420, success: 80 / 90 });
  expect(sumUp([])).toEqual({ ended: 0, sent: 0, lost: 0, limited: 0, delivered: 0, undelivered: 0, p95: undefined, success: undefined });
});

test("quantiles of parts are not added up", () => {
  expect(sumUp([{ status: "sent", events: 1, p95_ms: 5 }, { status: "sent", events: 1, p95_ms: 9 }]).p95).toBeUndefined();
});

test.each([
  [[], undefined],
  [[3], 3],
  [[5, 1], 3],
  [[9, 1, 5], 5],
])("median of %j", (v, want) => expect(median(v)).toBe(want));

test("usual is of the days that had traffic", () => {
  const day = (sent: number) => ({ from: "", until: "", counts: sent ? [{ status: "sent", events: sent }] : [] });
  const u = usual([day(10), day(0), day(30), day(20)]);
  expect(u.days).toBe(3);
  expect(u.of((h) => h.sent)).toBe(20);
  expect(u.of((h) => h.p95)).toBeUndefined();
  expect(usual(undefined).days).toBe(0);
});

test("change", () => {
  expect(change(120, 100)).toBeCloseTo(0.2);
  expect(change(5, 0)).toBeUndefined();
  expect(change(5, undefined)).toBeUndefined();
});

test("the hour's failures are those of its line", () => {
  const at = new Date(Date.UTC(2026, 10, 22, 1)).toISOString();
  const s = { from: at, until: new Date(Date.UTC(2026, 10, 22, 1, 2)).toISOString(), limits: [], counts: ["failed", "unknown", "expired", "rejected", "undelivered", "cancelled", "limited"].map((status, i) => ({ at, status, events: 10 ** i })) };
  expect(byMinute(s, Date.UTC(2026, 10, 22, 2)).lost).toEqual([sumUp(s.counts).lost, 0]);
  expect(sumUp(s.counts).lost).toBe(1111);
});

test("lines by minute have zeros where nothing was, and no minute that is not over", () => {
  const at = (m: number) => new Date(Date.UTC(2026, 10, 22, 1, m)).toISOString();
  const s = {
    from: at(0),
    until: at(4),
    limits: [],
    counts: [
      { at: at(0), status: "sent", events: 5, p95_ms: 70 },
      { at: at(2), status: "failed", events: 2 },
      { at: at(2), status: "limited", events: 3 },
      { at: at(3), status: "sent", events: 9 },
    ],
  };
  const l = byMinute(s, Date.UTC(2026, 10, 22, 1, 3, 20));
  expect(l.times.length).toBe(3);
  expect(l.sent).toEqual([5, 0, 0]);
  expect(l.lost).toEqual([0, 0, 2]);
  expect(l.refused).toEqual([0, 0, 3]);
  expect(l.p95).toEqual([70, null, null]);
});

test("events a second, over whole seconds, through silence", () => {
  const s = new Seconds(60);
  const t = 1_800_000_000_000;
  for (let i = 0; i < 10; i++) s.add(100, t + i * 1000);
  expect(s.rate(5, t + 10_000)).toBe(100);
  expect(s.rate(10, t + 15_000)).toBe(50);
  expect(s.rate(10, t + 500_000)).toBe(0);
  s.add(7, t + 500_000);
  expect(s.rate(1, t + 501_000)).toBe(7);
});

test("the latest results are one a message, the newest first", () => {
  const e = (message_id: string, status: string) => ({ message_id, status });
  const first = latest([], [e("a", "queued"), e("a", "sent"), e("b", "failed")], isResult, 3);
  expect(first).toEqual([e("b", "failed"), e("a", "sent")]);
  expect(latest(first, [e("a", "delivered"), e("c", "limited"), e("d", "sending")], isResult, 3)).toEqual([e("c", "limited"), e("a", "delivered"), e("b", "failed")]);
  expect(latest(first, [e("d", "sending")], isResult, 3)).toBe(first);
  expect(latest([], [e("c", "limited"), e("b", "failed")], isFailure, 3)).toEqual([e("b", "failed")]);
});
