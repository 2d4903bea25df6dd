// The overview: how this hour goes against the same hour of the last days, what
// limits and providers refuse, and what goes wrong as it happens.

import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { ViewProps } from "../app.tsx";
import type { Event, LiveState } from "../api/live.ts";
import { useLive } from "../api/live.ts";
import { delays, errors, refused, stats, underWay } from "../api/operate.ts";
import type { Backlog, Errors, Refused, Stats } from "../api/operate.ts";
import { useQuery } from "../api/query.ts";
import type { QueryState } from "../api/query.ts";
import type { Hour } from "../overview.ts";
import { Seconds, byMinute, change, isFailure, isResult, latest, sumUp, usual } from "../overview.ts";
import { link } from "../router.ts";
import { useWho } from "../session.tsx";
import { Chart } from "../ui/chart.tsx";
import { compact, duration, number, percent, plural, words } from "../ui/format.ts";
import { Page, Panel } from "../ui/page.tsx";
import { Answer, Empty, Failed } from "../ui/states.tsx";
import { Status } from "../ui/status.tsx";
import { Table } from "../ui/table.tsx";
import { Ago, Time } from "../ui/time.tsx";

const hour = 3_600_000;
const day = 24 * hour;
const iso = (ms: number) => new Date(ms).toISOString();
const often = 10_000;

export default function Home(_: ViewProps) {
  const { can } = useWho();
  const whole = useQuery((signal) => stats(signal, { days: 7 }), [], { every: often });
  const minutes = useQuery((signal) => stats(signal, { by: "minute" }), [], { every: often });
  const yesterday = useQuery((signal) => stats(signal, { by: "minute", from: iso(Date.now() - day - hour), until: iso(Date.now() - day) }), [], { every: 60_000 });
  const waiting = useQuery((signal) => delays(signal), [], { every: often, skip: !can("admin") });
  const backlog = useQuery((signal) => underWay(signal), [], { every: 3 * often });
  const lastHour = () => ({ from: iso(Date.now() - hour) });
  const hit = useQuery((signal) => refused(signal, { ...lastHour(), limit: 8 }), [], { every: 3 * often });
  const wrong = useQuery((signal) => errors(signal, lastHour()), [], { every: 3 * often });
  const [only, setOnly] = useState<"all" | "failures">("all");
  const live = useHappening(only);
  return (
    <Page title="Overview" lead={lead(whole.data)} actions={<LiveMark state={live.state} rate={live.rate} />}>
      <Figures now={whole.data} backlog={backlog.data} waiting={waiting.data?.tiers.reduce((n, t) => n + t.waiting, 0)} />
      {whole.error && !whole.loading ? <Failed error={whole.error} retry={whole.reload} /> : null}
      <div class="panels even uneven">
        <Panel title="Messages a minute" wide>
          <MinuteChart now={minutes.data} before={yesterday.data} />
        </Panel>
        <Panel
          title="As it happens"
          note={
            <div class="choice" role="group" aria-label="Show">
              {(["all", "failures"] as const).map((o) => (
                <button key={o} type="button" aria-pressed={only === o} onClick={() => setOnly(o)}>
                  {o}
                </button>
              ))}
            </div>
          }
          flush
        >
          <Happening events={live.events} only={only} />
        </Panel>
        <Panel title="Time to sent" note="p95 by minute">
          <LatencyChart now={minutes.data} />
        </Panel>
        <Panel title="Refused by limits" note={can("admin") ? <a href={link("limits")}>Limits</a> : undefined} flush>
          <div class="rank">
            <Answer of={whole} lines={4}>
              {(s) => <Limits of={s} />}
            </Answer>
          </div>
        </Panel>
        <Panel title="Refused most" note="recipients, masked" flush>
          <div class="rank">
            <Busiest of={hit} />
          </div>
        </Panel>
        <Panel title="What providers answered" note={can("admin") ? <a href={link("providers")}>Providers</a> : undefined} flush wide>
          <ProviderErrors of={wrong} />
        </Panel>
      </div>
    </Page>
  );
}

/** lead says what the figures are compared with. */
function lead(now: Stats | undefined): string {
  const days = now ? usual(now.before).days : 7;
  if (days === 0) return "The last hour. There are no earlier days to compare it with yet.";
  return days === 1 ? "The last hour, against the same hour of an earlier day." : `The last hour; usual is the median of the same hour of ${days} days before.`;
}

/** useHappening follows all statuses. However many come, it draws once a second. */
function useHappening(only: "all" | "failures") {
  const counted = useRef(new Seconds(60));
  const recent = useRef({ all: [] as Event[], failures: [] as Event[] });
  const [shown, show] = useState<{ rate: number; events: Event[] }>({ rate: 0, events: [] });
  const state = useLive({
    onEvents: (events) => {
      counted.current.add(events.length, Date.now());
      const r = recent.current;
      recent.current = { all: latest(r.all, events, isResult, seen), failures: latest(r.failures, events, isFailure, seen) };
    },
  });
  useEffect(() => {
    held.current = false;
    const look = () => {
      if (document.hidden || held.current) return;
      const rate = counted.current.rate(5, Date.now());
      const events = recent.current[only];
      show((s) => (s.rate === rate && s.events === events ? s : { rate, events }));
    };
    look();
    const timer = setInterval(look, 1000);
    return () => clearInterval(timer);
  }, [only]);
  return { state, ...shown };
}

const seen = 7;
/** Rows stand still while somebody points at one. */
const held = { current: false };

function LiveMark({ state, rate }: { state: LiveState; rate: number }) {
  const text: Record<LiveState, string> = { connecting: "connecting", live: "live", waiting: "not live, trying again", resting: "resting", refused: "not live, refused" };
  return (
    <p class={`live ${state === "live" ? "on" : state === "connecting" ? "" : "off"}`}>
      <span>{text[state]}</span>
      {state === "live" && <span class="num">{rate < 10 ? Math.round(rate * 10) / 10 : compact(Math.round(rate))} events/s</span>}
    </p>
  );
}

function Figures({ now, backlog, waiting }: { now: Stats | undefined; backlog: Backlog | undefined; waiting: number | undefined }) {
  const h: Hour | undefined = now && sumUp(now.counts);
  const u = usual(now?.before);
  const than = (pick: (h: Hour) => number | undefined, format: (n: number) => string) => {
    const before = u.of(pick);
    return before === undefined ? "" : `usually ${format(before)}`;
  };
  const delta = h && change(h.ended, u.of((x) => x.ended));
  return (
    <dl class="figures">
      <Figure name="Messages ended" value={h && compact(h.ended)} title={h && `${number(h.ended)} messages came to an end: sent, refused, failed, expired, cancelled or repeated`}>
        {than((x) => x.ended, compact)}
        {delta !== undefined && Math.abs(delta) >= 0.01 && ` (${delta > 0 ? "+" : "−"}${percent(Math.abs(delta))})`}
      </Figure>
      <Figure name="Success" value={h && (h.success === undefined ? "–" : percent(h.success))} tone={h?.success !== undefined && h.success < (u.of((x) => x.success) ?? 0.95) - 0.02 ? "bad" : undefined} title="Sent, of all that a provider was to have">
        {than((x) => x.success, percent)}
      </Figure>
      <Figure name="p95 to sent" value={h && (h.p95 === undefined ? "–" : duration(h.p95))} title="From acceptance until a provider took it: 95 % of messages were at most so long on the way">
        {than((x) => x.p95, duration)}
      </Figure>
      <Figure name="Under way" value={backlog && `${compact(backlog.n)}${backlog.more ? "+" : ""}`} title="Messages that were admitted and have not ended: queued, sending or retrying now. Those that wait for a later time are in the delay topics.">
        {waiting === undefined ? "not ended yet" : `${compact(waiting)} wait in delays`}
      </Figure>
      <Figure name="Refused by limits" value={h && compact(h.limited)}>
        {than((x) => x.limited, compact)}
      </Figure>
      <Figure name="Failed" value={h && compact(h.lost)} title="Failed, unknown or expired">
        {than((x) => x.lost, compact)}
      </Figure>
    </dl>
  );
}

function Figure({ name, value, tone, title, children }: { name: string; value: string | undefined; tone?: "bad" | undefined; title?: string | undefined; children?: ComponentChildren }) {
  return (
    <div class="figure" title={title}>
      <dt>{name}</dt>
      <dd class={tone === "bad" ? "bad-text" : ""}>
        {value ?? <span class="muted">…</span>}
        <div class="figure-note">{value === undefined ? "" : children}</div>
      </dd>
    </div>
  );
}

function MinuteChart({ now, before }: { now: Stats | undefined; before: Stats | undefined }) {
  const lines = useMemo(() => now && byMinute(now, Date.now()), [now]);
  const past = useMemo(() => {
    if (!before || !lines) return undefined;
    const b = byMinute(before, Date.now());
    const at = new Map(b.times.map((t, i) => [t + 86_400, (b.sent[i] ?? 0) + (b.refused[i] ?? 0) + (b.lost[i] ?? 0)]));
    return at.size > 0 && [...at.values()].some((v) => v > 0) ? lines.times.map((t) => at.get(t) ?? null) : undefined;
  }, [before, lines]);
  if (!lines) return <div class="chart-hold tall" aria-hidden="true" />;
  const sum = (v: number[]) => v.reduce((a, b) => a + b, 0);
  return (
    <Chart
      height={200}
      times={lines.times}
      summary={`Messages a minute in the last hour: ${plural(sum(lines.sent), "message")} sent, ${number(sum(lines.refused))} refused by limits, ${number(sum(lines.lost))} failed.`}
      series={[
        { name: "Sent", color: "--c1", values: lines.sent, fill: true },
        { name: "Refused by limits", color: "--c4", values: lines.refused },
        { name: "Failed", color: "--c3", values: lines.lost },
        ...(past ? [{ name: "All, yesterday", color: "--c2", values: past, dash: true }] : []),
      ]}
    />
  );
}

function LatencyChart({ now }: { now: Stats | undefined }) {
  const lines = useMemo(() => now && byMinute(now, Date.now()), [now]);
  if (!lines) return <div class="chart-hold" aria-hidden="true" />;
  const worst = Math.max(0, ...lines.p95.filter((v) => v !== null));
  return <Chart height={244} times={lines.times} summary={`Of each minute, the time to sent that 95 % took at most. The longest was ${duration(worst)}.`} format={duration} series={[{ name: "95 % took at most", color: "--c1", values: lines.p95, fill: true }]} />;
}

function Happening({ events, only }: { events: Event[]; only: "all" | "failures" }) {
  return (
    <div class="happening" onMouseEnter={() => (held.current = true)} onMouseLeave={() => (held.current = false)} onFocusIn={() => (held.current = true)} onFocusOut={() => (held.current = false)}>
      <Table
        caption={only === "all" ? "The latest messages that came to an end" : "The latest messages that failed"}
        fixed
        rows={events}
        rowKey={(_, i) => String(i)} // rows stay, and what they show changes: nothing moves
        columns={[
          { key: "at", title: "When", cell: (e) => <Time at={e.at} />, width: "5.6rem" },
          { key: "status", title: "Status", cell: (e) => <Status status={e.status ?? ""} />, width: "7.4rem" },
          { key: "to", title: "Recipient", cell: (e) => <a href={link("messages", e.message_id ?? "")}>{e.to || "unreadable"}</a> },
          { key: "why", title: "By", wideOnly: true, cell: (e) => <span title={why(e)}>{why(e)}</span>, width: "30%" },
        ]}
        empty={<Empty title="Nothing since this page was opened.">{only === "all" ? "Messages show here when they end." : "Messages that fail, expire, are rejected or do not arrive show here at once."}</Empty>}
      />
    </div>
  );
}

const why = (e: Event) => (e.limit ? `${e.limit} ${e.window ?? ""}` : e.error) || [e.provider, e.error_code].filter(Boolean).join(" ") || words(e.reason ?? "");

function Limits({ of }: { of: Stats }) {
  const rows = useMemo(() => [...of.limits].sort((a, b) => (b.refused ?? 0) + (b.observed ?? 0) - (a.refused ?? 0) - (a.observed ?? 0)).slice(0, 8), [of]);
  const most = Math.max(1, ...rows.map((l) => (l.refused ?? 0) + (l.observed ?? 0)));
  const { can } = useWho();
  return (
    <Table
      caption="Refusals by limit and window in the last hour"
      rows={rows}
      rowKey={(l) => `${l.limit} ${l.window}`}
      columns={[
        { key: "limit", title: "Limit", cell: (l) => (can("admin") ? <a href={link("limits", l.limit)}>{l.limit}</a> : l.limit) },
        { key: "window", title: "Window", cell: (l) => <code>{l.window}</code> },
        { key: "bar", title: "", wideOnly: true, cell: (l) => <Bar part={((l.refused ?? 0) + (l.observed ?? 0)) / most} /> },
        { key: "refused", title: "Refused", end: true, cell: (l) => number(l.refused ?? 0) },
        { key: "observed", title: "Observed", end: true, cell: (l) => (l.observed ? number(l.observed) : <span class="muted">–</span>) },
      ]}
      empty={<Empty title="No limit refused anything in the last hour." />}
    />
  );
}

function Bar({ part, tone }: { part: number; tone?: string }) {
  return (
    <span class={`bar ${tone ?? "warn"}`} aria-hidden="true">
      <i style={{ width: `${Math.max(2, part * 100)}%` }} />
    </span>
  );
}

function Busiest({ of }: { of: QueryState<Refused> }) {
  return (
    <Answer of={of} lines={4}>
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
    </Answer>
  );
}

function ProviderErrors({ of }: { of: QueryState<Errors> }) {
  return (
    <Answer of={of} lines={4}>
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
    </Answer>
  );
}
