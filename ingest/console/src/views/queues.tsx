// What waits and what was given up on: the backlog, delays by tier, messages that wait for
// their time or a place, and the dead letter queue with its redrive.

import "./desk.css";
import type { ViewProps } from "../app.tsx";
import { backlog, delays } from "../api/operate.ts";
import { useQuery } from "../api/query.ts";
import { many, moves } from "../backlog.ts";
import { useWho } from "../session.tsx";
import { duration, number, plural } from "../ui/format.ts";
import { Page, Panel } from "../ui/page.tsx";
import { Answer, Empty, Listed } from "../ui/states.tsx";
import { Table } from "../ui/table.tsx";
import { Ago } from "../ui/time.tsx";
import { DeadLetters } from "./dlq.tsx";
import { columns, useMessages } from "./messages.tsx";

export default function View({ query }: ViewProps) {
  const { can } = useWho();
  return (
    <Page title="Queues" lead="What waits for a decision, a call or its time, and what Weir gave up on.">
      <div class="stack">
        {can("operate") && <Backlog />}
        {can("operate") && <Delays />}
        <Waiting />
        <DeadLetters query={query} />
      </div>
    </Page>
  );
}

function Backlog() {
  const asked = useQuery(backlog, [], { every: 5000 });
  return (
    <Panel title="Backlog" note="of all tenants: messages that wait for a decision or a call" wide flush>
      <Answer of={asked} lines={5}>
        {({ queues, stalled }) => (
          <Table
            caption="Messages that wait, by queue"
            rows={queues.filter((q) => q.waiting > 0)}
            rowKey={(q) => `${q.stage} ${q.provider ?? ""} ${q.queue}`}
            empty={<Empty title="Nothing waits for a decision or a call" />}
            columns={[
              { key: "stage", title: "For", cell: (q) => q.provider ?? (q.stage === "lanes" ? "a provider" : q.stage) },
              { key: "queue", title: "Queue", cell: (q) => (q.queue === "again" ? <span title="Retries and what was decided again, of all priorities">again</span> : q.queue) },
              { key: "n", title: "Messages", cell: (q) => many(q), end: true, width: "8rem" },
              { key: "old", title: "Oldest came", cell: (q) => (q.oldest_at ? <Ago at={q.oldest_at} /> : "–"), width: "9rem" },
              { key: "moves", title: "", cell: (q) => (q.provider && stalled.includes(q.provider) ? <b class="bad-text">stalled: no calls are made</b> : moves(q)) },
            ]}
          />
        )}
      </Answer>
    </Panel>
  );
}

function Delays() {
  const asked = useQuery(delays, [], { every: 5000 });
  const most = Math.max(1, ...(asked.data?.tiers ?? []).map((t) => t.waiting));
  return (
    <Panel title="Delays" note="of all tenants: messages, callbacks and receipts" wide flush>
      <Answer of={asked} lines={5}>
        {({ tiers }) => (
          <Table
            caption="Delays by how long they wait"
            rows={tiers}
            rowKey={(t) => t.name}
            empty={<Empty title="There are no delay topics" />}
            columns={[
              { key: "wait", title: "Waits", cell: (t) => duration(t.wait_ms), width: "6rem" },
              { key: "n", title: "Records", cell: (t) => (t.at_most ? <span title="Too many to count one by one">up to {number(t.waiting)}</span> : number(t.waiting)), end: true, width: "8rem" },
              {
                key: "bar",
                title: "",
                cell: (t) => (
                  <span class="bar" aria-hidden="true">
                    <i style={{ width: `${(t.waiting / most) * 100}%` }} />
                  </span>
                ),
                wideOnly: true,
              },
              { key: "old", title: "Oldest came", cell: (t) => (t.waiting > 0 && t.oldest_at ? <Ago at={t.oldest_at} /> : <span class="muted">–</span>), width: "9rem" },
            ]}
          />
        )}
      </Answer>
    </Panel>
  );
}

function Waiting() {
  const list = useMessages({ status: "scheduled,deferred,retrying" });
  return (
    <Panel
      title="Waiting messages"
      note={
        <span class="panel-actions">
          {list.rows && plural(list.rows.length, "message")}
          {list.more && ", and more "}
          <button type="button" class="button small" onClick={list.refresh} aria-busy={list.loading}>
            Look again
          </button>
        </span>
      }
      wide
      flush
    >
      <Listed of={list} more="Older ones">
        {(rows) => (
          <Table
            caption="Messages that wait"
            columns={columns("status", "to", "class", "why", "at", "due").map((c) => (c.key === "at" ? { ...c, wideOnly: true } : c.key === "class" ? { ...c, roomyOnly: true } : c))}
            rows={rows}
            rowKey={(m) => m.id}
            onEnd={list.loadMore}
            all={20}
            empty={<Empty title="Nothing waits" />}
          />
        )}
      </Listed>
    </Panel>
  );
}
