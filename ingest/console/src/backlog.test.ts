import { expect, test } from "vitest";
import type { Backlog, QueueBacklog } from "./api/operate.ts";
import { delays, many, moves, place, waits, worst } from "./backlog.ts";

const queue = (q: Partial<QueueBacklog>): QueueBacklog => ({ stage: "lanes", provider: "aliyun", queue: "normal", waiting: 0, ...q });
const backlog = (queues: QueueBacklog[], stalled: string[] = []): Backlog => ({ at: "2026-11-26T10:00:00Z", waiting: queues.reduce((n, q) => n + q.waiting, 0), queues, stalled });

test("a queue in words", () => {
  expect(place(queue({ queue: "urgent" }))).toBe("aliyun, urgent");
  expect(place({ stage: "admission", queue: "requests", waiting: 3 })).toBe("admission, requests");
  expect(many({ waiting: 410_000, at_most: true })).toBe("up to 410,000");
});

test.each([
  [{ waiting: 5 }, ""], // one look only
  [{ waiting: 5, per_minute: 0 }, "nothing moves"],
  [{ waiting: 0, per_minute: 0 }, ""],
  [{ waiting: 408_000, per_minute: 3400, drain_ms: 7_200_000 }, "3,400 a minute, empty in about 2 h"],
])("%o moves", (q, words) => expect(moves(queue(q))).toBe(words));

test("of a provider, and the worst", () => {
  const b = backlog([queue({ queue: "urgent", waiting: 2, oldest_at: "2026-11-26T09:59:00Z" }), queue({ waiting: 400, at_most: true, oldest_at: "2026-11-26T09:00:00Z" }), queue({ provider: "twilio", waiting: 7 })]);
  expect(waits(b, "aliyun")).toEqual({ waiting: 402, at_most: true, oldest: Date.parse("2026-11-26T09:00:00Z") });
  expect(waits(b, "unknown")).toEqual({ waiting: 0, at_most: false, oldest: undefined });
  expect(worst(b)?.waiting).toBe(400);
  expect(worst(backlog([queue({})]))).toBeUndefined();
});

test("what a new message meets", () => {
  expect(delays(backlog([queue({ waiting: 3, drain_ms: 9000 })]))).toBeUndefined();
  expect(delays(backlog([queue({ waiting: 30, drain_ms: 11_000 }), queue({ provider: "twilio", waiting: 900, drain_ms: 600_000 })]))).toBe("900 messages wait before it in twilio, normal: about 10 min.");
  expect(delays(backlog([queue({ waiting: 3 })], ["aliyun"]))).toMatch(/^aliyun is stalled/);
});
