// Whose messages are shown: the caller's own tenant's, or another's that an operator chose.

/** reads are the paths whose query may name a tenant. */
const reads = new Set(["/v1/messages", "/v1/messages/{id}", "/v1/quota", "/v1/suppressions", "/v1/stats", "/v1/stats/errors", "/v1/stats/recipients", "/v1/events", "/v1/dlq"]);

let other: string | undefined;

/** show has every later reading be of this tenant; undefined is the caller's own. */
export function show(tenant: string | undefined): void {
  other = tenant;
}

/** ofTenant adds the tenant that is shown to a reading's query, unless it names one. */
export function ofTenant(path: string, query: Record<string, unknown> = {}): Record<string, unknown> {
  return other && reads.has(path) ? { tenant: other, ...query } : query;
}
