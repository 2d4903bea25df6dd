import { expect, test } from "vitest";
import file from "../testdata/retry-after.json";
import { explain, sentence, span } from "./retry-after.ts";

const now = Date.parse(file.now);

interface Case {
  name: string;
  value: string;
  form?: string;
  seconds?: number;
  at?: string;
  comment?: string;
  note?: string;
  error?: string;
}

test.each(file.cases as Case[])("$name", ({ name: _, value, at, ...want }) => {
  const { at: got, ...rest } = { at: undefined, ...explain(value, now) };
  expect(rest).toEqual(want);
  expect(got).toBe(at === undefined ? undefined : Date.parse(at));
});

test("an answer that came within a second is waited for to its end", () => {
  const e = explain("Sun, 22 Nov 2026 01:02:00 GMT", now + 500);
  expect(e).toMatchObject({ seconds: 120 });
});

test.each([
  [0, "0 seconds"],
  [59, "59 seconds"],
  [3601, "1 hour"],
  [5400, "1 hour 30 minutes"],
])("%d s", (n, want) => expect(span(n)).toBe(want));

test("sentences", () => {
  const say = (v: string) => {
    const e = explain(v, now);
    return "error" in e ? e.error : sentence(e);
  };
  expect(say("90")).toBe("Wait 1 minute 30 seconds from the moment the answer came.");
  expect(say("Sun, 22 Nov 2026 01:05:00 GMT")).toBe("Do not try again before 2026-11-22 01:05:00 UTC, in 5 minutes.");
  expect(say("Sun, 22 Nov 2026 00:59:00 GMT")).toBe("Try again at once: the time has passed.");
});
