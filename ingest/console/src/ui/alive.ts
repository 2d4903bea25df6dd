import { useEffect, useRef } from "preact/hooks";

/** useAlive tells, when an answer comes, whether who asked still shows: nobody is led away from where he has gone since. */
export function useAlive(): () => boolean {
  const alive = useRef(true);
  useEffect(() => () => void (alive.current = false), []);
  return () => alive.current;
}
