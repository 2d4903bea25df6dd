import { expect, test } from "vitest";
import type { Proof, Report } from "./api/operate.ts";
import { auditWords, ranges, sinkWords } from "./proof.ts";

const now = Date.parse("2026-11-22T12:00:00Z");
const audit = (a: Partial<NonNullable<Report["audit"]>>, at = "2026-11-22T11:00:00Z"): Report => ({ at, by: "ops@host", audit: { outcome: "proven", from: null, until: null, partitions: 8, decisions: 1000, messages: 900, open: 0, violations: 0, took_ms: 10, ...a } });

test.each([
  ["never", null, "mute", /nothing is proven/],
  ["proven today", audit({}), "ok", /^Each of 1,000 decisions was right.*room for\.$/],
  ["proven three days ago", audit({}, "2026-11-19T11:00:00Z"), "ok", /3 d ago: what was decided since is not covered/],
  ["proven a month ago is no comfort", audit({}, "2026-10-19T11:00:00Z"), "warn", /not covered/],
  ["proven seconds ago, and goes on", audit({ following: true, cut: "2026-11-22T11:59:57Z" }), "ok", /until 3 s ago is judged, and the audit goes on/],
  ["followed, and stopped", audit({ following: true, cut: "2026-11-22T11:54:00Z" }), "warn", /has judged nothing since 6 min ago/],
  ["one violation", audit({ outcome: "violated", violations: 1 }), "bad", /^1 decision of 1,000 was wrong/],
  ["could not tell", audit({ outcome: "could_not_tell" }), "warn", /no proof either/],
])("audit %s", (_, r, tone, words) => {
  const w = auditWords(r, now);
  expect([w.tone, w.words]).toEqual([tone, expect.stringMatching(words)]);
});

const sink = (s: Partial<NonNullable<Report["sink"]>>, at = "2026-11-22T11:59:50Z"): Report => ({ at, by: "0", sink: { partitions: [0], rows: 5, lag_ms: 0, difference: 0, checked_at: "2026-11-22T11:59:00Z", ...s } });
const of = (...sinks: Report[]): Proof => ({ audit: null, sinks, status_lag_ms: 0, stuck: [], unknown: [], difference: sinks.reduce((n, s) => n + (s.sink?.difference ?? 0), 0) });

test.each([
  ["none", of(), "mute", /No sink/],
  ["well", of(sink({})), "ok", /compared, 1 min ago.*exactly one row/],
  ["a difference beats all", of(sink({ difference: 3, failing: "x" })), "bad", /differ by 3 records/],
  ["failing", of(sink({}), sink({ failing: "connection refused" })), "bad", /^1 sink cannot load/],
  ["silent", of(sink({}, "2026-11-22T11:00:00Z")), "warn", /no word about now/],
  ["not compared", of(sink({}), sink({ checked_at: undefined })), "mute", /have not all compared/],
])("sinks %s", (_, p, tone, words) => {
  const w = sinkWords(p, now);
  expect([w.tone, w.words]).toEqual([tone, expect.stringMatching(words)]);
});

test.each([
  [[], ""],
  [[3], "3"],
  [[2, 0, 1, 5, 7, 6], "0–2, 5–7"],
  [[9, 10, 11, 1], "1, 9–11"],
])("partitions %j are %s", (partitions, words) => expect(ranges(partitions)).toBe(words));
