// What waits to be worked on, in words. Pure.

import type { Backlog, QueueBacklog } from "./api/operate.ts";
import { duration, number } from "./ui/format.ts";

/** place names a queue: "aliyun, urgent", "admission, requests". */
export const place = (q: QueueBacklog): string => `${q.provider ?? q.stage}, ${q.queue}`;

/** many writes how many wait: "up to 410,000" where Kafka's offsets were counted. */
export const many = (of: { waiting: number; at_most?: boolean }): string => `${of.at_most ? "up to " : ""}${number(of.waiting)}`;

/** moves says how fast a queue is worked off, and until when: "3,400 a minute, empty in about 2 h". */
export function moves(q: QueueBacklog): string {
  if (q.per_minute === undefined) return "";
  if (q.drain_ms === undefined) return q.waiting > 0 ? "nothing moves" : "";
  return `${number(q.per_minute)} a minute, empty in about ${duration(q.drain_ms)}`;
}

/** worst is the queue with the most messages. */
export function worst(b: Backlog): QueueBacklog | undefined {
  return b.queues.reduce<QueueBacklog | undefined>((w, q) => (q.waiting > (w?.waiting ?? 0) ? q : w), undefined);
}

/** waits is how many wait for one provider, and since when. */
export function waits(b: Backlog, provider: string): { waiting: number; at_most: boolean; oldest: number | undefined } {
  const of = b.queues.filter((q) => q.provider === provider);
  const times = of.map((q) => Date.parse(q.oldest_at ?? "")).filter(Number.isFinite);
  return { waiting: of.reduce((n, q) => n + q.waiting, 0), at_most: of.some((q) => q.at_most), oldest: times.length > 0 ? Math.min(...times) : undefined };
}

/** A delay below this is not worth a word. */
const worth = 10_000;

/** delays says what a new message would meet now, at the slowest provider; undefined where none waits long. */
export function delays(b: Backlog): string | undefined {
  if (b.stalled.length > 0) return `${b.stalled.join(" and ")} ${b.stalled.length > 1 ? "are" : "is"} stalled: messages for ${b.stalled.length > 1 ? "them" : "it"} wait and no call is made.`;
  const slow = b.queues.reduce<QueueBacklog | undefined>((s, q) => ((q.drain_ms ?? 0) > (s?.drain_ms ?? worth) ? q : s), undefined);
  return slow && `${many(slow)} messages wait before it in ${place(slow)}: about ${duration(slow.drain_ms ?? 0)}.`;
}
