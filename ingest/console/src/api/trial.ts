// POST /v1/limits/try: limits against recorded traffic.

import type { Limit } from "../say/limit.ts";
import { request } from "./client.ts";

/** Result is what the limits would have refused, and what was refused; backtest.Result in Go. */
export interface Result {
  from: string;
  until: string;
  warmed_from: string;
  source: string;
  revision: number;
  messages: number;
  then: Tally;
  now: Tally;
  newly_refused: number;
  newly_admitted: number;
  by_limit: { limit: string; window: string; mode: string; then: number; now: number }[] | null;
  by_class: { class: string; messages: number; then: number; now: number }[] | null;
  by_hour: { hour: string; messages: number; then: number; now: number }[] | null;
  busiest: { to: string; messages: number; then: number; now: number }[] | null;
  notes?: string[];
}

export interface Tally {
  admitted: number;
  refused: number;
  observed: number;
}

/** tryLimits takes up to two minutes; one runs at a time. */
export async function tryLimits(limits: Limit[], remove: string[], since: string, signal?: AbortSignal): Promise<Result> {
  const body = { limits, since, ...(remove.length > 0 ? { remove } : {}) };
  return (await request("post", "/v1/limits/try", body, {}, signal)).data as Result;
}
