// What a revision changed, in lines. Pure.

import type { Schemas } from "../api/client.ts";
import { valueWords } from "./limit.ts";

type Change = Schemas["Change"];

export interface Line {
  words: string;
  /** What became of which field, of a changed entry. */
  fields?: string;
}

const verbs = { add: "made", change: "changed", remove: "removed" } as const;
const most = 8;

/** sumUp makes one line of all entries of a kind that were made, or removed, and one of each that was changed. */
export function sumUp(changes: readonly Change[]): Line[] {
  const groups = new Map<string, Change[]>();
  for (const c of changes) {
    const key = c.op === "change" ? `${c.kind} ${c.name}` : `${c.kind} ${c.op}`;
    groups.set(key, [...(groups.get(key) ?? []), c]);
  }
  return [...groups.values()].map((all) => {
    const [{ kind, op, fields }] = all as [Change];
    const names = all.slice(0, most).map((c) => c.name);
    const rest = all.length - names.length;
    const words = `${all.length > 1 ? plural(kind) : kind} ${names.join(", ")}${rest > 0 ? ` and ${rest} more` : ""} ${verbs[op]}`;
    return op === "change" && fields && fields.length > 0 ? { words, fields: fields.map((f) => `${f.field} ${valueWords(f.old)} → ${valueWords(f.new)}`).join("; ") } : { words };
  });
}

const plural = (kind: string) => (kind.endsWith("s") ? `${kind}es` : `${kind}s`);
