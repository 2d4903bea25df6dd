import { useCallback, useEffect, useRef, useState } from "preact/hooks";

export interface QueryState<T> {
  data: T | undefined;
  error: unknown;
  /** A call is under way. Data of the call before stay until it is answered. */
  loading: boolean;
  /** When data came. */
  at: number | undefined;
  reload: () => void;
}

/**
 * useQuery asks when it is shown, when a dep changes and every so many
 * milliseconds (not while the page is hidden), and takes a call back that
 * nobody waits for. With new deps the data before are gone; with reload they
 * stay until the answer.
 */
export function useQuery<T>(ask: (signal: AbortSignal) => Promise<T>, deps: readonly unknown[], options: { every?: number; skip?: boolean } = {}): QueryState<T> {
  const [state, set] = useState<{ data?: T; error?: unknown; loading: boolean; at?: number }>({ loading: !options.skip });
  const asked = useRef(ask);
  asked.current = ask;
  const run = useRef<AbortController | undefined>(undefined);
  const reload = useCallback(() => {
    run.current?.abort();
    const ctl = (run.current = new AbortController());
    set((s) => ({ ...s, loading: true }));
    asked.current(ctl.signal).then(
      (data) => !ctl.signal.aborted && set({ data, loading: false, at: Date.now() }),
      (error: unknown) => !ctl.signal.aborted && set((s) => ({ ...s, error, loading: false })),
    );
  }, []);
  const first = useRef(true);
  useEffect(() => {
    if (options.skip) {
      set({ loading: false });
      return;
    }
    if (!first.current) set({ loading: true });
    first.current = false;
    reload();
    const timer = options.every ? setInterval(() => document.hidden || reload(), options.every) : undefined;
    return () => {
      clearInterval(timer);
      run.current?.abort();
    };
  }, [...deps, options.skip, options.every]);
  return { data: state.data, error: state.error, loading: state.loading, at: state.at, reload };
}
