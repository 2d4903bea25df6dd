// The overview's six figures, each beside what it usually is.

import type { ComponentChildren } from "preact";
import type { Backlog, DelayTier, Stats, UnderWay } from "../api/operate.ts";
import type { QueryState } from "../api/query.ts";
import { type Hour, change, sumUp, usual } from "../overview.ts";
import { compact, duration, number, percent } from "../ui/format.ts";
import { known } from "../ui/states.tsx";

/** lead says what the figures are compared with. */
export function lead(now: Stats | undefined): string {
  const days = now ? usual(now.before).days : 7;
  if (days === 0) return "The last hour. There are no earlier days to compare it with yet.";
  return days === 1 ? "The last hour, against the same hour of an earlier day." : `The last hour; usual is the median of the same hour of ${days} days before.`;
}

/** Figures shows the backlog of all tenants to who may see it (all), and else what is under way of one. */
export function Figures({ now, underWay, all, waiting }: { now: QueryState<Stats>; underWay: QueryState<UnderWay>; all: QueryState<Backlog> | undefined; waiting: DelayTier[] | undefined }) {
  const h: Hour | undefined = now.data && sumUp(now.data.counts);
  const u = usual(now.data?.before);
  const of = (show: (h: Hour) => string) => known(now, () => show(h as Hour));
  const than = (pick: (h: Hour) => number | undefined, format: (n: number) => string) => {
    const before = u.of(pick);
    return before === undefined ? "" : `usually ${format(before)}`;
  };
  const delta = h && change(h.ended, u.of((x) => x.ended));
  return (
    <dl class="figures">
      <Figure name="Messages ended" value={of((x) => compact(x.ended))} title={h && `${number(h.ended)} messages came to an end: sent, refused, failed, expired, cancelled or repeated`}>
        {than((x) => x.ended, compact)}
        {delta !== undefined && Math.abs(delta) >= 0.01 && ` (${delta > 0 ? "+" : "−"}${percent(Math.abs(delta))})`}
      </Figure>
      <Figure name="Success" value={of((x) => (x.success === undefined ? "–" : percent(x.success)))} bad={h?.success !== undefined && h.success < (u.of((x) => x.success) ?? 0.95) - 0.02} title="Sent, of all that a provider was to have">
        {than((x) => x.success, percent)}
      </Figure>
      <Figure name="p95 to sent" value={of((x) => (x.p95 === undefined ? "–" : duration(x.p95)))} title="From acceptance until a provider took it: 95 % of messages were at most so long on the way">
        {than((x) => x.p95, duration)}
      </Figure>
      {all ? (
        <Figure name="Waiting" value={known(all, (b) => `${b.at_most ? "≤" : ""}${compact(b.waiting)}`)} bad={(all.data?.stalled.length ?? 0) > 0} title="Messages of all tenants that wait for a decision or for a call. Those that wait for a later time are in the delay topics.">
          {waiting && waitWords(waiting)}
        </Figure>
      ) : (
        <Figure name="Under way" value={known(underWay, (b) => `${compact(b.n)}${b.more ? "+" : ""}`)} title="Messages that were admitted and have not ended: queued, sending or retrying now.">
          not ended yet
        </Figure>
      )}
      <Figure name="Refused by limits" value={of((x) => compact(x.limited))}>
        {than((x) => x.limited, compact)}
      </Figure>
      <Figure name="Failed" value={of((x) => compact(x.lost))} title="Failed, unknown, expired or rejected">
        {than((x) => x.lost, compact)}
      </Figure>
    </dl>
  );
}

/** waitWords is how many records wait in all delays. */
const waitWords = (tiers: DelayTier[]) => `${tiers.some((t) => t.at_most) ? "up to " : ""}${compact(tiers.reduce((n, t) => n + t.waiting, 0))} wait in delays`;

function Figure({ name, value, bad, title, children }: { name: string; value: string; bad?: boolean; title?: string | undefined; children?: ComponentChildren }) {
  return (
    <div class="figure" title={title}>
      <dt>{name}</dt>
      <dd class={bad ? "bad-text" : ""}>
        {value}
        <div class="figure-note">{children}</div>
      </dd>
    </div>
  );
}
