// The proof: what was checked, by whom and when, what came of it, and how to
// check it oneself. It says no more than the reports do.

import "./desk.css";
import type { ViewProps } from "../app.tsx";
import { proof } from "../api/operate.ts";
import type { Proof, Report } from "../api/operate.ts";
import { useQuery } from "../api/query.ts";
import { auditWords, ranges, sinkWords } from "../proof.ts";
import { Copy } from "../ui/copy.tsx";
import { duration, number, plural } from "../ui/format.ts";
import { Facts, Page, Panel } from "../ui/page.tsx";
import { Answer, Empty } from "../ui/states.tsx";
import { Badge } from "../ui/status.tsx";
import { Table } from "../ui/table.tsx";
import { Ago, Time, useNow } from "../ui/time.tsx";

export default function ProofView(_: ViewProps) {
  const q = useQuery((signal) => proof(signal), [], { every: 5000 });
  return (
    <Page title="Proof" lead="Whether every limit held and every status is counted once: what was checked, when, and what came of it.">
      <Answer of={q} lines={12}>
        {(p) => (
          <div class="stack">
            <Audit of={p.audit} />
            <Sinks of={p} />
          </div>
        )}
      </Answer>
    </Page>
  );
}

function Audit({ of: r }: { of: Report | null }) {
  const now = useNow(5000);
  const a = r?.audit;
  const w = auditWords(r, now);
  return (
    <Panel title="Decisions: the last audit" note={a ? <Badge tone={w.tone} text={w.state} /> : <Badge tone="mute" text="never run" />}>
      <p class="proof-words">{w.words}</p>
      {a && r && (
        <Facts
          of={[
            ["Run", <><Ago at={r.at} /> <span class="muted">by {r.by}</span></>],
            ["Judged", `${plural(a.decisions, "decision")} of ${plural(a.messages, "message")}`],
            ["From", <Time at={a.from} />],
            ["Until", <Time at={a.until} />],
            ...(a.following && a.cut ? [["Judged up to", <Ago at={a.cut} />] as [string, preact.ComponentChild]] : []),
            ["Partitions", number(a.partitions)],
            ["Still open", plural(a.open, "message")],
            ["Wrong", <span class={a.violations > 0 ? "bad-text" : ""}>{number(a.violations)}</span>],
            ["Took", duration(a.took_ms)],
          ]}
        />
      )}
      {a?.first && (
        <pre class="first">
          <code>{a.first}</code>
        </pre>
      )}
      <p class="explain">
        An audit reads the request and status logs from Kafka and decides every request anew, with nothing of the running system but its logs. It says <b>proven</b> only if each decision was the right one by the policy in force at that moment, every message has one end at most, and none is missing.
      </p>
      <p class="run">
        Run it yourself, from any machine that reaches Kafka: <Copy text="weir audit" /> <span class="muted">exit code 0 is proven, 1 violated, 3 could not tell; with --follow it goes on and keeps this page up to date</span>
      </p>
    </Panel>
  );
}

function Sinks({ of }: { of: Proof }) {
  const now = useNow(5000);
  const w = sinkWords(of, now);
  return (
    <Panel title="Counts: ClickHouse against Kafka" note={<Badge tone={w.tone} text={w.state} />} flush>
      <p class="proof-words">{w.words}</p>
      <div class="inset">
        <Facts
          of={[
            ["Difference", of.sinks.length === 0 || of.sinks.some((s) => !s.sink?.checked_at) ? "not known yet" : <span class={of.difference !== 0 ? "bad-text" : ""}>{number(of.difference)}</span>],
            ["Behind Kafka", of.sinks.length === 0 ? "not known" : of.status_lag_ms === 0 ? "nothing waits" : duration(of.status_lag_ms)],
            ["Sinks", number(of.sinks.length)],
          ]}
        />
        <p class="explain">
          The difference is what Kafka holds without a row in ClickHouse, and rows too many: it must be 0. Each sink compares the offsets that it loaded with the rows that are there. How far behind is the age of the oldest status that is not loaded yet: so old the counts of this console may be.
        </p>
        <p class="run">
          Ask a sink yourself: <Copy text="curl -s http://SINK/metrics | grep weir_sink_difference" />
        </p>
      </div>
      <Table
        caption="Sinks, as each says of itself"
        rows={of.sinks}
        rowKey={(r) => r.by}
        columns={[
          { key: "by", title: "Sink", cell: (r) => r.by },
          { key: "state", title: "State", cell: (r) => (r.sink?.failing ? <span class="bad-text" title={r.sink.failing}>{r.sink.failing}</span> : <Badge tone="ok" text="loads" />) },
          { key: "parts", title: "Partitions", wideOnly: true, cell: (r) => ranges(r.sink?.partitions ?? []), end: true },
          { key: "rows", title: "Rows", wideOnly: true, end: true, cell: (r) => number(r.sink?.rows ?? 0) },
          { key: "lag", title: "Behind", end: true, cell: (r) => (r.sink?.lag_ms ? duration(r.sink.lag_ms) : "–") },
          { key: "diff", title: "Difference", end: true, cell: (r) => (r.sink?.checked_at ? number(r.sink.difference) : "–") },
          { key: "checked", title: "Compared", wideOnly: true, end: true, cell: (r) => (r.sink?.checked_at ? <Ago at={r.sink.checked_at} /> : "not yet") },
          { key: "at", title: "Said so", end: true, cell: (r) => <Ago at={r.at} /> },
        ]}
        empty={<Empty title="No sink has reported yet.">It does about once a minute. Without a sink nothing is loaded into ClickHouse, and nothing is lost: Kafka keeps it.</Empty>}
      />
    </Panel>
  );
}
