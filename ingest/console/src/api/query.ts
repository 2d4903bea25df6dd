import { useCallback, useEffect, useRef, useState } from "preact/hooks";

export interface QueryState<T> {
  data: T | undefined;
  /** Why the last call failed. It stands until one is answered, so that it does not blink while it is asked again. */
  error: unknown;
  /** A call is under way. Data of the call before stay until it is answered. */
  loading: boolean;
  /** When data came. */
  at: number | undefined;
  /** Asks again: at once, or when the call that is under way has been answered. */
  reload: () => void;
}

/** A call without an answer for so long is given up, and asked again: what carried it may be gone. */
export const patience = 60_000;

/**
 * useQuery asks when it is shown, when a dep changes and every so many
 * milliseconds (not while the page is hidden; once when it is seen again), and
 * takes a call back that nobody waits for. With new deps the data before are
 * gone; with reload they stay until the answer.
 */
export function useQuery<T>(ask: (signal: AbortSignal) => Promise<T>, deps: readonly unknown[], options: { every?: number; skip?: boolean } = {}): QueryState<T> {
  const [state, set] = useState<{ data?: T; error?: unknown; loading: boolean; at?: number }>({ loading: !options.skip });
  const asked = useRef(ask);
  asked.current = ask;
  const run = useRef<AbortController | undefined>(undefined); // of the call that is under way
  const began = useRef(0);
  const again = useRef(false);
  const start = useCallback(() => {
    run.current?.abort();
    const ctl = (run.current = new AbortController());
    began.current = Date.now();
    again.current = false;
    const done = (next: (s: typeof state) => typeof state) => {
      if (ctl.signal.aborted) return;
      run.current = undefined;
      set(next);
      if (again.current) start();
    };
    set((s) => ({ ...s, loading: true }));
    asked.current(ctl.signal).then(
      (data) => done(() => ({ data, loading: false, at: Date.now() })),
      (error: unknown) => done((s) => ({ ...s, error, loading: false })),
    );
  }, []);
  // Taken back each time, a call would never be answered where one asks again oftener than answers come.
  const waits = () => run.current !== undefined && Date.now() - began.current < patience;
  const reload = useCallback(() => {
    if (waits()) again.current = true;
    else start();
  }, []);
  const first = useRef(true);
  const { every, skip } = options;
  useEffect(() => {
    if (skip) {
      set({ loading: false });
      return;
    }
    if (!first.current) set({ loading: true });
    first.current = false;
    start();
    const due = () => document.hidden || waits() || start();
    const timer = every ? setInterval(due, every) : undefined;
    const seen = () => every && Date.now() - began.current >= every && due();
    document.addEventListener("visibilitychange", seen);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", seen);
      run.current?.abort();
      run.current = undefined;
    };
  }, [...deps, skip, every]);
  return { data: state.data, error: state.error, loading: state.loading, at: state.at, reload };
}

/**
 * useAgain asks again a second after each answer while something is wanted that
 * the answer has not: whom one asks may be a little behind whoever did it.
 */
export function useAgain(wanted: boolean, loading: boolean, reload: () => void, tries = 10): void {
  const tried = useRef(0);
  useEffect(() => {
    if (!wanted) tried.current = 0;
    if (!wanted || loading) return;
    const timer = setInterval(() => document.hidden || ++tried.current > tries || reload(), 1000);
    return () => clearInterval(timer);
  }, [wanted, loading]);
}
