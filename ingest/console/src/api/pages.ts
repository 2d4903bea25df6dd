// Lists that come in pages: the first again from time to time, further ones on
// demand, and none of their rows twice.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { patience } from "./query.ts";

export interface Page<T> {
  rows: T[];
  next: string | undefined;
  /** There may be more that could not be looked at. */
  partial?: boolean | undefined;
}

export interface Pages<T> {
  rows: readonly T[] | undefined;
  /** Why the last call failed. It stands until one is answered. */
  error: unknown;
  loading: boolean;
  /** There is more than rows has. */
  more: boolean;
  partial: boolean;
  /** Asks for the next page; like refresh when the call that is under way has been answered, so that neither is lost. */
  loadMore: () => void;
  /** Asks for the first page anew; rows that are there already are replaced where they stand. */
  refresh: () => void;
}

/** Shown is what of a list is shown. */
export interface Shown<T> {
  rows: T[];
  next: string | undefined;
  partial?: boolean | undefined;
  /** Pages beyond the first are in it. */
  further: boolean;
}

/** renew puts a first page that was asked for again over what is shown: what it has is in its new state, what it should have and has not is gone. */
export function renew<T>(fresh: Page<T>, have: Shown<T> | undefined, key: (row: T) => string): Shown<T> {
  const anew = { ...fresh, further: false };
  if (!have) return anew;
  const keys = new Set(fresh.rows.map(key));
  // What is not in a page that is not all may still be there.
  if (fresh.partial) return { ...have, rows: [...fresh.rows, ...have.rows.filter((r) => !keys.has(key(r)))], partial: true };
  if (!fresh.next || !have.further) return anew;
  const last = have.rows.findLastIndex((r) => keys.has(key(r)));
  return { ...have, rows: [...fresh.rows, ...have.rows.slice(last + 1)], partial: false };
}

/** append puts a further page behind; a row that came before keeps its place. */
export function append<T>(have: readonly T[], further: readonly T[], key: (row: T) => string): T[] {
  const keys = new Set(have.map(key));
  return [...have, ...further.filter((r) => !keys.has(key(r)))];
}

type How = "first" | "more" | "refresh";

export function usePages<T>(ask: (cursor: string | undefined, signal: AbortSignal) => Promise<Page<T>>, key: (row: T) => string, deps: readonly unknown[]): Pages<T> {
  const [state, set] = useState<{ shown?: Shown<T>; error?: unknown; loading: boolean }>({ loading: true });
  const latest = useRef({ ask, key });
  latest.current = { ask, key };
  const shown = useRef<Shown<T> | undefined>(undefined);
  const run = useRef<{ ctl: AbortController; began: number } | undefined>(undefined); // of the call that is under way
  const wanted = useRef(new Set<How>());

  const start = useCallback((how: How) => {
    run.current?.ctl.abort();
    const ctl = new AbortController();
    run.current = { ctl, began: Date.now() };
    wanted.current.delete(how);
    if (how === "first") shown.current = undefined;
    set((s) => (how === "first" ? { loading: true } : { ...s, loading: true }));
    const done = (next: (s: typeof state) => typeof state) => {
      run.current = undefined;
      set(next);
      for (const how of ["refresh", "more"] as const) if (wanted.current.has(how)) load(how);
    };
    latest.current.ask(how === "more" ? shown.current?.next : undefined, ctl.signal).then(
      (page) => {
        if (ctl.signal.aborted) return;
        const { key } = latest.current;
        const have = shown.current;
        if (how === "more" && have) shown.current = { rows: append(have.rows, page.rows, key), next: page.next, partial: have.partial || page.partial, further: true };
        else shown.current = renew(page, have, key);
        const now = shown.current;
        done(() => ({ shown: now, loading: false }));
      },
      (error: unknown) => ctl.signal.aborted || done((s) => ({ ...s, error, loading: false })),
    );
  }, []);
  const load = useCallback((how: How) => {
    if (run.current && Date.now() - run.current.began < patience) wanted.current.add(how);
    else if (how !== "more" || shown.current?.next) start(how);
    else wanted.current.delete(how);
  }, []);

  useEffect(() => {
    wanted.current.clear();
    start("first");
    return () => run.current?.ctl.abort();
  }, deps);

  const loadMore = useCallback(() => load("more"), []);
  const refresh = useCallback(() => load("refresh"), []);
  return { rows: state.shown?.rows, error: state.error, loading: state.loading, more: !!state.shown?.next, partial: !!state.shown?.partial, loadMore, refresh };
}
