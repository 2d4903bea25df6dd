import { expect, test } from "vitest";
import { find, link, parse } from "./router.ts";

test.each([
  ["", "home", ""],
  ["#/", "home", ""],
  ["#/limits", "limits", ""],
  ["#/recipients/%2B8613800000000", "recipients", "+8613800000000"],
  ["#/recipients/a%2Fb%40example.org", "recipients", "a/b@example.org"],
  ["#/recipients/a/b", "recipients", "a/b"],
  ["#/recipients/100%", "recipients", "100%"],
  ["#/home", "none", ""],
  ["#/constructor", "none", ""],
  ["#/nowhere/x", "none", "x"],
])("%s is view %s of %s", (hash, view, param) => {
  const r = parse(hash);
  expect([r.view, r.param]).toEqual([view, param]);
});

test("what link writes, parse reads", () => {
  for (const param of ["+86 138", "a/b?c#d&e=f", "名前@例え.jp", "https://example.org/x?y=1#z", "100%", "' OR 1=1 --", '<img src=x onerror="alert(1)">']) {
    const r = parse(link("recipients", param, { class: "a&b=c", none: undefined }));
    expect(r.view).toBe("recipients");
    expect(r.param).toBe(param);
    expect([...r.query]).toEqual([["class", "a&b=c"]]);
  }
});

test("an id is a message, all else a recipient", () => {
  expect(find(" 018F3C6A-0000-7000-8000-000000000001 ")).toBe("#/messages/018f3c6a-0000-7000-8000-000000000001");
  expect(find("+8613800000000")).toBe("#/recipients/%2B8613800000000");
  expect(find("   ")).toBe("#/");
});
