// The overview: how this hour goes against the same hour of the last days, what
// limits and providers refuse, and what goes wrong as it happens.

import { useState } from "preact/hooks";
import type { ViewProps } from "../app.tsx";
import { backlog, delays, errors, hour, day, proof, refused, since, stats, underWay } from "../api/operate.ts";
import type { Backlog, Report } from "../api/operate.ts";
import { useQuery } from "../api/query.ts";
import { many, moves, place, worst } from "../backlog.ts";
import { link } from "../router.ts";
import { useWho } from "../session.tsx";
import { Page, Panel } from "../ui/page.tsx";
import { Failed } from "../ui/states.tsx";
import { Ago, Time } from "../ui/time.tsx";
import { LatencyChart, MinuteChart } from "./home-charts.tsx";
import { Figures, lead } from "./home-figures.tsx";
import { Happening, LiveMark, type Show, useHappening } from "./home-live.tsx";
import { Busiest, Limits, ProviderErrors } from "./home-ranks.tsx";

const often = 10_000;

export default function Home(_: ViewProps) {
  const { can } = useWho();
  const whole = useQuery((signal) => stats(signal, { days: 7 }), [], { every: often });
  const minutes = useQuery((signal) => stats(signal, { by: "minute" }), [], { every: often });
  const yesterday = useQuery((signal) => stats(signal, { by: "minute", from: since(day + hour), until: since(day) }), [], { every: 60_000 });
  const waiting = useQuery((signal) => delays(signal), [], { every: often, skip: !can("operate") });
  const said = useQuery((signal) => proof(signal), [], { every: often, skip: !can("operate") });
  const under = useQuery((signal) => underWay(signal), [], { every: 3 * often, skip: can("operate") });
  const all = useQuery((signal) => backlog(signal), [], { every: often / 2, skip: !can("operate") });
  const hit = useQuery((signal) => refused(signal, { from: since(hour), limit: 8 }), [], { every: 3 * often });
  const wrong = useQuery((signal) => errors(signal, { from: since(hour) }), [], { every: 3 * often });
  const [only, setOnly] = useState<Show>("all");
  const live = useHappening(only);
  // They mostly fail together, as ClickHouse does: that is said once.
  const failed = [whole, minutes, yesterday, waiting, under, all, hit, wrong].filter((q) => q.error !== undefined);
  return (
    <Page title="Overview" lead={lead(whole.data)} actions={<LiveMark state={live.state} rate={live.rate} />}>
      {failed[0] && <Failed title={failed.some((q) => q.data !== undefined) ? "Some of this could not be loaded, and may be old" : "Counts could not be loaded"} error={failed[0].error} busy={failed.some((q) => q.loading)} retry={() => failed.forEach((q) => q.reload())} />}
      {(said.data?.stuck ?? []).map((r) => (
        <Stuck key={r.by} of={r} />
      ))}
      {(said.data?.unknown ?? []).map((r) => (
        <Unknown key={r.by} of={r} />
      ))}
      {all.data && all.data.waiting > 0 && <Waiting of={all.data} />}
      <Figures now={whole} underWay={under} all={can("operate") ? all : undefined} waiting={waiting.data?.tiers} />
      <div class="panels even uneven">
        <Panel title="Messages a minute" wide>
          <MinuteChart now={minutes} before={yesterday.data} />
        </Panel>
        <Panel
          title="As it happens"
          note={
            <div class="panel-actions">
              {live.held && <span>paused</span>}
              <Which now={only} onShow={setOnly} />
            </div>
          }
          flush
        >
          <Happening events={live.events} only={only} hold={live.hold} />
        </Panel>
        <Panel title="Time to sent" note="p95 by minute">
          <LatencyChart now={minutes} />
        </Panel>
        <Panel title="Refused by limits" note={can("policy") ? <a href={link("limits")}>Limits</a> : undefined} flush>
          <Limits of={whole} />
        </Panel>
        <Panel title="Refused most" note="recipients, masked" flush>
          <Busiest of={hit} />
        </Panel>
        <Panel title="What providers answered" note={can("operate") ? <a href={link("providers")}>Providers</a> : undefined} flush wide>
          <ProviderErrors of={wrong} />
        </Panel>
      </div>
    </Page>
  );
}

/** Waiting says how many messages wait where, since when, and whether anything moves. */
function Waiting({ of: b }: { of: Backlog }) {
  const w = worst(b);
  if (!w || (b.waiting <= few && b.stalled.length === 0)) return null;
  return (
    <div class={b.stalled.length > 0 ? "notice bad" : "notice"} role="status">
      <div>
        <p class="notice-title">
          Backlog: {many(b)} messages{b.stalled.length > 0 && `. No calls are made to ${b.stalled.join(", ")}`}
        </p>
        <p>
          Most of them, {many(w)}, in {place(w)}
          {w.oldest_at && (
            <>
              ; the oldest came <Ago at={w.oldest_at} />
            </>
          )}
          {moves(w) && `; ${moves(w)}`}. <a href={link("queues")}>Queues</a>
        </p>
      </div>
    </div>
  );
}

/** few messages are under way at any time. */
const few = 100;

/** Stuck names the stages of a process that have work and commit nothing. */
function Stuck({ of: r }: { of: Report }) {
  return (
    <div class="notice bad" role="alert">
      <div>
        <p class="notice-title">Stuck: {r.stuck?.stages.map((s) => s.stage).join(", ")} ({r.by})</p>
        {r.stuck?.stages.map((s) => (
          <p key={s.stage}>
            {s.stage} has had work and has committed nothing since <Time at={s.since} />: {s.why}. Messages of its partitions wait; none is lost.
          </p>
        ))}
      </div>
    </div>
  );
}

/** Unknown names the fields of requests over Kafka that a process met and does not know. */
function Unknown({ of: r }: { of: Report }) {
  return (
    <div class="notice warn" role="status">
      <div>
        <p class="notice-title">Requests over Kafka have fields that Weir does not know ({r.by})</p>
        <p>
          {r.unknown?.fields.map((f) => `${f.name}: ${f.requests.toLocaleString()}${f.nearest ? ` (${f.nearest}?)` : ""}`).join(", ")}. Counted since <Time at={r.unknown?.since ?? r.at} />. Such a field is ignored unless{" "}
          <code>strict: true</code> of its tenant or input rejects the request.
        </p>
      </div>
    </div>
  );
}

function Which({ now, onShow }: { now: Show; onShow: (s: Show) => void }) {
  return (
    <div class="choice" role="group" aria-label="Show">
      {(["all", "failures"] as const).map((o) => (
        <button key={o} type="button" aria-pressed={now === o} onClick={() => onShow(o)}>
          {o}
        </button>
      ))}
    </div>
  );
}
