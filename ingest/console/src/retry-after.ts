// What a Retry-After value means (RFC 9110, 10.2.3; dates 5.6.7). Pure; held to
// retry-after.vectors.json, as `weir explain retry-after` is.

import { duration, zone } from "./ui/format.ts";

export type Wrong = "empty" | "not_whole" | "unit" | "negative" | "too_long" | "rfc3339" | "zone" | "weekday" | "no_such_time" | "neither";

export interface Read {
  kind: "seconds" | "date";
  /** Whole seconds to wait from now, 0 if the time has passed. */
  wait: number;
  /** When to try again, in milliseconds since 1970. */
  at: number;
  /** Read as it should be, and yet odd. */
  note?: "epoch";
}

const days = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const longDays = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** No wait is longer than 100 years: what says so is broken. */
const longest = 3_155_760_000;

/** read reads a value, or a whole header line, that came at now. */
export function read(value: string, now: number): Read | Wrong {
  const v = value.replace(/^\s*retry-after\s*:/i, "").trim();
  if (v === "") return "empty";
  if (/^\d+$/.test(v)) {
    const seconds = Number(v);
    if (seconds > longest) return "too_long";
    const read: Read = { kind: "seconds", wait: seconds, at: now + seconds * 1000 };
    if (seconds > 1_000_000_000) read.note = "epoch";
    return read;
  }
  if (/^-\d/.test(v)) return "negative";
  if (/^\d+\.\d+$/.test(v)) return "not_whole";
  if (/^\d+ ?(ms|s|secs?|seconds?|m|mins?|minutes?|h|hours?|d|days?)$/i.test(v)) return "unit";
  if (/^\d{4}-\d\d-\d\d[Tt ]/.test(v)) return "rfc3339";
  const at = date(v, now);
  if (typeof at === "string") return at;
  return { kind: "date", at, wait: Math.max(0, Math.ceil((at - now) / 1000)) };
}

function date(v: string, now: number): number | Wrong {
  const imf = /^([A-Z][a-z]{2}), (\d\d) ([A-Z][a-z]{2}) (\d{4}) (\d\d):(\d\d):(\d\d) (\S+)$/.exec(v);
  if (imf) return imf[8] === "GMT" ? time(days.indexOf(imf[1]!), Number(imf[4]), imf[3]!, imf[2]!, imf[5]!, imf[6]!, imf[7]!) : "zone";
  const old = /^([A-Z][a-z]{5,8}), (\d\d)-([A-Z][a-z]{2})-(\d\d) (\d\d):(\d\d):(\d\d) (\S+)$/.exec(v);
  if (old) {
    if (old[8] !== "GMT") return "zone";
    // A year of two digits that seems more than 50 years ahead is the last one with those digits.
    const current = new Date(now).getUTCFullYear();
    let year = current - (current % 100) + Number(old[4]);
    if (year > current + 50) year -= 100;
    return time(longDays.indexOf(old[1]!), year, old[3]!, old[2]!, old[5]!, old[6]!, old[7]!);
  }
  const c = /^([A-Z][a-z]{2}) ([A-Z][a-z]{2}) ([ \d]\d) (\d\d):(\d\d):(\d\d) (\d{4})$/.exec(v);
  if (c) return time(days.indexOf(c[1]!), Number(c[7]), c[2]!, c[3]!.trim(), c[4]!, c[5]!, c[6]!);
  return "neither";
}

function time(weekday: number, year: number, monthName: string, day: string, h: string, m: string, s: string): number | Wrong {
  const month = months.indexOf(monthName);
  if (month < 0 || weekday < 0) return "neither";
  const t = new Date(Date.UTC(year, month, Number(day), Number(h), Number(m), Number(s)));
  if (t.getUTCMonth() !== month || t.getUTCDate() !== Number(day) || Number(h) > 23 || Number(m) > 59 || Number(s) > 59) return "no_such_time";
  if (t.getUTCDay() !== weekday) return "weekday";
  return t.getTime();
}

/** What is wrong with a value, and what to do. */
export const wrongWords: Record<Wrong, string> = {
  empty: "There is no value. The header has a number of seconds or a date.",
  not_whole: "Only whole seconds are allowed: many clients read this as no header at all.",
  unit: "The header has no units: a plain number is seconds.",
  negative: "A number below 0 is not allowed. A client that reads it anyway would try at once.",
  too_long: "That is more than 100 years of seconds. It may be a time in milliseconds, which the header does not have.",
  rfc3339: "This is an RFC 3339 time. The header has HTTP's form: Sun, 22 Nov 2026 01:05:00 GMT.",
  zone: "HTTP dates end with GMT, whatever the server's zone.",
  weekday: "The weekday is not that date's. One of them is wrong, so it is not known which time is meant.",
  no_such_time: "There is no such date or time.",
  neither: "This is neither whole seconds nor an HTTP date: 120, or Sun, 22 Nov 2026 01:05:00 GMT.",
};

const two = (n: number) => String(n).padStart(2, "0");

/** stamp writes a time to the second, in the browser's zone. */
export function stamp(at: number): string {
  const t = new Date(at);
  return `${t.getFullYear()}-${two(t.getMonth() + 1)}-${two(t.getDate())} ${two(t.getHours())}:${two(t.getMinutes())}:${two(t.getSeconds())} ${zone(at)}`;
}

export const utc = (at: number): string => `${new Date(at).toISOString().slice(0, 19).replace("T", " ")} UTC`;

/** sentence says what the server asks for. */
export function sentence(r: Read): string {
  if (r.kind === "seconds") return r.wait === 0 ? "The server lets you try again at once." : `The server asks you to wait ${long(r.wait)} from the moment its answer came.`;
  return r.wait === 0 ? `The server asked you to wait until ${utc(r.at)}, which has passed: try again.` : `The server asks you to wait until ${utc(r.at)}, which is in ${long(r.wait)}.`;
}

/** comment is a line for a client's code, true whenever it is read. */
export function comment(value: string, r: Read): string {
  const v = value.replace(/^\s*retry-after\s*:/i, "").trim();
  return r.kind === "seconds"
    ? `// Retry-After: ${v}: wait ${long(r.wait)} after this answer, and a little more at random, before the next try; sooner is refused again.`
    : `// Retry-After: ${v}: do not try again before ${utc(r.at)}; then at a random moment soon after, as others wait for the same time.`;
}

/** long writes seconds with what they are: 300 seconds (5 min). */
function long(seconds: number): string {
  const s = `${seconds.toLocaleString("en")} ${seconds === 1 ? "second" : "seconds"}`;
  return seconds < 60 ? s : `${s} (${duration(seconds * 1000)})`;
}
