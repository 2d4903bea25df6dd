import { afterEach, expect, test, vi } from "vitest";
import { ApiError, address, request, whyNot } from "./client.ts";

afterEach(() => vi.unstubAllGlobals());
const answer = (r: () => Response | Promise<Response>) => vi.stubGlobal("fetch", () => Promise.resolve().then(r));

test("addresses are filled and escaped; what is empty is left out", () => {
  expect(address("/v1/limits/{name}", { name: "a/b?c" }, { x: "1&2", none: undefined, empty: "", list: ["a", "b"], zero: 0 })).toBe("/v1/limits/a%2Fb%3Fc?x=1%262&list=a%2Cb&zero=0");
});

test("a problem keeps its code, its words and when to try again", async () => {
  answer(() => new Response('{"code":"forbidden_scope","detail":"The key has no scope policy."}', { status: 403, headers: { "Content-Type": "application/problem+json" } }));
  const err = await request("get", "/v1/limits").catch((e: unknown) => e);
  expect(err).toBeInstanceOf(ApiError);
  expect(err).toMatchObject({ status: 403, code: "forbidden_scope", message: "The key has no scope policy." });
  answer(() => new Response('{"detail":"Later."}', { status: 503, headers: { "Content-Type": "application/problem+json", "Retry-After": "3" } }));
  expect(whyNot(await request("get", "/x").catch((e: unknown) => e))).toBe("Later. Try again in 3 s.");
});

test.each([
  ["no network", () => Promise.reject(new TypeError("fetch failed")), /does not answer/],
  ["a proxy's page", () => new Response("<html>", { status: 502, headers: { "Content-Type": "text/html" } }), /answered 502/],
  ["torn JSON", () => new Response('{"a":', { headers: { "Content-Type": "application/json" } }), /no JSON/],
])("%s is said in words", async (_, r, words) => {
  answer(r);
  expect(whyNot(await request("get", "/x").catch((e: unknown) => e))).toMatch(words);
});

test("a call that was taken back throws its own reason", async () => {
  const ctl = new AbortController();
  answer(() => {
    ctl.abort(new Error("gone"));
    throw new DOMException("aborted", "AbortError");
  });
  await expect(request("get", "/x", undefined, {}, ctl.signal)).rejects.toThrow("gone");
});

test("a 401 says that the session is over, but not while signing in", async () => {
  const said: string[] = [];
  vi.stubGlobal("dispatchEvent", (e: Event) => said.push(e.type));
  answer(() => new Response("{}", { status: 401 }));
  await request("post", "/v1/session").catch(() => {});
  expect(said).toEqual([]);
  await request("get", "/v1/stats").catch(() => {});
  expect(said).toEqual(["weir:signed-out"]);
});
