// What the overview makes of counts. Pure.

import type { Stats, StatsCount } from "./api/operate.ts";

/** ends are the statuses with which a message ends, once: receipts amend them later. */
const ends = new Set(["sent", "failed", "unknown", "limited", "suppressed", "expired", "cancelled", "rejected", "duplicate"]);
/** of those, the ones where a provider was to have it. */
const tried = new Set(["sent", "failed", "unknown", "expired"]);

export interface Hour {
  /** Messages that came to an end. */
  ended: number;
  sent: number;
  /** Failed, unknown, expired and rejected. */
  lost: number;
  /** By a limit. */
  limited: number;
  /** By receipts: 0 where its provider sends none. */
  delivered: number;
  undelivered: number;
  /** Milliseconds from acceptance to sent, of 95 %. */
  p95: number | undefined;
  /** sent of all that a provider was to have; undefined where there is none. */
  success: number | undefined;
}

export function sumUp(counts: readonly StatsCount[]): Hour {
  const of = (status: string) => counts.reduce((n, c) => (c.status === status ? n + c.events : n), 0);
  const sent = of("sent");
  const attempted = counts.reduce((n, c) => (tried.has(c.status) ? n + c.events : n), 0);
  const sentRows = counts.filter((c) => c.status === "sent");
  return {
    ended: counts.reduce((n, c) => (ends.has(c.status) ? n + c.events : n), 0),
    sent,
    lost: attempted - sent + of("rejected"),
    limited: of("limited"),
    delivered: of("delivered"),
    undelivered: of("undelivered"),
    p95: sentRows.length === 1 ? sentRows[0]?.p95_ms : undefined, // quantiles of parts do not add up
    success: attempted > 0 ? sent / attempted : undefined,
  };
}

export function median(values: readonly number[]): number | undefined {
  if (values.length === 0) return undefined;
  const v = [...values].sort((a, b) => a - b);
  const half = v.length >> 1;
  return v.length % 2 ? v[half] : ((v[half - 1] ?? 0) + (v[half] ?? 0)) / 2;
}

export interface Usual {
  /** Days with any message in this hour. */
  days: number;
  of: (pick: (h: Hour) => number | undefined) => number | undefined;
}

/** usual is the same hour of the days before: the median of those with traffic. */
export function usual(before: Stats["before"]): Usual {
  const hours = (before ?? []).filter((d) => d.counts.length > 0).map((d) => sumUp(d.counts));
  return { days: hours.length, of: (pick) => median(hours.map(pick).filter((v) => v !== undefined)) };
}

/** change is how much more a value is than usual: 0.2 is 20 % more. */
export function change(now: number, before: number | undefined): number | undefined {
  return before ? now / before - 1 : undefined;
}

export interface Lines {
  times: number[];
  sent: number[];
  refused: number[];
  lost: number[];
  p95: (number | null)[];
}

/**
 * byMinute makes lines of counts by minute, with 0 where nothing happened. The
 * last minute is left out while it is not over: it would look like a fall.
 */
export function byMinute(s: Stats, now: number): Lines {
  const from = Date.parse(s.from) / 60_000;
  const until = Math.min(Date.parse(s.until) / 60_000, Math.floor(now / 60_000));
  const n = Math.max(0, until - from);
  const zeros = () => new Array<number>(n).fill(0);
  const out: Lines = { times: Array.from({ length: n }, (_, i) => (from + i) * 60), sent: zeros(), refused: zeros(), lost: zeros(), p95: new Array<number | null>(n).fill(null) };
  for (const c of s.counts) {
    const i = Date.parse(c.at ?? "") / 60_000 - from;
    if (!(i >= 0 && i < n)) continue;
    if (c.status === "sent") {
      out.sent[i]! += c.events;
      out.p95[i] = c.p95_ms ?? null;
    } else if (c.status === "limited") out.refused[i]! += c.events;
    else if (tried.has(c.status) || c.status === "rejected") out.lost[i]! += c.events;
  }
  return out;
}

/** Seconds counts events of the last seconds, by second. It is written for every event and read once a second. */
export class Seconds {
  private readonly counts: number[];
  private last = 0;

  constructor(readonly span: number) {
    this.counts = new Array<number>(span).fill(0);
  }

  add(n: number, nowMs: number): void {
    this.move(nowMs);
    this.counts[this.last % this.span]! += n;
  }

  /** rate is events a second over the last whole seconds. */
  rate(seconds: number, nowMs: number): number {
    this.move(nowMs);
    let sum = 0;
    for (let i = 1; i <= seconds; i++) sum += this.counts[(this.last - i + this.span) % this.span] ?? 0;
    return sum / seconds;
  }

  private move(nowMs: number): void {
    const now = Math.floor(nowMs / 1000);
    if (now - this.last > this.span) this.counts.fill(0);
    else for (let s = this.last + 1; s <= now; s++) this.counts[s % this.span] = 0;
    this.last = Math.max(this.last, now);
  }
}

/** isResult is what a message came to: an end, or a receipt. */
export const isResult = (status: string): boolean => ends.has(status) || status === "delivered" || status === "undelivered";
/** isFailure is a result that nobody wanted. What a limit refuses is none: it did what it is for. */
export const isFailure = (status: string): boolean => status === "failed" || status === "undelivered" || status === "unknown" || status === "rejected" || status === "expired";

/** latest is the newest results, newest first, at most n, one a message. Of a flood it looks at the end only. */
export function latest<E extends { message_id?: string; status?: string }>(before: E[], events: readonly E[], which: (status: string) => boolean, n: number): E[] {
  const out: E[] = [];
  const has = (e: E) => out.some((o) => o.message_id === e.message_id);
  for (let i = events.length - 1; i >= 0 && out.length < n; i--) {
    const e = events[i]!;
    if (which(e.status ?? "") && !has(e)) out.push(e);
  }
  if (out.length === 0) return before;
  for (const e of before) if (out.length < n && !has(e)) out.push(e);
  return out;
}
