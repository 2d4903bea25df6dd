// What limits and providers refused most in the last hour.

import type { ComponentChildren } from "preact";
import type { Errors, Refused, Stats } from "../api/operate.ts";
import type { QueryState } from "../api/query.ts";
import { link } from "../router.ts";
import { useWho } from "../session.tsx";
import { number } from "../ui/format.ts";
import { Empty, Loading } from "../ui/states.tsx";
import { Table } from "../ui/table.tsx";
import { Ago } from "../ui/time.tsx";

/** Rank is Answer where why something failed is said elsewhere. */
function Rank<T>({ of, wide, children }: { of: QueryState<T>; wide?: boolean; children: (data: T) => ComponentChildren }) {
  return <div class={wide ? "" : "rank"}>{of.data !== undefined ? children(of.data) : of.error !== undefined ? <p class="muted inset">Not known now.</p> : <Loading lines={4} />}</div>;
}

export function Limits({ of }: { of: QueryState<Stats> }) {
  const { can } = useWho();
  return (
    <Rank of={of}>
      {({ limits }) => {
        const all = (l: (typeof limits)[number]) => (l.refused ?? 0) + (l.observed ?? 0);
        const rows = [...limits].sort((a, b) => all(b) - all(a)).slice(0, 8);
        const most = Math.max(1, ...rows.map(all));
        return (
          <Table
            caption="Refusals by limit and window in the last hour"
            rows={rows}
            rowKey={(l) => `${l.limit} ${l.window}`}
            columns={[
              { key: "limit", title: "Limit", cell: (l) => (can("policy") ? <a href={link("limits", l.limit)}>{l.limit}</a> : l.limit) },
              { key: "window", title: "Window", cell: (l) => <code>{l.window}</code> },
              {
                key: "bar",
                title: "",
                wideOnly: true,
                cell: (l) => (
                  <span class="bar warn" aria-hidden="true">
                    <i style={{ width: `${Math.max(2, (all(l) / most) * 100)}%` }} />
                  </span>
                ),
              },
              { key: "refused", title: "Refused", end: true, cell: (l) => number(l.refused ?? 0) },
              { key: "observed", title: "Observed", end: true, cell: (l) => (l.observed ? number(l.observed) : <span class="muted">–</span>) },
            ]}
            empty={<Empty title="No limit refused anything in the last hour." />}
          />
        );
      }}
    </Rank>
  );
}

export function Busiest({ of }: { of: QueryState<Refused> }) {
  return (
    <Rank of={of}>
      {(r) => (
        <Table
          caption="Recipients that limits refused most in the last hour"
          rows={r.recipients}
          rowKey={(x, i) => `${x.to} ${x.limit} ${i}`}
          columns={[
            { key: "to", title: "Recipient", cell: (x) => <span class="num">{x.to}</span> },
            { key: "limit", title: "Limit", cell: (x) => x.limit },
            { key: "last", title: "Last", cell: (x) => <Ago at={x.last_at} /> },
            { key: "n", title: "Refused", end: true, cell: (x) => number(x.refused) },
          ]}
          empty={<Empty title="Nobody was refused in the last hour." />}
        />
      )}
    </Rank>
  );
}

export function ProviderErrors({ of }: { of: QueryState<Errors> }) {
  return (
    <Rank of={of} wide>
      {(r) => (
        <Table
          caption="Errors of providers in the last hour"
          rows={r.errors.slice(0, 12)}
          rowKey={(e, i) => `${e.provider} ${e.error_code} ${i}`}
          columns={[
            { key: "provider", title: "Provider", cell: (e) => e.provider || <span class="muted">none</span> },
            { key: "code", title: "Code", cell: (e) => (e.error_code ? <code>{e.error_code}</code> : <span class="muted">none</span>) },
            { key: "example", title: "For example", wideOnly: true, cell: (e) => <span title={e.example}>{e.example}</span> },
            { key: "n", title: "Times", end: true, cell: (e) => number(e.events) },
          ]}
          empty={<Empty title="No provider refused or failed in the last hour." />}
        />
      )}
    </Rank>
  );
}
