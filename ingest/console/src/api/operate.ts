// What the overview, providers and the proof ask for.

import type { Schemas } from "./client.ts";
import { address, request } from "./client.ts";

export type Stats = Schemas["Stats"];
export type StatsCount = Schemas["StatsCount"];

export interface Errors {
  errors: { provider?: string; error_code?: string; example?: string; events: number }[];
}
export interface Refused {
  recipients: { to: string; refused: number; last_at: string; limit: string }[];
}
export interface Lane {
  lane: number;
  breaker: "closed" | "open" | "half_open";
  probe_at?: string;
  calls: number;
  failures: number;
  at: string;
}
export interface ProviderHealth {
  name: string;
  type: string;
  channels: string[];
  pace: string[];
  smooth?: boolean;
  concurrency: number;
  lanes: Lane[];
  share: number;
}
export interface Report {
  at: string;
  by: string;
  sink?: { partitions: number[]; rows: number; lag_ms: number; difference: number; checked_at?: string; failing?: string };
  audit?: { outcome: "proven" | "violated" | "could_not_tell"; from: string; until: string; partitions: number; decisions: number; messages: number; open: number; violations: number; first?: string; took_ms: number };
}
export interface Proof {
  audit: Report | null;
  sinks: Report[];
  status_lag_ms: number;
  difference: number;
}
export interface Delays {
  tiers: { name: string; wait_ms: number; waiting: number; oldest_at?: string }[];
}

type Query = Record<string, unknown>;
const ask =
  <T>(path: string) =>
  async (signal: AbortSignal, query: Query = {}): Promise<T> =>
    (await request("get", address(path, {}, query), undefined, {}, signal)).data as T;

export const stats = ask<Stats>("/v1/stats");
export const errors = ask<Errors>("/v1/stats/errors");
export const refused = ask<Refused>("/v1/stats/recipients");
export const health = ask<{ providers: ProviderHealth[] }>("/v1/health");
export const proof = ask<Proof>("/v1/proof");
export const delays = ask<Delays>("/v1/delays");
