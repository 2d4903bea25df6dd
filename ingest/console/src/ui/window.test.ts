import { expect, test } from "vitest";
import { span } from "./window.ts";

test.each([
  ["the top", 10_000, 0, { from: 0, until: 29 }],
  ["the middle", 10_000, 37 * 5_000, { from: 4_988, until: 5_029 }],
  ["the end", 10_000, 37 * 10_000, { from: 9_988, until: 10_000 }],
  ["past the end, as a bouncing phone scrolls", 100, 37 * 500, { from: 100, until: 100 }],
  ["above the top", 100, -80, { from: 0, until: 29 }],
  ["nothing", 0, 0, { from: 0, until: 0 }],
])("%s", (_, count, scrolled, want) => expect(span(count, 37, scrolled, 37 * 16)).toEqual(want));
