// What limits would have done to the traffic that was recorded, beside what was done.

import { useEffect, useRef, useState } from "preact/hooks";
import { type Result, tryLimits } from "../api/trial.ts";
import type { Limit } from "../say/limit.ts";
import { windowWords } from "../say/window.ts";
import { Chart } from "../ui/chart.tsx";
import { local, millis, number, percent, plural } from "../ui/format.ts";
import { Table } from "../ui/table.tsx";

/** effectWords is the whole result in two sentences. */
export function effectWords(r: Result): string {
  if (r.messages === 0) return "No message was recorded in that time, so there is nothing to judge it by.";
  const share = percent(r.now.refused / r.messages);
  const change = [r.newly_refused > 0 && `${number(r.newly_refused)} newly refused`, r.newly_admitted > 0 && `${number(r.newly_admitted)} newly admitted`].filter(Boolean).join(", ");
  return `Of ${plural(r.messages, "recorded message")} it would have refused ${number(r.now.refused)} (${share}); ${number(r.then.refused)} ${r.then.refused === 1 ? "was" : "were"}. ${change ? `That is ${change}.` : "Every message would have been decided as it was."}`;
}

/** useTrial runs one backtest at a time, and takes back the one before. */
export function useTrial() {
  const [state, set] = useState<{ running: boolean; result?: Result; error?: unknown; of?: string }>({ running: false });
  const ctl = useRef<AbortController | undefined>(undefined);
  useEffect(() => () => ctl.current?.abort(), []);
  return {
    ...state,
    run(limit: Limit, since: string, of: string) {
      ctl.current?.abort();
      const now = (ctl.current = new AbortController());
      set({ running: true, of });
      tryLimits([limit], since, now.signal).then(
        (result) => !now.signal.aborted && set({ running: false, result, of }),
        (error: unknown) => !now.signal.aborted && set({ running: false, error, of }),
      );
    },
    clear() {
      ctl.current?.abort();
      set({ running: false });
    },
  };
}

export function Trial({ result: r }: { result: Result }) {
  const hours = r.by_hour;
  const classes = r.by_class;
  const busiest = r.busiest.slice(0, 8);
  const limits = r.by_limit.filter((l) => l.then + l.now > 0);
  const now = Date.now();
  return (
    <div class="trial">
      <p class={`verdict ${r.newly_refused > 0 ? "warn" : "ok"}`}>{effectWords(r)}</p>
      <p class="muted">
        Traffic from {local(millis(r.from), now)} to {local(millis(r.until), now)}, from {r.source === "both" ? "Kafka and ClickHouse" : r.source === "kafka" ? "Kafka" : "ClickHouse"}; compared with revision {r.revision}.
      </p>
      {r.notes && r.notes.length > 0 && (
        <ul class="plain-list muted">
          {r.notes.map((n, i) => (
            <li key={i}>{n}</li>
          ))}
        </ul>
      )}
      {hours.length > 1 && (
        <Chart
          summary={`Refused by hour: ${hours.map((h) => `${local(millis(h.hour), now, false)} ${h.then} then, ${h.now} now`).slice(-24).join("; ")}`}
          times={hours.map((h) => millis(h.hour) / 1000)}
          series={[
            { name: "Would be refused", color: "--c3", fill: true, values: hours.map((h) => h.now) },
            { name: "Was refused", color: "--c2", values: hours.map((h) => h.then), dash: true },
          ]}
          height={160}
        />
      )}
      <div class="panels">
        {limits.length > 0 && (
          <Table
            caption="By limit and window"
            rows={limits}
            rowKey={(l) => `${l.limit} ${l.window}`}
            columns={[
              { key: "l", title: "Limit", cell: (l) => `${l.limit}, ${windowWords(l.window)}${l.mode === "observe" ? " (observes)" : ""}` },
              { key: "t", title: "Was", cell: (l) => number(l.then), end: true },
              { key: "n", title: "Would be", cell: (l) => number(l.now), end: true },
            ]}
          />
        )}
        {classes.length > 0 && (
          <Table
            caption="By class"
            rows={classes}
            rowKey={(c) => c.class}
            columns={[
              { key: "c", title: "Class", cell: (c) => c.class || "default" },
              { key: "m", title: "Messages", cell: (c) => number(c.messages), end: true },
              { key: "t", title: "Was", cell: (c) => number(c.then), end: true },
              { key: "n", title: "Would be", cell: (c) => number(c.now), end: true },
            ]}
          />
        )}
        {busiest.length > 0 && (
          <Table
            caption="Refused most, masked"
            rows={busiest}
            rowKey={(b, i) => `${b.to} ${i}`}
            columns={[
              { key: "to", title: "Refused most", cell: (b) => <code>{b.to}</code> },
              { key: "m", title: "Messages", cell: (b) => number(b.messages), end: true },
              { key: "t", title: "Was", cell: (b) => number(b.then), end: true },
              { key: "n", title: "Would be", cell: (b) => number(b.now), end: true },
            ]}
          />
        )}
      </div>
    </div>
  );
}
