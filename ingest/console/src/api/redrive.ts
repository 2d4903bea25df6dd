// Redriving the dead letter queue, call after call, since one call takes a few
// seconds at most and says where it ended.

import { ApiError, type Schemas, call } from "./client.ts";

export type Filter = Pick<Schemas["RedriveRequest"], "since" | "until" | "class" | "provider" | "reason" | "ids" | "all">;

/** Sum is what all calls so far came to. */
export interface Sum {
  matched: number;
  redriven: number;
  skipped: Record<string, number>;
  by_reason: Record<string, number>;
  /** Of the redriven: their recipients may get them twice. */
  may_be_received: number;
  /** There is more to come. */
  going: boolean;
  /** Of a dry run: the cursor with which what it counted is sent, and nothing that came since. */
  start?: string | undefined;
}

export const nothing: Sum = { matched: 0, redriven: 0, skipped: {}, by_reason: {}, may_be_received: 0, going: true };

export function add(sum: Sum, part: Schemas["Redriven"]): Sum {
  const plus = (a: Record<string, number>, b: Record<string, number>) => {
    const out = { ...a };
    for (const [k, n] of Object.entries(b)) out[k] = (out[k] ?? 0) + n;
    return out;
  };
  return { matched: sum.matched + part.matched, redriven: sum.redriven + part.redriven, skipped: plus(sum.skipped, part.skipped), by_reason: plus(sum.by_reason, part.by_reason), may_be_received: sum.may_be_received + (part.may_be_received ?? 0), going: !!part.cursor, start: sum.start ?? part.start };
}

/**
 * redrive asks again and again until all is through, and tells after each call.
 * Where its key may not call so often, or Kafka is away, it waits as long as it
 * is told; that something is asked for twice sends nothing twice. cursor is the
 * start of a dry run of the same filter.
 */
export async function redrive(filter: Filter, dry: boolean, cursor: string | undefined, tell: (sum: Sum) => void, signal: AbortSignal): Promise<Sum> {
  let sum = nothing;
  do {
    try {
      const { data } = await call("post", "/v1/dlq/redrive", { body: { ...filter, dry_run: dry, rate: 100, ...(cursor ? { cursor } : {}) }, signal });
      const part = data as Schemas["Redriven"];
      sum = add(sum, part);
      cursor = part.cursor;
      tell(sum);
    } catch (err) {
      if (!(err instanceof ApiError) || !err.retryAfter || sum === nothing) throw err;
      await pause(err.retryAfter * 1000, signal);
    }
  } while (sum.going);
  return sum;
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((done, fail) => {
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), fail(signal.reason)), { once: true });
  });
}
