// A limit as fields of a form, as text, and in words; and what two versions of
// it differ in. Pure.

import { windowWords } from "./window.ts";

/** Limit is one as the API has it, where what is a default is absent. The generated type has defaults as required. */
export interface Limit {
  name?: string;
  match?: Record<string, unknown>;
  per?: string[];
  allow?: string[];
  mode?: string;
  timezone?: string;
  on_refusal?: string;
  count?: string;
  exempt?: string[];
  overrides?: { to: string; allow: string[] }[];
  legacy_id?: number;
}

/** Fields is a limit as a form has it: everything is text. */
export interface Fields {
  name: string;
  mode: string;
  allow: string;
  per: string;
  match: string;
  timezone: string;
  on_refusal: string;
  count: string;
  exempt: string;
}

const list = (v: unknown): string[] => (v === undefined || v === null ? [] : Array.isArray(v) ? v.map(String) : [String(v)]);
const split = (text: string): string[] =>
  text
    .split(/[\n,]/)
    .map((s) => s.trim())
    .filter(Boolean);

export function toFields(l: Limit): Fields {
  return {
    name: l.name ?? "",
    mode: l.mode ?? "enforce",
    allow: (l.allow ?? []).join("\n"),
    per: (l.per ?? []).join(", "),
    match: Object.entries(l.match ?? {})
      .map(([k, v]) => `${k}: ${list(v).join(", ")}`)
      .join("\n"),
    timezone: l.timezone ?? "",
    on_refusal: l.on_refusal ?? "reject",
    count: l.count ?? "message",
    exempt: (l.exempt ?? []).join("\n"),
  };
}

/** fromFields makes a limit of a form; what the form does not show (overrides, legacy_id) stays as it was. Defaults are left out, as in a file. */
export function fromFields(f: Fields, was: Limit): Limit {
  const out: Record<string, unknown> = { ...was, name: f.name.trim(), per: split(f.per), allow: split(f.allow) };
  const match: Record<string, string[]> = {};
  for (const line of f.match.split("\n")) {
    if (!line.trim()) continue;
    const colon = line.indexOf(":");
    const key = (colon < 0 ? line : line.slice(0, colon)).trim();
    match[key] = colon < 0 ? [] : split(line.slice(colon + 1));
  }
  put(out, "match", match, Object.keys(match).length === 0);
  put(out, "mode", f.mode, f.mode === "enforce");
  put(out, "timezone", f.timezone.trim(), !f.timezone.trim());
  put(out, "on_refusal", f.on_refusal, f.on_refusal === "reject");
  put(out, "count", f.count, f.count === "message");
  const exempt = split(f.exempt);
  put(out, "exempt", exempt, exempt.length === 0);
  return out as Limit;
}

function put(out: Record<string, unknown>, key: string, value: unknown, absent: boolean): void {
  if (absent) delete out[key];
  else out[key] = value;
}

/** toText is a limit as a policy file takes it too: JSON is YAML. */
export const toText = (l: Limit): string => JSON.stringify(l, null, 2);

/** fromText reads it back; what is wrong is thrown as a sentence. */
export function fromText(text: string): Limit {
  let v: unknown;
  try {
    v = JSON.parse(text);
  } catch (err) {
    throw new Error(`This is no JSON: ${err instanceof Error ? err.message : String(err)}.`);
  }
  if (typeof v !== "object" || v === null || Array.isArray(v)) throw new Error("A limit is an object: { … }.");
  return v as Limit;
}

/** perWords says whose messages are counted together. */
export function perWords(per: readonly string[] | undefined): string {
  if (!per || per.length === 0) return "all messages together";
  return `each ${per.map((p) => p.replace(/^metadata\./, "").replace(/^prefix:(\d+)$/, "prefix of $1 digits")).join(" and ")}`;
}

/** matchWords says which messages a limit counts. */
export function matchWords(match: Limit["match"]): string {
  const parts = Object.entries(match ?? {}).map(([k, v]) => `${k.replace(/^metadata\./, "")} ${list(v).join(" or ")}`);
  return parts.length === 0 ? "every message" : parts.join(", ");
}

/** limitWords is a limit in one sentence. */
export function limitWords(l: Limit): string {
  return `${matchWords(l.match).replace(/^./, (c) => c.toUpperCase())}: ${(l.allow ?? []).map(windowWords).join(", ") || "nothing"}, for ${perWords(l.per)}.`;
}

export interface Difference {
  field: string;
  old?: unknown;
  new?: unknown;
}

/** differences lists the fields that differ, dotted within the entry, as the API's dry run does. */
export function differences(a: Limit, b: Limit): Difference[] {
  const flat = (l: Limit) => {
    const out = new Map<string, unknown>();
    for (const [k, v] of Object.entries(l)) {
      if (k === "match" && v && typeof v === "object") for (const [m, mv] of Object.entries(v)) out.set(`match.${m}`, list(mv));
      else out.set(k, v);
    }
    return out;
  };
  const [x, y] = [flat(a), flat(b)];
  const out: Difference[] = [];
  for (const field of new Set([...x.keys(), ...y.keys()])) {
    const [old, now] = [x.get(field), y.get(field)];
    if (JSON.stringify(old) !== JSON.stringify(now)) out.push({ field, ...(old === undefined ? {} : { old }), ...(now === undefined ? {} : { new: now }) });
  }
  return out;
}

/** valueWords writes a field's value for a diff. */
export function valueWords(v: unknown): string {
  if (v === undefined || v === null) return "nothing";
  if (Array.isArray(v)) return v.length === 0 ? "none" : v.map(valueWords).join(v.some((x) => typeof x === "object") ? "; " : ", ");
  if (typeof v !== "object") return String(v);
  const { provider, weight, ...rest } = v as Record<string, unknown>;
  if (provider !== undefined && Object.keys(rest).length === 0) return `${String(provider)} ${String(weight ?? 1)}`; // of a route
  return Object.entries(v)
    .map(([k, x]) => `${k} ${valueWords(x)}`)
    .join(", ");
}
