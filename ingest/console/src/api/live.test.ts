// The stream against a server that is a function. Time and frames are fakes.

import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { follow, silence, wait } from "./live.ts";
import type { Event } from "./live.ts";

interface Call {
  url: string;
  lastId: string | null;
  send: (text: string) => void;
  end: () => void;
}

let calls: Call[];
let answers: ((call: Call, body: ReadableStream<Uint8Array>) => Response)[];
let frames: (() => void)[];
let page: EventTarget & { hidden: boolean };

beforeEach(() => {
  vi.useFakeTimers();
  calls = [];
  answers = [];
  frames = [];
  page = Object.assign(new EventTarget(), { hidden: false });
  vi.stubGlobal("document", page);
  vi.stubGlobal("requestAnimationFrame", (f: () => void) => frames.push(f));
  vi.stubGlobal("cancelAnimationFrame", () => {});
  vi.stubGlobal("fetch", (url: string, init: RequestInit) => {
    let ctl!: ReadableStreamDefaultController<Uint8Array>;
    const body = new ReadableStream<Uint8Array>({ start: (c) => void (ctl = c) });
    init.signal?.addEventListener("abort", () => ctl.error(new DOMException("aborted", "AbortError")));
    const call: Call = { url, lastId: new Headers(init.headers).get("Last-Event-ID"), send: (t) => ctl.enqueue(new TextEncoder().encode(t)), end: () => ctl.close() };
    calls.push(call);
    return Promise.resolve(answers.shift()?.(call, body) ?? new Response(body));
  });
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const status = (id: number) => `event: status\nid: 0-${id}\ndata: {"message_id":"m${id}"}\n\n`;
const turn = () => vi.advanceTimersByTimeAsync(0);
const frame = () => frames.splice(0).forEach((f) => f());

function start() {
  const got: string[][] = [];
  const states: string[] = [];
  let gaps = 0;
  const stop = follow({ query: { to: "+86138" }, onEvents: (e: Event[]) => got.push(e.map((x) => x.message_id ?? "")), onState: (s) => states.push(s), onGap: () => gaps++ });
  return { got, states, gaps: () => gaps, stop };
}

test("however many events come between two frames, they are handed over once, in order", async () => {
  const f = start();
  await turn();
  expect(calls[0]?.url).toBe("/v1/events?to=%2B86138");
  for (let i = 0; i < 500; i++) calls[0]?.send(status(i));
  await turn();
  expect(f.got).toEqual([]);
  expect(frames.length).toBe(1);
  frame();
  expect(f.got.length).toBe(1);
  expect(f.got[0]).toEqual(Array.from({ length: 500 }, (_, i) => `m${i}`));
  f.stop();
});

test("a stream that ends goes on from the last id, also from one that a comment brought", async () => {
  const f = start();
  await turn();
  expect(calls[0]?.lastId).toBe(null);
  calls[0]?.send(status(7));
  calls[0]?.send(": here\nid: 0-9\n\n");
  await turn();
  calls[0]?.send('event: end\nid: 0-9\ndata: {"reason":"shutting_down"}\n\n');
  calls[0]?.end();
  await vi.advanceTimersByTimeAsync(20_000);
  expect(calls.length).toBe(2);
  expect(calls[1]?.lastId).toBe("0-9");
  expect(f.states).toEqual(["connecting", "live", "waiting", "connecting", "live"]);
  f.stop();
});

test("a connection that has gone silent is given up; one that says it is there is not", async () => {
  const f = start();
  await turn();
  for (let i = 0; i < 10; i++) {
    await vi.advanceTimersByTimeAsync(15_000);
    calls[0]?.send(`: here\nid: 0-${i}\n\n`);
    await turn();
  }
  expect(calls.length).toBe(1);
  await vi.advanceTimersByTimeAsync(silence - 1);
  expect(calls.length).toBe(1);
  await vi.advanceTimersByTimeAsync(1);
  expect(calls.length).toBe(2);
  expect(calls[1]?.lastId).toBe("0-9");
  f.stop();
});

test("a gap and a cut are told", async () => {
  const f = start();
  await turn();
  calls[0]?.send('event: gap\nid: 0-1\ndata: {"reason":"forgotten"}\n\nevent: cut\nid: 0-2\ndata: {"reason":"too_slow"}\n\n');
  await turn();
  expect(f.gaps()).toBe(2);
  f.stop();
});

test("who may not is not asked again; who comes too often waits as long as he is told", async () => {
  answers.push(() => new Response('{"code":"too_many_streams"}', { status: 429, headers: { "Retry-After": "5" } }));
  answers.push(() => new Response('{"code":"forbidden_scope","detail":"no"}', { status: 403 }));
  const f = start();
  await vi.advanceTimersByTimeAsync(4_900);
  expect(calls.length).toBe(1);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(calls.length).toBe(2);
  await vi.advanceTimersByTimeAsync(600_000);
  expect(calls.length).toBe(2);
  expect(f.states.at(-1)).toBe("refused");
  f.stop();
});

test("a page that nobody sees has no stream, and goes on where it was", async () => {
  const f = start();
  await turn();
  calls[0]?.send(status(3));
  await turn();
  page.hidden = true;
  page.dispatchEvent(new globalThis.Event("visibilitychange"));
  await vi.advanceTimersByTimeAsync(60_000);
  expect(calls.length).toBe(1);
  expect(f.states.at(-1)).toBe("resting");
  page.hidden = false;
  page.dispatchEvent(new globalThis.Event("visibilitychange"));
  await turn();
  expect(calls[1]?.lastId).toBe("0-3");
  f.stop();
});

test("what is stopped hands nothing over and asks no more", async () => {
  const f = start();
  await turn();
  calls[0]?.send(status(1));
  await turn();
  f.stop();
  frame();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(f.got).toEqual([]);
  expect(calls.length).toBe(1);
});

test("waits grow to 15 s, with chance in them, and never below what a server asks", () => {
  expect(wait(1, undefined, 0)).toBe(0);
  expect(wait(1, undefined, 1)).toBe(500);
  expect(wait(2, undefined, 1)).toBe(1000);
  expect(wait(50, undefined, 1)).toBe(15_000);
  expect(wait(1, 7, 0)).toBe(7000);
  expect(wait(2, 7, 1)).toBe(8000);
});
