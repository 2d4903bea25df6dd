// What the overview, providers and the proof ask for.

import type { Schemas } from "./client.ts";
import { get } from "./client.ts";

export type Stats = Schemas["Stats"];
export type StatsCount = Schemas["StatsCount"];
export type Errors = Schemas["Errors"];
export type Refused = Schemas["Refused"];
export type Lane = Schemas["LaneHealth"];
export type ProviderHealth = Schemas["ProviderHealth"];
export type Report = Schemas["Report"];
export type Proof = Schemas["Proof"];
export type DelayTier = Schemas["DelayTier"];
export type Backlog = Schemas["Backlog"];
export type QueueBacklog = Schemas["QueueBacklog"];

export const hour = 3_600_000;
export const day = 24 * hour;
/** since is the time so many milliseconds ago, for the API. */
export const since = (ms: number): string => new Date(Date.now() - ms).toISOString();

type StatsQuery = NonNullable<NonNullable<Parameters<typeof get<"/v1/stats">>[1]>["query"]>;

export const stats = (signal: AbortSignal, query: StatsQuery = {}) => get("/v1/stats", { query, signal });
export const errors = (signal: AbortSignal, query: { from: string; provider?: string; tenant?: string }) => get("/v1/stats/errors", { query, signal });
export const refused = (signal: AbortSignal, query: { from: string; limit?: number }) => get("/v1/stats/recipients", { query, signal });
export const health = (signal: AbortSignal) => get("/v1/health", { signal });
export const proof = (signal: AbortSignal) => get("/v1/proof", { signal });
export const backlog = (signal: AbortSignal) => get("/v1/backlog", { signal });
export const delays = (signal: AbortSignal) => get("/v1/delays", { signal });

/** UnderWay is how many messages are under way; more where there are more than were counted. */
export interface UnderWay {
  n: number;
  more: boolean;
}

/** underWay counts a tenant's messages that were admitted and have not ended, of the last day, up to 500. Who may see all tenants asks for the backlog. */
export async function underWay(signal: AbortSignal): Promise<UnderWay> {
  const page = await get("/v1/messages", { query: { status: "queued,sending,retrying", from: since(day), limit: 500 }, signal });
  return { n: page.messages.length, more: page.next_cursor !== undefined || page.partial === true };
}
