// GET /v1/delays: what waits, by how long it waits.

import { request } from "./client.ts";

export interface Tier {
  name: string;
  wait_ms: number;
  waiting: number;
  oldest_at?: string;
}

export async function delays(signal?: AbortSignal): Promise<Tier[]> {
  return ((await request("get", "/v1/delays", undefined, {}, signal)).data as { tiers: Tier[] }).tiers;
}
