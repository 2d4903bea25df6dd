// Providers: how each is, how fast it may be called, what it answers, and how
// routes share messages out among them.

import "./desk.css";
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { ViewProps } from "../app.tsx";
import { get } from "../api/client.ts";
import { backlog, errors, health, hour, since, stats } from "../api/operate.ts";
import type { Backlog, Errors, ProviderHealth, Stats } from "../api/operate.ts";
import { type QueryState, useQuery } from "../api/query.ts";
import { type Hour, sumUp } from "../overview.ts";
import { many, waits } from "../backlog.ts";
import { callsWords, paceWords, parts, standing } from "../providers.ts";
import { useWho } from "../session.tsx";
import { matchWords } from "../say/limit.ts";
import { compact, duration, number, percent } from "../ui/format.ts";
import { Facts, Page, Panel } from "../ui/page.tsx";
import { Answer, Empty, Failed, known } from "../ui/states.tsx";
import { Badge } from "../ui/status.tsx";
import { Table } from "../ui/table.tsx";
import { Ago, useNow } from "../ui/time.tsx";
import { ChangePace, ChangeWeights, type Route } from "./provider-changes.tsx";

export default function Providers(_: ViewProps) {
  const { can } = useWho();
  const all = useQuery((signal) => health(signal), [], { every: 3000 });
  const routes = useQuery((signal) => get("/v1/routes", { signal }), [], { every: 15_000, skip: !can("policy") });
  const counts = useQuery((signal) => stats(signal, { by: "provider", tenant: "*" }), [], { every: 10_000 });
  const codes = useQuery((signal) => errors(signal, { from: since(hour), tenant: "*" }), [], { every: 15_000 });
  const waiting = useQuery((signal) => backlog(signal), [], { every: 5000 });
  const [change, setChange] = useState<{ kind: "provider" | "route"; name: string }>();
  const failed = [counts, codes, waiting].filter((q) => q.error !== undefined);
  const again = () => {
    all.reload();
    routes.reload();
  };
  return (
    <Page title="Providers" lead="Whom messages go out by: whether calls are made, how fast, and what comes back. A limit refuses; a pace only makes wait. Of all tenants.">
      <Answer of={all} lines={12}>
        {({ providers }) =>
          providers.length === 0 ? (
            <Empty title="The policy has no provider.">
              Add one to the policy file and bring it into force with <code>weir apply</code>.
            </Empty>
          ) : (
            <div class="stack">
              {failed[0] && <Failed title="What they answered could not be loaded, and may be old" error={failed[0].error} busy={failed.some((q) => q.loading)} retry={() => failed.forEach((q) => q.reload())} />}
              <div class="panels even">
                {providers.map((p) => (
                  <Provider key={p.name} of={p} waiting={waiting} counts={counts} codes={codes} onChange={() => setChange({ kind: "provider", name: p.name })} />
                ))}
              </div>
              {can("policy") && (
                <Answer of={routes} lines={3}>
                  {(r) => <Routes of={r.items.map((i) => i.value as Route)} providers={providers} onChange={(name) => setChange({ kind: "route", name })} />}
                </Answer>
              )}
            </div>
          )
        }
      </Answer>
      {change?.kind === "provider" && <ChangePace name={change.name} onClose={() => setChange(undefined)} onDone={again} />}
      {change?.kind === "route" && <ChangeWeights name={change.name} onClose={() => setChange(undefined)} onDone={again} />}
    </Page>
  );
}

function Provider({ of: p, waiting, counts, codes, onChange }: { of: ProviderHealth; waiting: QueryState<Backlog>; counts: QueryState<Stats>; codes: QueryState<Errors>; onChange: () => void }) {
  const now = useNow(1000);
  const s = standing(p, now, waiting.data?.stalled.includes(p.name) ?? false);
  const w = waiting.data && waits(waiting.data, p.name);
  const { can } = useWho();
  const h = (show: (h: Hour) => ComponentChildren) => (counts.data ? show(sumUp(counts.data.counts.filter((c) => c.provider === p.name))) : known(counts, () => ""));
  const said = codes.data?.errors.filter((e) => e.provider === p.name).slice(0, 4);
  const newest = Math.max(...p.lanes.map((l) => Date.parse(l.at)));
  return (
    <Panel title={p.name} note={<Badge tone={s.tone} text={s.state} />}>
      <p class="provider-words">{s.words}</p>
      <Facts
        of={[
          ["Kind", `${p.type} · ${p.channels.join(", ")}`],
          ["Pace", p.pace.length > 0 ? p.pace.map(paceWords).join(", ") + (p.smooth ? ", evenly spaced" : "") : "as fast as it goes"],
          ["At once", `${number(p.concurrency)} calls at most`],
          w !== undefined && p.type !== "none" && p.type !== "external" && ["Waiting", w.waiting > 0 && w.oldest !== undefined ? <>{many(w)}, the oldest since <Ago at={w.oldest} /></> : "nothing"],
          p.lanes.length > 0 && ["Last minute of calls", <span title={`${p.lanes.length} lanes`}>{callsWords(s)}, <Ago at={newest} /></span>],
        ]}
      />
      <div class="provider-hour">
        <h3>Last hour</h3>
        <Facts
          of={[
            ["Sent", h((x) => compact(x.sent))],
            ["Success", h((x) => (x.success === undefined ? "–" : percent(x.success)))],
            ["p95 to sent", h((x) => (x.p95 === undefined ? "–" : duration(x.p95)))],
            ["Delivered", h((x) => receipts(x, x.delivered))],
            ["Undelivered", h((x) => receipts(x, x.undelivered))],
          ]}
        />
      </div>
      <ul class="codes" aria-label={`Errors of ${p.name} in the last hour`}>
        {said?.map((e) => (
          <li key={e.error_code}>
            <code>{e.error_code || "no code"}</code>
            <span class="codes-example" title={e.example}>
              {e.example}
            </span>
            <span class="num">{number(e.events)} ×</span>
          </li>
        ))}
        {!said && codes.error !== undefined && <li class="muted">Its errors are not known now.</li>}
        {said?.length === 0 && <li class="muted">It answered no error in the last hour.</li>}
      </ul>
      {can("policy") && (
        <div class="panel-foot">
          <button type="button" class="button small" onClick={onChange} aria-label={`Change pace of ${p.name}`}>
            Change pace
          </button>
        </div>
      )}
    </Panel>
  );
}

/** receipts writes a count of receipts. None at all is not 0 delivered: many providers send none, or were not told where to. */
const receipts = (h: Hour, n: number) => (h.delivered + h.undelivered > 0 ? compact(n) : <span title="No receipt came in the last hour">–</span>);

function Routes({ of, providers, onChange }: { of: Route[]; providers: ProviderHealth[]; onChange: (name: string) => void }) {
  const share = (name: string) => providers.find((p) => p.name === name)?.share ?? 0;
  return (
    <Panel title="Routes" note="the first that matches takes the message" flush>
      <Table
        caption="Routes, in the order in which they are asked"
        rows={of}
        rowKey={(r) => r.name ?? ""}
        columns={[
          { key: "name", title: "Route", cell: (r) => r.name },
          { key: "match", title: "Takes", wideOnly: true, cell: (r) => matchWords(r.match) },
          {
            key: "to",
            title: "Goes to",
            cell: (r) =>
              parts(r.to ?? [], share).map((p, i) => (
                <span key={p.provider} class="part" title={`Weight ${p.weight}: ${percent(p.meant)} by the policy`}>
                  {i > 0 && ", "}
                  {p.provider} <b class={Math.abs(p.now - p.meant) > 0.005 ? "warn-text" : ""}>{percent(p.now)}</b>
                  {Math.abs(p.now - p.meant) > 0.005 && <span class="muted"> not {percent(p.meant)}</span>}
                </span>
              )),
          },
          { key: "failover", title: "Else", wideOnly: true, cell: (r) => r.failover?.join(", then ") || <span class="muted">it waits</span> },
          {
            key: "do",
            title: "",
            end: true,
            cell: (r) =>
              (r.to?.length ?? 0) > 1 && (
                <button type="button" class="button small" onClick={() => onChange(r.name ?? "")} aria-label={`Change weights of ${r.name}`}>
                  Weights
                </button>
              ),
          },
        ]}
        empty={<Empty title="No routes: every provider of a message's channel has equal weight." />}
      />
    </Panel>
  );
}
