// POST /v1/limits/try: limits against recorded traffic.

import type { Limit } from "../say/limit.ts";
import { type Schemas, call } from "./client.ts";

/** Result is what the limits would have refused, and what was refused. */
export type Result = Schemas["Backtest"];

/** tryLimits takes up to two minutes; one runs at a time. */
export async function tryLimits(limits: Limit[], since: string, signal?: AbortSignal): Promise<Result> {
  const body = { limits: limits as Schemas["Limit"][], since };
  return (await call("post", "/v1/limits/try", { body, ...(signal ? { signal } : {}) })).data;
}
