// All messages of the tenant, the newest first: the filters are in the address.

import { get } from "../api/client.ts";
import { usePages } from "../api/pages.ts";
import { go, link } from "../router.ts";
import { type Message, short } from "../say/why.ts";
import { Input, Select } from "../ui/field.tsx";
import { plural } from "../ui/format.ts";
import { Page, Panel } from "../ui/page.tsx";
import { Empty, Failed, Loading } from "../ui/states.tsx";
import { Status } from "../ui/status.tsx";
import { type Column, Table } from "../ui/table.tsx";
import { Time } from "../ui/time.tsx";
import { useState } from "preact/hooks";

const statuses = ["accepted", "scheduled", "deferred", "queued", "sending", "retrying", "sent", "delivered", "undelivered", "failed", "unknown", "limited", "suppressed", "expired", "cancelled", "rejected", "duplicate"];

/** useMessages is a list of messages by the API's filters, page by page. */
export function useMessages(filter: { to?: string; status?: string; class?: string }, skip = false) {
  return usePages<Message>(
    async (cursor, signal) => {
      const page = await get("/v1/messages", { query: { ...filter, limit: 500, cursor }, signal });
      return { rows: page.messages, next: page.next_cursor };
    },
    (m) => m.id,
    [filter.to, filter.status, filter.class],
    skip,
  );
}

export const messageColumns: readonly Column<Message>[] = [
  { key: "at", title: "Accepted", cell: (m) => <Time at={m.accepted_at} />, width: "8.5rem" },
  {
    key: "status",
    title: "Status",
    cell: (m) => (
      <a href={link("messages", m.id)} aria-label={`${m.status}, open the message`}>
        <Status status={m.status} />
      </a>
    ),
    width: "8.5rem",
  },
  { key: "to", title: "To", cell: (m) => (m.to ? <a href={link("recipients", m.to)}>{m.to}</a> : ""), width: "12rem" },
  { key: "class", title: "Class", cell: (m) => m.class ?? "default", width: "8rem", wideOnly: true },
  { key: "provider", title: "Provider", cell: (m) => m.provider ?? "", width: "9rem", wideOnly: true },
  { key: "why", title: "Why", cell: (m) => <span class="muted">{short(m)}</span>, wideOnly: true },
];

export function Messages({ query }: { query: URLSearchParams }) {
  const filter = { status: query.get("status") ?? "", class: query.get("class") ?? "" };
  const [cls, setClass] = useState(filter.class);
  const list = useMessages(filter);
  const to = (next: typeof filter) => go(link("messages", "", next));
  return (
    <Page title="Messages" lead="The newest first. Open one to see each step, what the provider said and why it was decided so.">
      <Panel
        title="Messages"
        note={list.rows && `${plural(list.rows.length, "message")}${list.more ? " shown, there are more" : ""}`}
        wide
        flush
      >
        <form
          class="row filters"
          onSubmit={(e) => {
            e.preventDefault();
            to({ ...filter, class: cls.trim() });
          }}
        >
          <Select label="Status" value={filter.status} onValue={(status) => to({ ...filter, status })} options={[["", "any"], ...statuses.map((s) => [s, s] as const)]} />
          <Input label="Class" value={cls} onValue={setClass} placeholder="any" />
          <button type="submit" class="button">
            Filter
          </button>
        </form>
        {list.error !== undefined && !list.loading && <Failed error={list.error} retry={list.refresh} />}
        {list.rows === undefined ? (
          list.loading && <Loading lines={8} />
        ) : (
          <Table caption="Messages, the newest first" columns={messageColumns} rows={list.rows} rowKey={(m) => m.id} onEnd={list.loadMore} empty={<Empty title="No message matches" />} />
        )}
        {list.more && (
          <p class="table-more">
            <button type="button" class="button" onClick={list.loadMore} disabled={list.loading} aria-busy={list.loading}>
              Older messages
            </button>
          </p>
        )}
      </Panel>
    </Page>
  );
}
