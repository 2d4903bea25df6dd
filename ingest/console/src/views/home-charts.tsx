// The overview's lines over the last hour.

import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { type Stats, day } from "../api/operate.ts";
import type { QueryState } from "../api/query.ts";
import { type Lines, byMinute } from "../overview.ts";
import { Chart } from "../ui/chart.tsx";
import { duration, number, plural } from "../ui/format.ts";

export function MinuteChart({ now, before }: { now: QueryState<Stats>; before: Stats | undefined }) {
  const lines = useMemo(() => now.data && byMinute(now.data, Date.now()), [now.data]);
  const past = useMemo(() => {
    if (!before || !lines) return undefined;
    const b = byMinute(before, Date.now());
    const at = new Map(b.times.map((t, i) => [t + day / 1000, b.sent[i] ?? 0]));
    return b.sent.some((v) => v > 0) ? lines.times.map((t) => at.get(t) ?? null) : undefined;
  }, [before, lines]);
  const sum = (v: number[]) => v.reduce((a, b) => a + b, 0);
  return (
    <Hold of={now} lines={lines} class="tall">
      {(lines) => (
        <Chart
          height={200}
          times={lines.times}
          summary={`Messages a minute in the last hour: ${plural(sum(lines.sent), "message")} sent, ${number(sum(lines.refused))} refused by limits, ${number(sum(lines.lost))} failed.`}
          series={[
            { name: "Sent", color: "--c1", values: lines.sent, fill: true },
            { name: "Refused by limits", color: "--c4", values: lines.refused },
            { name: "Failed", color: "--c3", values: lines.lost },
            ...(past ? [{ name: "Sent, yesterday", color: "--c2", values: past, dash: true }] : []),
          ]}
        />
      )}
    </Hold>
  );
}

export function LatencyChart({ now }: { now: QueryState<Stats> }) {
  const lines = useMemo(() => now.data && byMinute(now.data, Date.now()), [now.data]);
  return (
    <Hold of={now} lines={lines}>
      {({ times, p95 }) => (
        <Chart height={288} times={times} summary={`Of each minute, the time to sent that 95 % took at most. The longest was ${duration(Math.max(0, ...p95.filter((v) => v !== null)))}.`} format={duration} series={[{ name: "95 % took at most", color: "--c1", values: p95, fill: true }]} />
      )}
    </Hold>
  );
}

/** Hold keeps a chart's place until there is something to draw. */
function Hold({ of, lines, class: tall = "", children }: { of: QueryState<Stats>; lines: Lines | undefined; class?: string; children: (lines: Lines) => ComponentChildren }) {
  if (lines) return <>{children(lines)}</>;
  return <div class={`chart-hold ${tall}`}>{of.error !== undefined && <p class="muted">Not known now.</p>}</div>;
}
