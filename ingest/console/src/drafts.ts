// What somebody has changed of a limit and not saved, kept for the tab: who comes
// back to the form finds it again, after another view or a reload.

import type { Resource } from "./views/limit-check.tsx";
import type { Fields } from "./say/limit.ts";

/** Draft is the form as it stood. */
export interface Draft {
  at: number;
  /** Who wrote it: his tenant and key. Nobody else who signs in here is shown it. */
  by: string;
  /** What it changes. */
  base: Resource;
  asText: boolean;
  fields: Fields;
  text: string;
}

/** The version is that of the form of a draft: another's is nobody's. */
const prefix = "weir.draft.limit.1/";

/** draftOf is what was kept of a limit; the name of a new one is "". */
export function draftOf(name: string, by: string): Draft | undefined {
  try {
    const d = JSON.parse(sessionStorage.getItem(prefix + name) ?? "null") as Draft | null;
    return d?.by === by ? d : undefined;
  } catch {
    return undefined; // storage is forbidden
  }
}

export function keepDraft(name: string, d: Draft): void {
  try {
    sessionStorage.setItem(prefix + name, JSON.stringify(d));
  } catch {
    // Full or forbidden: then the browser's question at the end is all there is.
  }
}

export function dropDraft(name: string): void {
  try {
    sessionStorage.removeItem(prefix + name);
  } catch {
    // Then there is none.
  }
}
