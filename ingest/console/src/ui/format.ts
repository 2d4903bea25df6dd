// Numbers and times as people read them. Pure but for the browser's zone and language.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const one = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

/** number writes 1,234,567. */
export const number = (n: number): string => whole.format(n);

/** compact writes 1,234 as it is and 12,345 as 12.3k: for places that are narrow. */
export function compact(n: number): string {
  const a = Math.abs(n);
  if (a < 10_000) return whole.format(n);
  if (a < 999_950) return `${one.format(n / 1e3)}k`;
  if (a < 999_950_000) return `${one.format(n / 1e6)}M`;
  return `${one.format(n / 1e9)}B`;
}

/** percent writes a share of 1. What is not quite all is never 100 %, what is not quite nothing never 0 %. */
export function percent(share: number): string {
  if (!Number.isFinite(share)) return "–";
  if (share > 0 && share < 0.001) return "<0.1%";
  if (share < 1 && share > 0.999) return ">99.9%";
  return `${one.format(share * 100)}%`;
}

/** duration writes milliseconds with two units at most: 850 ms, 1.5 s, 3 min 20 s, 2 h, 4 d 3 h. */
export function duration(ms: number): string {
  if (!Number.isFinite(ms)) return "–";
  if (ms < 0) return `-${duration(-ms)}`;
  if (ms < 1) return "0 ms";
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  if (ms < 59_950) return `${one.format(ms / 1000)} s`;
  const s = Math.round(ms / 1000);
  const parts: [number, string][] = [
    [Math.floor(s / 86400), "d"],
    [Math.floor((s % 86400) / 3600), "h"],
    [Math.floor((s % 3600) / 60), "min"],
    [s % 60, "s"],
  ];
  const first = parts.findIndex(([n]) => n > 0);
  return parts
    .slice(first, first + 2)
    .filter(([n]) => n > 0)
    .map(([n, unit]) => `${n} ${unit}`)
    .join(" ");
}

/** ago writes how long before now a time was: "3 min ago", "in 2 h", "now". */
export function ago(at: number, now: number): string {
  const d = now - at;
  if (Math.abs(d) < 1500) return "now";
  const a = Math.abs(d);
  const text = a < 60_000 ? `${Math.round(a / 1000)} s` : a < 3_600_000 ? `${Math.round(a / 60_000)} min` : a < 86_400_000 * 2 ? `${Math.round(a / 3_600_000)} h` : `${Math.round(a / 86_400_000)} d`;
  return d > 0 ? `${text} ago` : `in ${text}`;
}

export const two = (n: number): string => String(n).padStart(2, "0");

/** local writes a time in the browser's zone: 14:03:07 of today, else with its date. */
export function local(at: number, now: number, seconds = true): string {
  const t = new Date(at);
  const n = new Date(now);
  const clock = `${two(t.getHours())}:${two(t.getMinutes())}${seconds ? `:${two(t.getSeconds())}` : ""}`;
  if (t.toDateString() === n.toDateString()) return clock;
  const day = `${t.getFullYear()}-${two(t.getMonth() + 1)}-${two(t.getDate())}`;
  return t.getFullYear() === n.getFullYear() ? `${day.slice(5)} ${clock}` : `${day} ${clock}`;
}

/** zone is the browser's zone as an offset: UTC+08:00. */
export function zone(at: number): string {
  const m = -new Date(at).getTimezoneOffset();
  if (m === 0) return "UTC";
  const a = Math.abs(m);
  return `UTC${m < 0 ? "-" : "+"}${two(Math.floor(a / 60))}:${two(a % 60)}`;
}

/** full writes a time to the millisecond in the browser's zone and in UTC: what a title says. */
export function full(at: number): string {
  const t = new Date(at);
  const ms = String(t.getMilliseconds()).padStart(3, "0");
  const here = `${t.getFullYear()}-${two(t.getMonth() + 1)}-${two(t.getDate())} ${two(t.getHours())}:${two(t.getMinutes())}:${two(t.getSeconds())}.${ms}`;
  const utc = t.toISOString().replace("T", " ").replace("Z", " UTC");
  return zone(at) === "UTC" ? utc : `${here} ${zone(at)} · ${utc}`;
}

/** toInput writes a time of the API for an input of type datetime-local, which is in the browser's zone and whole minutes; "" where there is none. */
export function toInput(text: string): string {
  const t = new Date(text);
  return Number.isFinite(t.getTime()) ? `${t.getFullYear()}-${two(t.getMonth() + 1)}-${two(t.getDate())}T${two(t.getHours())}:${two(t.getMinutes())}` : "";
}

/** ofInput is the way back: RFC 3339, or "". */
export const ofInput = (value: string): string => (Number.isFinite(Date.parse(value)) ? new Date(value).toISOString() : "");

/** times reads RFC 3339; NaN where there is none. */
export const millis = (text: string | null | undefined): number => (text ? Date.parse(text) : NaN);

/** words writes a name of the API for people: half_open → half open. */
export const words = (name: string): string => name.replaceAll("_", " ");

/** plural writes a count with its noun: 1 message, 2 messages. */
export const plural = (n: number, noun: string, many = `${noun}s`): string => `${number(n)} ${n === 1 ? noun : many}`;
