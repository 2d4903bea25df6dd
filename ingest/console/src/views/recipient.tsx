// One recipient: why nothing came, when the next may go, what is left in each
// window, and everything that was sent. Any spelling leads here.

import "./desk.css";
import { useEffect, useMemo, useState } from "preact/hooks";
import { get } from "../api/client.ts";
import { useLive } from "../api/live.ts";
import { backlog } from "../api/operate.ts";
import { useAgain, useQuery } from "../api/query.ts";
import { useSoon } from "../api/soon.ts";
import type { ViewProps } from "../app.tsx";
import { delays } from "../backlog.ts";
import { find, go, link } from "../router.ts";
import { type LimitState, type Message, type Suppression, again, channels, countdown, covers, leftWords, next, suppressionWords, why } from "../say/why.ts";
import { windowWords } from "../say/window.ts";
import { useWho } from "../session.tsx";
import { Input, Select } from "../ui/field.tsx";
import { local, millis } from "../ui/format.ts";
import { Page, Panel } from "../ui/page.tsx";
import { Answer, Empty, Failed, Listed, Loading } from "../ui/states.tsx";
import { Table } from "../ui/table.tsx";
import { Time, useNow } from "../ui/time.tsx";
import { columns, useMessages } from "./messages.tsx";
import { Places } from "./places.tsx";
import { Suppressions } from "./suppressions.tsx";

export default function Recipient({ param }: ViewProps) {
  return param ? <Known key={param} to={param} /> : <Ask />;
}

/** Ask is the page before a recipient is named. */
function Ask() {
  const [text, set] = useState("");
  return (
    <Page title="Recipients" lead="Why did a number get nothing, and when may it get the next? Paste it as it stands in the ticket.">
      <form
        class="ask"
        onSubmit={(e) => {
          e.preventDefault();
          if (text.trim()) go(find(text));
        }}
      >
        <Input label="Phone number, e-mail address or message id" value={text} onValue={set} placeholder="138 0000 0000" />
        <button type="submit" class="button primary">
          Look up
        </button>
      </form>
    </Page>
  );
}

function Known({ to }: { to: string }) {
  const history = useMessages({ to }, 100);
  const [changed, setChanged] = useState(0);
  const refresh = useSoon(() => {
    history.refresh();
    setChanged((n) => n + 1);
  }, 250);
  const failed = history.rows === undefined && history.error !== undefined;
  useLive({
    query: { to },
    skip: failed,
    onEvents: refresh,
    onGap: refresh,
    onState: (state) => state === "live" && refresh(), // what came between the answer and the stream
  });

  const rows = history.rows;
  const canonical = rows?.find((m) => m.to)?.to;
  const refused = rows?.find((m) => m.status === "limited" || m.status === "deferred");
  const newest = rows?.[0];

  return (
    <Page title={canonical ?? to} lead={canonical && canonical !== to ? <>Looked up as <bdi>{to}</bdi>.</> : undefined}>
      {failed ? (
        <Failed error={history.error} retry={history.refresh} busy={history.loading} />
      ) : rows === undefined ? (
        <Loading lines={6} />
      ) : (
        <div class="stack">
          <Left to={to} rows={rows} changed={changed} />
          <Suppressions to={to} changed={changed} onChange={refresh} />
          {refused && <LastRefused message={refused} newest={refused.id === newest?.id} changed={changed} />}
          <Panel title="Messages" note={rows.length > 0 ? `${rows.length}${history.more ? " newest" : ""}` : undefined} wide flush>
            <Listed of={history} more="Older messages">
              {(rows) => (
                <Table
                  caption={`Messages to ${canonical ?? to}`}
                  columns={columns("at", "status", "class", "channel", "provider", "why")}
                  rows={rows}
                  rowKey={(m) => m.id}
                  onEnd={history.loadMore}
                  empty={
                    history.partial ? (
                      <Empty title="None in these minutes" />
                    ) : (
                      <Empty title="No message to this recipient is known">Other spellings lead to the same place, so it was either never asked for, by another tenant, or longer ago than is kept.</Empty>
                    )
                  }
                />
              )}
            </Listed>
          </Panel>
        </div>
      )}
    </Page>
  );
}

/** Left is what each window leaves to a class, and when the next may go. */
function Left({ to, rows, changed }: { to: string; rows: readonly Message[]; changed: number }) {
  const { can } = useWho();
  const listed = useQuery(async (signal) => (await get("/v1/classes", { signal })).items.map((c) => c.value.name ?? ""), [], { skip: !can("policy") });
  const seen = useMemo(() => rows.map((m) => m.class ?? "default"), [rows]);
  const last = rows.find((m) => m.status === "limited" || m.status === "deferred") ?? rows[0];
  const [picked, pick] = useState<string>();
  const [channel, setChannel] = useState<string>();
  const classes = [...new Set([...seen, ...(listed.data ?? []), "default"])].filter(Boolean).slice(0, 200);
  const cls = picked ?? last?.class ?? "default";
  const via = channel ?? last?.channel ?? "";
  const quota = useQuery((signal) => get("/v1/quota", { query: { to, class: cls, ...(via ? { channel: via as "sms" } : {}) }, signal }), [to, cls, via], { every: 15_000 });
  const waiting = useQuery((signal) => backlog(signal), [], { every: 15_000, skip: !can("operate") });
  const delay = waiting.data && delays(waiting.data);
  useEffect(() => {
    if (changed > 0) quota.reload();
  }, [changed]);
  const now = useNow(1000);
  // A window that has opened meanwhile is asked for at once.
  const opens = quota.data ? Math.min(...quota.data.limits.map((l) => millis(l.reset)).filter((t) => t > (quota.at ?? 0))) : Infinity;
  useEffect(() => {
    if (now > opens) quota.reload();
  }, [now > opens]);

  return (
    <Panel
      title="May the next one go?"
      note={
        <div class="pickers">
          <Select label="Class" value={cls} onValue={pick} options={classes} />
          <Select label="Channel" value={via} onValue={setChannel} options={[["", "any"], ...channels]} />
        </div>
      }
      wide
    >
      <Answer of={quota} lines={3}>
        {(q) => (
          <>
            <Verdict limits={q.limits} cls={q.class} now={now} out={q.suppressed.find((s) => covers(s, q.channel, q.class))} />
            {delay && <p class="muted">Sending takes longer now: {delay}</p>}
            {q.suppressed.length > 0 && <p class="muted">The recipient {q.suppressed.map((s) => suppressionWords(s, now)).join("; ")}.</p>}
            {q.limits.length > 0 && (
              <ul class="windows" aria-label="What is left in each window">
                {q.limits.map((l) => (
                  <li key={`${l.limit} ${l.window}`}>
                    <div class="window-name">
                      {can("policy") ? <a href={link("limits", l.limit)}>{l.limit}</a> : <b>{l.limit}</b>} <span class="muted">{windowWords(l.window)}</span>
                    </div>
                    <Places n={l.n} left={l.remaining} />
                    <div class="window-left num">{leftWords(l, now)}</div>
                  </li>
                ))}
              </ul>
            )}
            {q.unknown && q.unknown.length > 0 && <p class="muted">Not asked, for they depend on what only a message has (its content, provider or metadata): {q.unknown.join(", ")}.</p>}
          </>
        )}
      </Answer>
    </Panel>
  );
}

function Verdict({ limits, cls, now, out }: { limits: readonly LimitState[]; cls: string; now: number; out: Suppression | undefined }) {
  const full = next(limits, now);
  if (out)
    return (
      <p class="verdict warn">
        <b>No: the recipient has opted out.</b> Messages of class {cls} end as suppressed until {out.expires_at ? local(millis(out.expires_at), now) : "it opts in again"}.
      </p>
    );
  if (limits.length === 0)
    return (
      <p class="verdict ok">
        <b>Yes, now.</b> No limit counts messages of class {cls} to this recipient.
      </p>
    );
  if (!full)
    return (
      <p class="verdict ok">
        <b>Yes, now.</b> Every window has room for one of class {cls}.
      </p>
    );
  return (
    <p class="verdict warn">
      <b>
        Not before {local(full.at, now)}, in {countdown(full.at - now)}.
      </b>{" "}
      Limit {full.limit.limit}, {windowWords(full.limit.window)}, is full for class {cls}.
    </p>
  );
}

/** LastRefused says in a sentence why the last refused one was. The evidence is in the message itself. */
function LastRefused({ message, newest, changed }: { message: Message; newest: boolean; changed: number }) {
  const whole = useQuery((signal) => get("/v1/messages/{id}", { path: { id: message.id }, signal }), [message.id]);
  useEffect(() => {
    if (changed > 0) whole.reload();
  }, [changed]);
  // Who waited for the decision may look before the server that is asked has read it.
  useAgain((whole.data?.timeline.length ?? 0) === 0, whole.loading, whole.reload);
  const now = useNow(1000);
  const m = whole.data ?? { ...message, timeline: [] };
  return (
    <Panel title={newest ? "Why the last one did not go" : "Why the last refused one did not go"} wide>
      <p class="verdict plain">
        {whole.loading && !whole.data ? `Refused by limit ${message.limit ?? ""}, ${windowWords(message.window ?? "")}. ${again(message.retry_at, now)}` : why(m, now)}
      </p>
      <p class="muted">
        Class {message.class ?? "default"}, asked for at <Time at={message.accepted_at} />. <a href={link("messages", message.id)}>Open the message</a>
      </p>
    </Panel>
  );
}
