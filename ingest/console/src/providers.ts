// What a provider's lanes say, in words. Pure.

import type { Lane, ProviderHealth } from "./api/operate.ts";
import { length } from "./say/window.ts";
import { local, number, percent, plural } from "./ui/format.ts";
import type { Tone } from "./ui/status.tsx";

export interface Standing {
  tone: Tone;
  /** One word, or two. */
  state: string;
  /** What follows from it. */
  words: string;
  calls: number;
  failures: number;
  /** Neither accepted nor failed. */
  refused: number;
}

/** A word that is older than this may be a lane's that no longer runs. */
const old = 3 * 60_000;

/** standing sums up what lanes said: the worst breaker gives the state, the calls are of all. Stalled is what Kafka shows: messages wait, and no call is made. */
export function standing(p: ProviderHealth, now: number, stalled = false): Standing {
  const calls = p.lanes.reduce((n, l) => n + l.calls, 0);
  const failures = p.lanes.reduce((n, l) => n + l.failures, 0);
  const refused = p.lanes.reduce((n, l) => n + l.refused, 0);
  const which = (breaker: Lane["breaker"]) => p.lanes.filter((l) => l.breaker === breaker);
  const open = which("open");
  const half = which("half_open");
  const count = (some: Lane[]) => (some.length === p.lanes.length ? (p.lanes.length === 1 ? "Its lane" : `All ${p.lanes.length} lanes`) : `${some.length} of ${p.lanes.length} lanes`);
  const base = { calls, failures, refused };
  if (p.type === "none" || p.type === "external") return { ...base, tone: "mute", state: "no calls", words: p.type === "none" ? "It only decides; nothing is sent." : "Your own consumer sends what is handed over." };
  const silent = Math.max(...p.lanes.map((l) => Date.parse(l.silent_until ?? "")).filter(Number.isFinite));
  if (stalled && open.length === 0 && silent <= now)
    return { ...base, tone: "bad", state: "stalled", words: "Messages wait for it and no call is made. Do processes with the roles admission and lanes run? weir status names those that do not." };
  if (p.lanes.length === 0) return { ...base, tone: "mute", state: "no word yet", words: "No lane has called it since it was configured." };
  if (open.length > 0) {
    const probe = Math.min(...open.map((l) => Date.parse(l.probe_at ?? "")).filter(Number.isFinite));
    const next = Number.isFinite(probe) ? (probe > now ? `the next try is at ${local(probe, now)}` : "the next call is a try") : "it is tried again soon";
    return { ...base, tone: "bad", state: "breaker open", words: `${count(open)} stopped calling it: too many calls failed. Its messages go elsewhere or wait; ${next}.` };
  }
  if (half.length > 0) return { ...base, tone: "warn", state: "on trial", words: `${count(half)} ${p.lanes.length === 1 || half.length === 1 ? "lets" : "let"} a few calls through to see whether it is well again.` };
  if (failures > 0 && calls > 0 && p.share < 1) return { ...base, tone: "warn", state: "calls fail", words: `Calls are made. Since ${percent(failures / calls)} of them fail, it gets ${percent(p.share)} of its weight.` };
  const newest = Math.max(...p.lanes.map((l) => Date.parse(l.at)));
  return { ...base, tone: "ok", state: "well", words: now - newest > old ? "Calls are made when there are messages for it." : "Calls are made, and it gets all of its weight." };
}

/** paceWords writes 200/60s as "200 in any 60 s", and 5/1s as "5 a second". */
export function paceWords(window: string): string {
  const [n = "", span = ""] = window.split("/");
  const short: Record<string, string> = { "1s": "a second", "1m": "a minute", "60s": "a minute", "1h": "an hour", "1d": "a day", "24h": "a day" };
  return `${number(Number(n))} ${short[span] ?? `in ${length(span)}`}`;
}

export interface Part {
  provider: string;
  weight: number;
  /** Of the route's messages, by the policy. */
  meant: number;
  /** Now, with what each is well for. */
  now: number;
}

/** parts is how a route's messages are shared out. */
export function parts(to: readonly { provider: string; weight?: number }[], share: (provider: string) => number): Part[] {
  const weight = (t: { weight?: number }) => t.weight ?? 1;
  const all = to.reduce((n, t) => n + weight(t), 0);
  const well = to.reduce((n, t) => n + weight(t) * share(t.provider), 0);
  return to.map((t) => ({ provider: t.provider, weight: weight(t), meant: all ? weight(t) / all : 0, now: well ? (weight(t) * share(t.provider)) / well : 0 }));
}

/** callsWords counts the calls by outcome: those that are neither refused nor failed were accepted. */
export const callsWords = (s: Standing): string => {
  if (s.calls === 0) return "no calls";
  const of = (n: number, word: string) => (n > 0 ? `, ${number(n)} ${word} (${percent(n / s.calls)})` : "");
  return plural(s.calls, "call") + (s.failures + s.refused === 0 ? ", all accepted" : of(s.refused, "refused") + of(s.failures, "failed"));
};
