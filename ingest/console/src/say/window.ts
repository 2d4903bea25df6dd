// The windows of limits in words: "1/60s" is "1 per 60 s". Pure.

export type Window =
  | { kind: "rolling"; n: number; ms: number; unit: string }
  | { kind: "calendar"; n: number; unit: "minute" | "hour" | "day" | "month" }
  | { kind: "bucket"; n: number; refill: string };

const units: Record<string, number> = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1000, ms: 1 };

/** parseWindow reads a window as the policy has it; undefined where it cannot. */
export function parseWindow(text: string): Window | undefined {
  const bucket = /^bucket (\d+) refill (\S+)$/.exec(text.trim());
  if (bucket) return { kind: "bucket", n: Number(bucket[1]), refill: bucket[2] as string };
  const m = /^(\d+)\/(.+)$/.exec(text.trim());
  if (!m) return undefined;
  const n = Number(m[1]);
  const unit = m[2] as string;
  const calendar = /^calendar-(minute|hour|day|month)$/.exec(unit);
  if (calendar) return { kind: "calendar", n, unit: calendar[1] as "day" };
  if (!/^(\d+(d|h|ms|m|s))+$/.test(unit)) return undefined;
  let ms = 0;
  for (const part of unit.matchAll(/(\d+)(d|h|ms|m|s)/g)) ms += Number(part[1]) * (units[part[2] as string] as number);
  return { kind: "rolling", n, ms, unit };
}

/** length writes a rolling window's length: "60 s", "1 h", "1 h 30 min". */
export function length(unit: string): string {
  const names: Record<string, string> = { d: "d", h: "h", m: "min", s: "s", ms: "ms" };
  return [...unit.matchAll(/(\d+)(d|h|ms|m|s)/g)].map((p) => `${p[1]} ${names[p[2] as string]}`).join(" ");
}

const one: Record<string, string> = { "1d": "day", "1h": "hour", "1m": "minute", "1s": "second" };

/** windowWords writes a window: "1 per 60 s", "5 per hour", "10 per calendar day", "a burst of 10, then 0.5 per s". What it cannot read stays as it is. */
export function windowWords(text: string): string {
  const w = parseWindow(text);
  if (!w) return text;
  const n = w.n.toLocaleString("en");
  switch (w.kind) {
    case "rolling":
      return `${n} per ${one[w.unit] ?? length(w.unit)}`;
    case "calendar":
      return `${n} per calendar ${w.unit}`;
    case "bucket":
      return `a burst of ${n}, then ${w.refill.replace(/\/(\d*)(d|h|ms|m|s)$/, (_, k: string, u: string) => ` per ${k ? `${k} ` : ""}${u === "m" ? "min" : u}`)}`;
  }
}
