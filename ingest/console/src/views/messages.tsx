// All messages of the tenant, the newest first: the filters are in the address.

import { get } from "../api/client.ts";
import { type Pages, usePages } from "../api/pages.ts";
import { go, link } from "../router.ts";
import { type Message, short } from "../say/why.ts";
import { Input, Select, useDraft } from "../ui/field.tsx";
import { local, millis, number, ofInput, plural, toInput } from "../ui/format.ts";
import { Page, Panel } from "../ui/page.tsx";
import { Empty, Listed } from "../ui/states.tsx";
import { Status, statuses } from "../ui/status.tsx";
import { type Column, Table } from "../ui/table.tsx";
import { Time } from "../ui/time.tsx";

/** Filter is of the API; from and until are RFC 3339. */
interface Filter {
  to?: string;
  status?: string;
  class?: string;
  from?: string;
  until?: string;
}

/** useMessages is a list of messages by the API's filters, at most so many a page. */
export function useMessages(filter: Filter, limit = 500): Pages<Message> {
  return usePages<Message>(
    async (cursor, signal) => {
      const page = await get("/v1/messages", { query: { ...filter, limit, cursor }, signal });
      return { rows: page.messages, next: page.next_cursor, partial: page.partial };
    },
    (m) => m.id,
    [filter.to, filter.status, filter.class, filter.from, filter.until],
  );
}

const all: Record<"at" | "status" | "to" | "class" | "channel" | "provider" | "due" | "why", Omit<Column<Message>, "key">> = {
  at: { title: "Accepted", cell: (m) => <Time at={m.accepted_at} />, width: "7.5rem", narrow: "4.9rem" },
  status: {
    title: "Status",
    cell: (m) => (
      <a href={link("messages", m.id)} aria-label={`${m.status}, open the message of ${local(millis(m.accepted_at), Date.now())}`}>
        <Status status={m.status} />
      </a>
    ),
    width: "7.5rem",
    narrow: "6.6rem",
  },
  to: { title: "To", cell: (m) => (m.to ? <a href={link("recipients", m.to)}>{m.to}</a> : ""), width: "12.5rem", narrow: "auto" },
  class: { title: "Class", cell: (m) => m.class ?? "default", width: "7rem", wideOnly: true },
  channel: { title: "Channel", cell: (m) => m.channel ?? "", width: "5rem", wideOnly: true },
  provider: { title: "Provider", cell: (m) => m.provider ?? "", width: "8rem", wideOnly: true },
  due: { title: "Due", cell: (m) => <Time at={m.retry_at} />, width: "8.5rem" },
  why: {
    title: "Why",
    cell: (m) => (
      <span class="muted" title={short(m)}>
        {short(m)}
      </span>
    ),
    wideOnly: true,
  },
};

/** columns are those of a table of messages, in this order. On a phone the class is there where all are to one recipient. */
export const columns = (...keys: (keyof typeof all)[]): Column<Message>[] => keys.map((key) => ({ key, ...all[key], ...(key === "class" && !keys.includes("to") ? { wideOnly: false } : {}) }));

export function Messages({ query }: { query: URLSearchParams }) {
  const of = (name: string) => query.get(name) ?? "";
  const filter = { status: of("status"), class: of("class"), from: of("from"), until: of("until") };
  const [draft, set] = useDraft(filter);
  const list = useMessages(filter);
  const show = (next: typeof filter) => {
    const to = link("messages", "", { ...next, class: next.class.trim() });
    if (to === link("messages", "", filter)) list.refresh();
    else go(to);
  };
  return (
    <Page title="Messages" lead="The newest first. Open one to see each step, what the provider said and why it was decided so.">
      <Panel
        title="Messages"
        note={
          <span class="panel-actions">
            {list.rows && (list.more ? `${number(list.rows.length)} shown, there are more` : plural(list.rows.length, "message"))}
            <button type="button" class="button small" onClick={list.refresh} aria-busy={list.loading}>
              Look again
            </button>
          </span>
        }
        wide
        flush
      >
        <form
          class="row filters"
          onSubmit={(e) => {
            e.preventDefault();
            show(draft);
          }}
        >
          <Select label="Status" value={draft.status} onValue={(status) => show({ ...draft, status })} options={[...new Set(["", ...statuses, draft.status])].map((s) => [s, s || "any"] as const)} />
          <Input label="Class" value={draft.class} onValue={(cls) => set({ ...draft, class: cls })} placeholder="any" />
          <Input label="From" type="datetime-local" value={toInput(draft.from)} onValue={(v) => set({ ...draft, from: ofInput(v) })} />
          <Input label="Until" type="datetime-local" value={toInput(draft.until)} onValue={(v) => set({ ...draft, until: ofInput(v) })} />
          <button type="submit" class="button">
            Filter
          </button>
        </form>
        <Listed of={list} lines={8} more="Older messages">
          {(rows) => <Table caption="Messages, the newest first" columns={columns("at", "status", "to", "class", "provider", "why")} rows={rows} rowKey={(m) => m.id} onEnd={list.loadMore} empty={<Empty title="No message matches" />} />}
        </Listed>
      </Panel>
    </Page>
  );
}
