// What waits and what was given up on: delays by tier, messages that wait for
// their time or a place, and the dead letter queue with its redrive.

import "./desk.css";
import type { ViewProps } from "../app.tsx";
import { delays } from "../api/operate.ts";
import { useQuery } from "../api/query.ts";
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
    <Page title="Queues" lead="What waits for its time, and what Weir gave up on.">
      <div class="stack">
        {can("operate") && <Delays />}
        <Waiting />
        <DeadLetters query={query} />
      </div>
    </Page>
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
