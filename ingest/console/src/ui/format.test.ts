import { expect, test } from "vitest";
import { ago, compact, duration, number, ofInput, percent, plural, toInput } from "./format.ts";

test.each([
  [0, "0"],
  [999, "999"],
  [9_999, "9,999"],
  [12_345, "12.3k"],
  [999_949, "999.9k"],
  [999_950, "1M"],
  [1_234_567, "1.2M"],
  [2_500_000_000, "2.5B"],
])("compact %d", (n, text) => expect(compact(n)).toBe(text));

test.each([
  [0, "0%"],
  [1, "100%"],
  [0.5, "50%"],
  [0.9999, ">99.9%"],
  [0.0001, "<0.1%"],
  [0.987, "98.7%"],
  [NaN, "–"],
])("percent %d", (n, text) => expect(percent(n)).toBe(text));

test.each([
  [0, "0 ms"],
  [850, "850 ms"],
  [999.7, "1 s"],
  [1_500, "1.5 s"],
  [59_940, "59.9 s"],
  [59_960, "1 min"],
  [200_000, "3 min 20 s"],
  [7_200_000, "2 h"],
  [90_061_000, "1 d 1 h"],
  [-1_500, "-1.5 s"],
  [NaN, "–"],
])("duration %d", (n, text) => expect(duration(n)).toBe(text));

test.each([
  [0, "now"],
  [5_000, "5 s ago"],
  [180_000, "3 min ago"],
  [-7_200_000, "in 2 h"],
  [3 * 86_400_000, "3 d ago"],
])("ago %d", (d, text) => expect(ago(1e12 - d, 1e12)).toBe(text));

test("counts with nouns", () => {
  expect(plural(1, "message")).toBe("1 message");
  expect(plural(0, "message")).toBe("0 messages");
  expect(plural(2, "entry", "entries")).toBe("2 entries");
  expect(number(1234567)).toBe("1,234,567");
});

test("a time goes into an input and back, to the minute; what is none is empty", () => {
  const at = new Date(2026, 10, 2, 9, 5).getTime();
  expect(toInput(new Date(at + 59_999).toISOString())).toBe("2026-11-02T09:05");
  expect(Date.parse(ofInput("2026-11-02T09:05"))).toBe(at);
  for (const none of ["", "soon", "<b>"]) {
    expect(toInput(none)).toBe("");
    expect(ofInput(none)).toBe("");
  }
});
