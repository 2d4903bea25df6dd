// What a Retry-After value means (RFC 9110, 10.2.3; dates 5.6.7). Pure. It is
// what ingest/retryafter is, which `weir explain retry-after` uses; both are held
// to testdata/retry-after.json.

import { two, zone } from "./ui/format.ts";

export interface Explained {
  form: "seconds" | "date";
  /** To wait from now, rounded up; 0 where the time has passed. */
  seconds: number;
  /** When to try again, in milliseconds since 1970. */
  at: number;
  /** One sentence for the comment of a client's code. */
  comment: string;
  /** What is odd about it. */
  note?: string;
}

/** NoValue is why a text is no value, for people. */
export interface NoValue {
  error: string;
}

/** The longest delay: what is longer counts as this. */
const most = 2 ** 31;
/** From here on a number of seconds is taken for a Unix time, in the note alone. */
const likelyUnix = 1_000_000_000;

/** explain reads a value as it stands in the header, of an answer that came at now. */
export function explain(value: string, now: number): Explained | NoValue {
  const v = value.replace(/^[ \t]+|[ \t]+$/g, "");
  if (/^[0-9]+$/.test(v)) return ofSeconds(v, now);
  const at = date(v, now);
  if (typeof at === "string") return { error: at };
  if (at <= now) return { form: "date", at, seconds: 0, comment: `Retry-After: ${v} means: try again at once, since ${utc(at)} has passed.` };
  const e: Explained = { form: "date", at, seconds: Math.ceil((at - now) / 1000), comment: `Retry-After: ${v} means: do not try again before ${utc(at)}.` };
  if (e.seconds > most) {
    e.seconds = most;
    e.note = "That is more than 68 years away: treat it as a refusal for good.";
  }
  return e;
}

function ofSeconds(digits: string, now: number): Explained {
  const n = Number(digits);
  const seconds = Math.min(n, most);
  const e: Explained = {
    form: "seconds",
    seconds,
    at: now + seconds * 1000,
    comment: seconds === 0 ? `Retry-After: ${digits} means: try again at once.` : `Retry-After: ${digits} means: wait ${span(seconds)} after this answer came, then try again.`,
  };
  if (n > most) e.note = "That is more than 68 years: treat it as a refusal for good.";
  else if (n >= likelyUnix) e.note = "It looks like a Unix time, but the header takes seconds from now.";
  return e;
}

/** span says how long a number of seconds is, in its two largest units that touch: 1 minute 30 seconds. */
export function span(seconds: number): string {
  const units = [
    [86_400, "day"],
    [3600, "hour"],
    [60, "minute"],
    [1, "second"],
  ] as const;
  const first = units.findIndex(([of]) => seconds >= of);
  if (first < 0) return "0 seconds";
  let left = seconds;
  return units
    .slice(first, first + 2)
    .map(([of, name]) => {
      const n = Math.floor(left / of);
      left %= of;
      return n === 0 ? "" : `${n} ${name}${n === 1 ? "" : "s"}`;
    })
    .filter(Boolean)
    .join(" ");
}

// The three forms of an HTTP date, which is case-sensitive.
const monthNames = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const short = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)";
const months = `(${monthNames.join("|")})`;
const clock = "([0-9]{2}):([0-9]{2}):([0-9]{2})";
const fixdate = new RegExp(`^${short}, ([0-9]{2}) ${months} ([0-9]{4}) ${clock} GMT$`);
const rfc850 = new RegExp(`^(?:Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday), ([0-9]{2})-${months}-([0-9]{2}) ${clock} GMT$`);
const asctime = new RegExp(`^${short} ${months} ([0-9]{2}| [0-9]) ${clock} ([0-9]{4})$`);

const example = "Sun, 22 Nov 2026 01:00:00 GMT";

/** What people write instead. */
const instead: [RegExp, string][] = [
  [/^$/, `it is empty: write seconds, such as 120, or a date, such as ${example}`],
  [/^[-+][0-9]/, "a delay has no sign: it is whole seconds from now, 0 or more"],
  [/^[0-9]*[.,][0-9]+$/, "a delay has no fraction: it is whole seconds"],
  [/^[0-9]+ ?[A-Za-z]+$/, "a delay has no unit: it is whole seconds"],
  [/^[0-9]{4}-[0-9]{2}-[0-9]{2}/, `a date of ISO 8601 is none for HTTP: it is written as ${example}`],
  [new RegExp(`^${short}.*(?:UTC|[A-Z]{2,4}|[-+][0-9]{4})$`), `it is no date for HTTP, which is written as ${example} and always in GMT`],
];

function date(v: string, now: number): number | string {
  let m = fixdate.exec(v) ?? rfc850.exec(v);
  let [day, month, year, hour, minute, second] = (m ?? []).slice(1);
  if (!m) {
    m = asctime.exec(v);
    [month, day, hour, minute, second, year] = (m ?? []).slice(1);
  }
  if (!m) return instead.find(([form]) => form.test(v))?.[1] ?? `it is neither whole seconds, such as 120, nor a date, such as ${example}`;
  const [d, h, min, s] = [Number(day), Number(hour), Number(minute), Number(second)];
  const mon = monthNames.indexOf(month ?? "");
  let y = Number(year);
  // Second 60 is a leap second: it ends when the next minute begins.
  if (h > 23 || min > 59 || s > 60 || (s === 60 && (h !== 23 || min !== 59))) return "there is no such time of day";
  if (year?.length === 2) {
    const today = new Date(now);
    y += Math.floor(today.getUTCFullYear() / 100) * 100;
    const far = new Date(now);
    far.setUTCFullYear(today.getUTCFullYear() + 50);
    if (moment(y, mon, d, h, min, s) > far.getTime()) y -= 100;
  }
  if (new Date(moment(y, mon, d, 0, 0, 0)).getUTCDate() !== d) return "there is no such day";
  return moment(y, mon, d, h, min, s);
}

/** moment is Date.UTC, for which years before 100 are not of the last century. */
function moment(y: number, mon: number, d: number, h: number, min: number, s: number): number {
  const t = new Date(Date.UTC(2000, mon, 1, h, min, s));
  t.setUTCFullYear(y, mon, d + (t.getUTCDate() - 1));
  return t.getTime();
}

/** stamp writes a time to the second, in the browser's zone. */
export function stamp(at: number): string {
  const t = new Date(at);
  return `${t.getFullYear()}-${two(t.getMonth() + 1)}-${two(t.getDate())} ${two(t.getHours())}:${two(t.getMinutes())}:${two(t.getSeconds())} ${zone(at)}`;
}

export const utc = (at: number): string => `${new Date(at).toISOString().slice(0, 19).replace("T", " ")} UTC`;

/** sentence says what the server asks for. */
export function sentence(e: Explained): string {
  if (e.form === "seconds") return e.seconds === 0 ? "Try again at once." : `Wait ${span(e.seconds)} from the moment the answer came.`;
  return e.seconds === 0 ? "Try again at once: the time has passed." : `Do not try again before ${utc(e.at)}, in ${span(e.seconds)}.`;
}
