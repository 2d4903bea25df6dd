// Lists that come in pages: the first again from time to time, further ones on
// demand, and none of their rows twice.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";

export interface Page<T> {
  rows: T[];
  next: string | undefined;
}

export interface Pages<T> {
  rows: readonly T[] | undefined;
  error: unknown;
  loading: boolean;
  /** There is more than rows has. */
  more: boolean;
  loadMore: () => void;
  /** Asks for the first page anew; rows that are there already are replaced where they stand. */
  refresh: () => void;
}

/** merge puts a first page over rows that were there: new ones in front, known ones in their new state. */
export function merge<T>(fresh: readonly T[], have: readonly T[], key: (row: T) => string): T[] {
  const keys = new Set(fresh.map(key));
  return [...fresh, ...have.filter((r) => !keys.has(key(r)))];
}

/** append puts a further page behind; a row that came before keeps its place. */
export function append<T>(have: readonly T[], further: readonly T[], key: (row: T) => string): T[] {
  const keys = new Set(have.map(key));
  return [...have, ...further.filter((r) => !keys.has(key(r)))];
}

export function usePages<T>(ask: (cursor: string | undefined, signal: AbortSignal) => Promise<Page<T>>, key: (row: T) => string, deps: readonly unknown[], skip = false): Pages<T> {
  const [state, set] = useState<{ rows?: T[]; next?: string | undefined; error?: unknown; loading: boolean }>({ loading: !skip });
  const latest = useRef({ ask, key, state });
  latest.current = { ask, key, state };
  const run = useRef<AbortController | undefined>(undefined);

  const load = useCallback((how: "first" | "more" | "refresh") => {
    const { state } = latest.current;
    if (how === "more" && (!state.next || state.loading)) return;
    if (how !== "more") run.current?.abort();
    const ctl = (run.current = new AbortController());
    set((s) => (how === "first" ? { loading: true } : { ...s, loading: true }));
    latest.current.ask(how === "more" ? state.next : undefined, ctl.signal).then(
      (page) => {
        if (ctl.signal.aborted) return;
        const { key } = latest.current;
        set((s) => {
          if (how === "more") return { rows: append(s.rows ?? [], page.rows, key), next: page.next, loading: false };
          // Where rows beyond the first page are shown already, their cursor stays.
          if (how === "refresh" && s.rows && s.rows.length > page.rows.length) return { rows: merge(page.rows, s.rows, key), next: s.next, loading: false };
          return { rows: page.rows, next: page.next, loading: false };
        });
      },
      (error: unknown) => !ctl.signal.aborted && set((s) => ({ ...s, error, loading: false })),
    );
  }, []);

  useEffect(() => {
    if (skip) {
      set({ loading: false });
      return;
    }
    load("first");
    return () => run.current?.abort();
  }, [...deps, skip]);

  const loadMore = useCallback(() => load("more"), [load]);
  const refresh = useCallback(() => load("refresh"), [load]);
  return { rows: state.rows, error: state.error, loading: state.loading, more: !!state.next, loadMore, refresh };
}
