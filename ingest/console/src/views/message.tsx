// One message: what it came to and why, every step with the time between, what
// the provider said, the decision with its evidence, and what can be done now.
// Without an id it is the list of all.

import "./desk.css";
import { ApiError, get } from "../api/client.ts";
import { useLive } from "../api/live.ts";
import { useAgain, useQuery } from "../api/query.ts";
import { useSoon } from "../api/soon.ts";
import type { ViewProps } from "../app.tsx";
import { link } from "../router.ts";
import { type Event, type Message, answer, decided, ended, evidenceWords, reasonWords, scopeWords, verdictWords, why } from "../say/why.ts";
import { windowWords } from "../say/window.ts";
import { Copy } from "../ui/copy.tsx";
import { duration, millis, plural } from "../ui/format.ts";
import { Facts, Page, Panel } from "../ui/page.tsx";
import { Answer, Empty } from "../ui/states.tsx";
import { Status, toneOf } from "../ui/status.tsx";
import { Time, useNow } from "../ui/time.tsx";
import { Actions } from "./message-actions.tsx";
import { Messages } from "./messages.tsx";

export default function View({ param, query }: ViewProps) {
  return param ? <One key={param} id={param} /> : <Messages query={query} />;
}

function One({ id }: { id: string }) {
  const asked = useQuery((signal) => get("/v1/messages/{id}", { path: { id }, signal }), [id]);
  const m = asked.data;
  const refresh = useSoon(asked.reload, 100);
  useLive({
    query: { to: m?.to },
    skip: !m?.to,
    onGap: refresh,
    onState: (state) => state === "live" && refresh(), // what came between the answer and the stream
    onEvents: (events) => events.some((e) => e.message_id === id) && refresh(),
  });
  // A message that was just taken in may not be known here yet.
  const missing = asked.error instanceof ApiError && asked.error.code === "message_not_found";
  const young = missing || (m !== undefined && (m.status === "accepted" || m.timeline.length === 0));
  useAgain(missing, asked.loading, asked.reload);
  useAgain(young && !missing, asked.loading, asked.reload, Infinity);
  return (
    <Page
      title="Message"
      lead={
        <span class="message-head">
          {m && <Status status={m.status} />}
          <Copy text={id} label="the message's id" />
        </span>
      }
      actions={m && <Actions m={m} onDone={refresh} />}
    >
      {missing && !m ? (
        <Empty title="No such message">
          No message of this tenant has this id. One that another instance has just taken in shows within two seconds. <a href={link("messages")}>All messages</a>
          <p>
            <button type="button" class="button small" onClick={asked.reload} aria-busy={asked.loading}>
              Look again
            </button>
          </p>
        </Empty>
      ) : (
        <Answer of={asked} lines={10}>
          {(m) => <Shown m={m} />}
        </Answer>
      )}
    </Page>
  );
}

function Shown({ m }: { m: Message }) {
  const now = useNow(ended(m.status) && !(millis(m.retry_at) > Date.now()) ? 60_000 : 1000);
  const said = answer(m);
  return (
    <div class="stack">
      <section class={`panel say ${toneOf(m.status)}`} aria-label="What became of it">
        <p class="verdict plain">{why(m, now)}</p>
      </section>
      <Panel title="Message" wide>
        <Facts
          of={[
            ["To", m.to ? <a href={link("recipients", m.to)}>{m.to}</a> : "unreadable"],
            ["Class", m.class ?? "default"],
            ["Channel", m.channel ?? "–"],
            m.template && ["Template", m.template],
            m.provider && ["Provider", m.provider],
            m.provider_message_id && ["Provider's id", <Copy key="p" text={m.provider_message_id} label="the provider's id" />],
            ["Accepted", <Time key="t" at={m.accepted_at} />],
            !!m.attempt && ["Attempts", String(m.attempt)],
            (m.segments ?? 1) > 1 && ["SMS parts", String(m.segments)],
            said && ["Provider's answer", said],
            m.redrive_of && ["Sends again", <a key="r" href={link("messages", m.redrive_of)}>the message {m.redrive_of.slice(0, 8)}…</a>],
            m.duplicate_of && ["Repeats", <a key="d" href={link("messages", m.duplicate_of)}>the message {m.duplicate_of.slice(0, 8)}…</a>],
          ]}
        />
      </Panel>
      <Panel title="Timeline" note={plural(m.timeline.length, "step")} wide>
        {m.timeline.length === 0 ? (
          <Empty title="No step yet">Weir holds the request and has not decided it.</Empty>
        ) : (
          <ol class="timeline">
            {m.accepted_at && (
              <li class="step info">
                <div class="step-head">
                  <b>accepted</b> <Time at={m.accepted_at} />
                </div>
                {m.timeline[0]?.source && <p class="muted">Weir holds the request: {m.timeline[0].source.topic}, partition {m.timeline[0].source.partition}, offset {m.timeline[0].source.offset}.</p>}
              </li>
            )}
            {m.timeline.map((e, i) => (
              <Step key={i} e={e} last={e === decided(m)} after={millis(e.at) - millis(i === 0 ? m.accepted_at : m.timeline[i - 1]?.at)} now={now} />
            ))}
          </ol>
        )}
      </Panel>
      <DecisionPanel m={m} now={now} />
    </div>
  );
}

function Step({ e, last, after, now }: { e: Event; last: boolean; after: number; now: number }) {
  const status = e.status ?? "";
  const said = answer(e);
  const d = e.decision;
  return (
    <li class={`step ${toneOf(status)}`}>
      <div class="step-head">
        <b>{status || "decision"}</b> <Time at={e.at} /> {Number.isFinite(after) && <span class="gap num">+{duration(Math.max(0, after))}</span>}
      </div>
      {(e.provider || (e.attempt ?? 0) > 0) && ["sending", "retrying", "sent", "delivered", "undelivered", "failed", "unknown"].includes(status) && (
        <p>
          {(e.attempt ?? 0) > 0 && `Attempt ${e.attempt}`}
          {e.provider && ` by ${e.provider}`}
          {said && (
            <>
              : <q class="said">{said}</q>
            </>
          )}
        </p>
      )}
      {e.reason && status !== "limited" && <p class="muted">{reasonWords(e.reason)}.</p>}
      {!last && d?.evidence?.map((v, i) => (
        <p key={i}>{evidenceWords(v, now).replace(/^./, (c) => c.toUpperCase())}.</p>
      ))}
      {e.observed && (
        <p>
          Limit {e.limit} ({windowWords(e.window ?? "")}) only observes: enforced, it would have refused it.
        </p>
      )}
      {e.retry_at && !ended(status) && (
        <p class="muted">
          Again at <Time at={e.retry_at} />.
        </p>
      )}
    </li>
  );
}

/** DecisionPanel is what admission decided last, with its place in the log, for whoever must prove it. */
function DecisionPanel({ m, now }: { m: Message; now: number }) {
  const e = decided(m);
  const withOne = e?.decision ? e : m.timeline.findLast((s) => s.decision);
  const d = withOne?.decision;
  if (!d) return null;
  return (
    <Panel title="Decision" note="as weir audit proves it" wide>
      <Facts
        of={[
          ["Verdict", verdictWords(d.verdict)],
          ["Decided at", <Time key="t" at={d.t} />],
          ["Policy revision", String(d.revision)],
          ["Partition", String(d.partition)],
          ["Sequence", String(d.seq)],
        ]}
      />
      {d.evidence && d.evidence.length > 0 && (
        <>
          <h3 class="sub">Evidence</h3>
          <ul class="plain-list">
            {d.evidence.map((v, i) => (
              <li key={i}>{evidenceWords(v, now).replace(/^./, (c) => c.toUpperCase())}.</li>
            ))}
          </ul>
        </>
      )}
      {d.charges && d.charges.length > 0 && (
        <>
          <h3 class="sub">Places taken</h3>
          <ul class="plain-list">
            {d.charges.map((c, i) => (
              <li key={i}>
                {c.cost === 1 ? "One" : c.cost} in limit {c.limit}, for {scopeWords(c.scope)}, at <Time at={c.t} />
              </li>
            ))}
          </ul>
        </>
      )}
    </Panel>
  );
}
