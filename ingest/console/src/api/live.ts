// Statuses as they happen: GET /v1/events. It goes on by itself where it was cut
// off, rests while the page is hidden (a browser has six connections to a
// server, and other pages need them), does not trust a connection that has gone
// silent, and hands events over once a frame however many come.

import { useEffect, useRef, useState } from "preact/hooks";
import type { Schemas } from "./client.ts";
import { ApiError, address, problemOf, signedOut } from "./client.ts";
import { Parser } from "./sse.ts";
import { ofTenant } from "./tenant.ts";

/** Event is a status event. The DOM's own is globalThis.Event. */
export type Event = Schemas["Event"];

/**
 * What a stream is doing. gap: events are missing between what was shown and
 * what comes now, so whoever counts must ask anew.
 */
export type LiveState = "connecting" | "live" | "waiting" | "resting" | "refused";

export interface Subscription {
  query?: Record<string, unknown>;
  /** Everything that came since the last frame, in the log's order. */
  onEvents: (events: Event[]) => void;
  onState?: (state: LiveState, error?: unknown) => void;
  /** Something is missing: ask for the whole again. */
  onGap?: () => void;
}

/** wait is how long to leave a server alone after n failures in a row, in ms: the formula of docs/retry-after.md. */
export function wait(failures: number, retryAfter: number | undefined, random: number): number {
  return (retryAfter ?? 0) * 1000 + random * Math.min(15_000, 500 * 2 ** Math.min(failures - 1, 5));
}

/** silence is how long a stream may say nothing until it is given up: a server says every 15 s that it is there. In ms. */
export const silence = 40_000;

/** follow begins a stream and returns what ends it. */
export function follow(s: Subscription): () => void {
  const ended = new AbortController();
  let lastId = "";
  let pending: Event[] = [];
  let frame = 0;
  const deliver = () => {
    frame = 0;
    const events = pending;
    pending = [];
    if (events.length > 0 && !ended.signal.aborted) s.onEvents(events);
  };

  const stream = async (signal: AbortSignal, heard: () => void): Promise<void> => {
    const headers: Record<string, string> = { Accept: "text/event-stream" };
    if (lastId) headers["Last-Event-ID"] = lastId;
    const answer = await fetch(address("/v1/events", {}, ofTenant("/v1/events", s.query)), { headers, credentials: "same-origin", cache: "no-store", signal });
    if (!answer.ok || !answer.body) throw problemOf(answer, await answer.json().catch(() => undefined));
    s.onState?.("live");
    const parser = new Parser((m) => {
      if (m.event === "status") {
        pending.push(JSON.parse(m.data) as Event);
        frame ||= requestAnimationFrame(deliver);
      } else if (m.event === "gap" || m.event === "cut") s.onGap?.();
    });
    parser.lastId = lastId;
    const text = new TextDecoder();
    const reader = answer.body.getReader();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      heard();
      parser.push(text.decode(value, { stream: true }));
      lastId = parser.lastId;
    }
  };

  const run = async () => {
    for (let failures = 0; !ended.signal.aborted; ) {
      if (document.hidden) {
        s.onState?.("resting");
        await new Promise<void>((wake) => {
          const seen = () => document.hidden || wake();
          document.addEventListener("visibilitychange", seen, { signal: ended.signal });
          ended.signal.addEventListener("abort", () => wake(), { once: true });
        });
        continue;
      }
      const once = new AbortController();
      const stop = () => once.abort();
      const hidden = () => document.hidden && once.abort();
      ended.signal.addEventListener("abort", stop, { once: true });
      document.addEventListener("visibilitychange", hidden);
      let after: number | undefined;
      const began = Date.now();
      let deaf: ReturnType<typeof setTimeout> | undefined;
      const heard = () => {
        clearTimeout(deaf);
        deaf = setTimeout(stop, silence);
      };
      try {
        s.onState?.("connecting");
        heard();
        await stream(once.signal, heard);
      } catch (err) {
        if (err instanceof ApiError) {
          if (err.status === 401 || err.status === 403 || err.status === 400) {
            s.onState?.("refused", err);
            if (err.status === 401) dispatchEvent(new globalThis.Event(signedOut));
            return;
          }
          after = err.retryAfter;
        }
      } finally {
        clearTimeout(deaf);
        ended.signal.removeEventListener("abort", stop);
        document.removeEventListener("visibilitychange", hidden);
      }
      if (once.signal.aborted) continue;
      failures = Date.now() - began > 10_000 ? 0 : failures + 1;
      s.onState?.("waiting");
      await new Promise((r) => setTimeout(r, wait(failures, after, Math.random())));
    }
  };
  void run();
  return () => {
    ended.abort();
    cancelAnimationFrame(frame);
  };
}

/** useLive follows while its component is shown. Changed queries begin anew. */
export function useLive(s: Subscription & { skip?: boolean }): LiveState {
  const [state, set] = useState<LiveState>("connecting");
  const latest = useRef(s);
  latest.current = s;
  useEffect(() => {
    if (s.skip) return;
    return follow({
      query: latest.current.query,
      onEvents: (e) => latest.current.onEvents(e),
      onGap: () => latest.current.onGap?.(),
      onState: (now, err) => {
        set(now);
        latest.current.onState?.(now, err);
      },
    });
  }, [JSON.stringify(s.query ?? {}), s.skip]);
  return state;
}
