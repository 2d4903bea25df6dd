// Providers: how each is, how fast it may be called, what it answers, and how
// routes share messages out among them.

import { useState } from "preact/hooks";
import type { ViewProps } from "../app.tsx";
import { get } from "../api/client.ts";
import { errors, health, stats } from "../api/operate.ts";
import type { Errors, ProviderHealth, Stats } from "../api/operate.ts";
import { useQuery } from "../api/query.ts";
import { sumUp } from "../overview.ts";
import { callsWords, matchWords, paceWords, parts, standing } from "../providers.ts";
import { ChangeEntry } from "../ui/change.tsx";
import { Checkbox, Input } from "../ui/field.tsx";
import { compact, duration, number, percent } from "../ui/format.ts";
import { Facts, Page, Panel } from "../ui/page.tsx";
import { Answer, Empty } from "../ui/states.tsx";
import { Badge } from "../ui/status.tsx";
import { Table } from "../ui/table.tsx";
import { Ago, useNow } from "../ui/time.tsx";

const hour = 3_600_000;

type Route = { name?: string; match?: Record<string, unknown>; to?: { provider: string; weight?: number }[]; failover?: string[] };

export default function Providers(_: ViewProps) {
  const all = useQuery((signal) => health(signal), [], { every: 3000 });
  const routes = useQuery((signal) => get("/v1/routes", { signal }), [], { every: 15_000 });
  const counts = useQuery((signal) => stats(signal, { by: "provider" }), [], { every: 10_000 });
  const codes = useQuery((signal) => errors(signal, { from: new Date(Date.now() - hour).toISOString() }), [], { every: 15_000 });
  const [change, setChange] = useState<{ kind: "provider" | "route"; name: string }>();
  const again = () => {
    all.reload();
    routes.reload();
  };
  return (
    <Page title="Providers" lead="Whom messages go out by: whether calls are made, how fast, and what comes back. A limit refuses; a pace only makes wait.">
      <Answer of={all} lines={12}>
        {({ providers }) =>
          providers.length === 0 ? (
            <Empty title="The policy has no provider.">
              Add one to the policy file and bring it into force with <code>weir apply</code>.
            </Empty>
          ) : (
            <div class="stack">
              <div class="panels even">
                {providers.map((p) => (
                  <Provider key={p.name} of={p} counts={counts.data} codes={codes.data} onChange={() => setChange({ kind: "provider", name: p.name })} />
                ))}
              </div>
              <Answer of={routes} lines={3}>
                {(r) => <Routes of={r.items.map((i) => i.value as Route)} providers={providers} onChange={(name) => setChange({ kind: "route", name })} />}
              </Answer>
            </div>
          )
        }
      </Answer>
      {change?.kind === "provider" && <ChangePace name={change.name} onClose={() => setChange(undefined)} onDone={again} />}
      {change?.kind === "route" && <ChangeWeights name={change.name} onClose={() => setChange(undefined)} onDone={again} />}
    </Page>
  );
}

function Provider({ of: p, counts, codes, onChange }: { of: ProviderHealth; counts: Stats | undefined; codes: Errors | undefined; onChange: () => void }) {
  const now = useNow(1000);
  const s = standing(p, now);
  const h = counts && sumUp(counts.counts.filter((c) => c.provider === p.name));
  const said = codes?.errors.filter((e) => e.provider === p.name).slice(0, 4);
  const newest = Math.max(...p.lanes.map((l) => Date.parse(l.at)));
  return (
    <Panel title={p.name} note={<Badge tone={s.tone} text={s.state} />}>
      <p class="provider-words">{s.words}</p>
      <Facts
        of={[
          ["Kind", `${p.type} · ${p.channels.join(", ")}`],
          ["Pace", p.pace.length > 0 ? p.pace.map(paceWords).join(", ") + (p.smooth ? ", evenly spaced" : "") : "as fast as it goes"],
          ["At once", `${number(p.concurrency)} calls at most`],
          p.lanes.length > 0 && ["Last minute of calls", <span title={`${p.lanes.length} lanes`}>{callsWords(s)}, <Ago at={newest} /></span>],
        ]}
      />
      <div class="provider-hour">
        <h3>Last hour</h3>
        <Facts
          of={[
            ["Sent", h ? compact(h.sent) : "…"],
            ["Success", h ? (h.success === undefined ? "–" : percent(h.success)) : "…"],
            ["p95 to sent", h ? (h.p95 === undefined ? "–" : duration(h.p95)) : "…"],
            ["Undelivered", h ? compact(h.undelivered) : "…"],
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
        {said?.length === 0 && <li class="muted">It answered no error in the last hour.</li>}
      </ul>
      <div class="panel-foot">
        <button type="button" class="button small" onClick={onChange} aria-label={`Change pace of ${p.name}`}>
          Change pace
        </button>
      </div>
    </Panel>
  );
}

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

function ChangePace({ name, onClose, onDone }: { name: string; onClose: () => void; onDone: () => void }) {
  return (
    <ChangeEntry kind="providers" name={name} title={`The pace of ${name}`} onClose={onClose} onDone={onDone}>
      {(value, set, wrong) => {
        const pace = (value["pace"] as string[] | undefined) ?? [];
        return (
          <div class="form">
            <Input
              label="Calls at most"
              value={pace.join(", ")}
              onValue={(v) => set({ ...value, pace: v.split(",").map((w) => w.trim()).filter(Boolean) })}
              placeholder="as fast as it goes"
              error={wrong("/pace")}
              hint="Over the whole cluster, in any such time: 5/1s, 200/60s. With commas between several."
            />
            <Checkbox label="Space calls evenly" checked={value["smooth"] === true} onValue={(v) => set({ ...value, smooth: v || undefined })} hint="Else they come in bursts, as the windows allow." />
            {wrong("/smooth") && <p class="field-error">{wrong("/smooth")}</p>}
          </div>
        );
      }}
    </ChangeEntry>
  );
}

function ChangeWeights({ name, onClose, onDone }: { name: string; onClose: () => void; onDone: () => void }) {
  return (
    <ChangeEntry kind="routes" name={name} title={`The weights of ${name}`} onClose={onClose} onDone={onDone}>
      {(value, set, wrong) => {
        const to = (value["to"] as NonNullable<Route["to"]> | undefined) ?? [];
        const shares = parts(to, () => 1);
        return (
          <div class="form">
            {to.map((t, i) => (
              <Input
                key={t.provider}
                label={t.provider}
                type="number"
                min={0}
                max={1_000_000}
                inputMode="numeric"
                value={String(t.weight ?? 1)}
                onValue={(v) => set({ ...value, to: to.map((x, j) => (j === i ? { ...x, weight: v === "" ? 0 : Math.trunc(Number(v)) } : x)) })}
                error={wrong(`/to/${i}`)}
                hint={`${percent(shares[i]?.meant ?? 0)} of its messages, while all are well`}
              />
            ))}
            {wrong("/to") && !to.some((_, i) => wrong(`/to/${i}`)) && <p class="field-error">{wrong("/to")}</p>}
          </div>
        );
      }}
    </ChangeEntry>
  );
}
