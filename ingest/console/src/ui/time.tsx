import { useEffect, useState } from "preact/hooks";
import { ago, full, local, millis } from "./format.ts";

/** useNow is the time, anew every so many milliseconds while the page is seen. */
export function useNow(every = 1000): number {
  const [now, set] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => document.hidden || set(Date.now()), every);
    return () => clearInterval(timer);
  }, [every]);
  return now;
}

/** Time shows a time of the API in the browser's zone; its title has milliseconds and UTC. */
export function Time({ at, seconds = true }: { at: string | number | null | undefined; seconds?: boolean }) {
  const ms = typeof at === "number" ? at : millis(at);
  if (!Number.isFinite(ms)) return <span class="muted">–</span>;
  return (
    <time class="num" dateTime={new Date(ms).toISOString()} title={full(ms)}>
      {local(ms, Date.now(), seconds)}
    </time>
  );
}

/** Ago shows how long ago, kept up to date; its title has the time. */
export function Ago({ at }: { at: string | number | null | undefined }) {
  useNow(5000); // draws anew
  const now = Date.now();
  const ms = typeof at === "number" ? at : millis(at);
  if (!Number.isFinite(ms)) return <span class="muted">never</span>;
  return (
    <time dateTime={new Date(ms).toISOString()} title={full(ms)}>
      {ago(ms, now)}
    </time>
  );
}
