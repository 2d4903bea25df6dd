import { useCallback, useEffect, useRef } from "preact/hooks";

/** useSoon makes of many calls within some milliseconds one, at their end: steps of messages come in crowds. */
export function useSoon(what: () => void, ms: number): () => void {
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const latest = useRef(what);
  latest.current = what;
  useEffect(() => () => clearTimeout(timer.current), []);
  return useCallback(() => {
    timer.current ??= setTimeout(() => {
      timer.current = undefined;
      latest.current();
    }, ms);
  }, [ms]);
}
