// What reports mean, in a sentence. Pure. A report that is old says so: it is no
// word about now.

import type { Proof, Report } from "./api/operate.ts";
import { ago, number, plural } from "./ui/format.ts";
import type { Tone } from "./ui/status.tsx";

export interface Words {
  tone: Tone;
  state: string;
  words: string;
}

const day = 86_400_000;
/** An audit that follows reports every few seconds. */
const stopped = 5 * 60_000;
/** Sinks report about once a minute. */
const silent = 5 * 60_000;

export function auditWords(r: Report | null, now: number): Words {
  const a = r?.audit;
  if (!r || !a) return { tone: "mute", state: "never run", words: "No audit has been run yet, so nothing is proven. It takes a minute." };
  const at = Date.parse(a.cut ?? r.at);
  const since = a.following
    ? now - at > stopped ? ` The audit that follows has judged nothing since ${ago(at, now)}: its process has stopped, or cannot read.` : ` All that was decided until ${ago(at, now)} is judged, and the audit goes on.`
    : now - at > day ? ` That was ${ago(at, now)}: what was decided since is not covered.` : "";
  switch (a.outcome) {
    case "proven":
      return { tone: now - at > (a.following ? stopped : 7 * day) ? "warn" : "ok", state: "proven", words: `Each of ${plural(a.decisions, "decision")} was right: no limit let one too many through, and none refused one that it had room for.${since}` };
    case "violated":
      return { tone: "bad", state: "violated", words: `${plural(a.violations, "decision")} of ${number(a.decisions)} ${a.violations === 1 ? "was" : "were"} wrong. The first is below; weir audit lists all with partition, offset and times.${since}` };
    case "could_not_tell":
      return { tone: "warn", state: "could not tell", words: `The logs do not show enough to judge. What is missing is below. That is no violation, and no proof either.${since}` };
  }
}

/** ranges writes partitions shortly: 0–7, 9. */
export function ranges(partitions: readonly number[]): string {
  const runs: [from: number, to: number][] = [];
  for (const p of [...partitions].sort((a, b) => a - b)) {
    const last = runs.at(-1);
    if (last && p === last[1] + 1) last[1] = p;
    else runs.push([p, p]);
  }
  return runs.map(([from, to]) => (from === to ? from : `${from}–${to}`)).join(", ");
}

export function sinkWords(p: Proof, now: number): Words {
  if (p.sinks.length === 0) return { tone: "mute", state: "no report", words: "No sink has reported, so nothing is known about the counts." };
  const failing = p.sinks.filter((s) => s.sink?.failing);
  const newest = Math.max(...p.sinks.map((s) => Date.parse(s.at)));
  if (p.difference !== 0) return { tone: "bad", state: `difference ${number(p.difference)}`, words: `Kafka and ClickHouse differ by ${plural(p.difference, "record")}: counts in this console may be wrong. docs/runbook.md says what to look at.` };
  if (failing.length > 0) return { tone: "bad", state: "cannot load", words: `${plural(failing.length, "sink")} cannot load into ClickHouse. Nothing is lost: Kafka keeps it, and it is loaded when ClickHouse is well again. Until then counts here are old.` };
  if (now - newest > silent) return { tone: "warn", state: "silent", words: `No sink has reported for ${ago(newest, now).replace(" ago", "")}. The last word was that all is well, but that is no word about now.` };
  const checked = p.sinks.map((s) => Date.parse(s.sink?.checked_at ?? "")).filter(Number.isFinite);
  if (checked.length < p.sinks.length) return { tone: "mute", state: "not compared yet", words: "Sinks load, and have not all compared their rows with Kafka yet." };
  return { tone: "ok", state: "no difference", words: `When last compared, ${ago(Math.min(...checked), now)}, each status that sinks had loaded stood in ClickHouse as exactly one row.` };
}
