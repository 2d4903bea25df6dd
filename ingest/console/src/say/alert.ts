// An alert of the policy in words. Pure.

import type { Schemas } from "../api/client.ts";
import { paceWords } from "../providers.ts";

export type Alert = Schemas["Alert"];

const whens: Record<Alert["when"][number], string> = {
  "limit.observed": "a limit that observes would have refused",
  "limit.refused": "a limit refused",
  "breaker.open": "a provider is no longer called",
  "dlq.record": "a message was given up on",
  "sink.difference": "ClickHouse and Kafka differ",
  "clock.stall": "a worker's clock is wrong",
  "stage.stuck": "a stage has work and commits nothing",
  "provider.stalled": "messages wait for a provider, and no call is made",
  audit: "an audit found a violation, or stopped",
  lag: "a stage is behind",
};

/** whenWords says what an alert tells of; what it does not know stays as it is. */
export const whenWords = (when: string): string => (whens as Record<string, string>)[when] ?? when;

/** toWords says whom an alert tells. Of an address that may be a secret it shows the host only. */
export function toWords(to: Alert["to"]): string {
  if ("address" in to) return `mail to ${to.address}${to.provider ? ` by ${to.provider}` : ""}`;
  const kind = to.type === "slack" ? "Slack" : "webhook";
  if (/^(\$\{\w+\}|file:.*)$/.test(to.url)) return `${kind}, ${to.url}`;
  try {
    return `${kind} at ${new URL(to.url).host}`;
  } catch {
    return kind;
  }
}

/** oftenWords says how often at most: "once in 10 min". */
export function oftenWords(atMost: string | undefined): string {
  const words = paceWords(atMost || "1/10m");
  return words.replace(/^1 /, "once ");
}
