import { expect, test } from "vitest";
import { comment, read, sentence } from "./retry-after.ts";
import file from "./retry-after.vectors.json";

const now = Date.parse(file.now);

test.each(file.vectors as { value: string; kind?: string; wait?: number; at?: string; note?: string; error?: string }[])("$value", (v) => {
  const r = read(v.value, now);
  if (v.error) expect(r).toBe(v.error);
  else expect(r).toEqual({ kind: v.kind, wait: v.wait, at: Date.parse(v.at!), ...(v.note ? { note: v.note } : {}) });
});

test("sentences", () => {
  const say = (v: string) => {
    const r = read(v, now);
    return typeof r === "string" ? r : sentence(r);
  };
  expect(say("1")).toBe("The server asks you to wait 1 second from the moment its answer came.");
  expect(say("5400")).toBe("The server asks you to wait 5,400 seconds (1 h 30 min) from the moment its answer came.");
  expect(say("0")).toBe("The server lets you try again at once.");
  expect(say("Sun, 22 Nov 2026 01:05:00 GMT")).toBe("The server asks you to wait until 2026-11-22 01:05:00 UTC, which is in 300 seconds (5 min).");
  expect(say("Sun, 22 Nov 2026 00:59:00 GMT")).toMatch(/has passed: try again/);
});

test("a comment names the value and no moment of today where the value has none", () => {
  const r = read("Retry-After: 120", now);
  if (typeof r === "string") throw new Error(r);
  expect(comment("Retry-After: 120", r)).toMatch(/^\/\/ Retry-After: 120: wait 120 seconds \(2 min\) after this answer/);
  expect(comment("Retry-After: 120", r)).not.toMatch(/\d\d:\d\d/);
});
