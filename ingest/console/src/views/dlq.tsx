// The dead letter queue: what was given up on and why, and sending it again,
// first as a dry run that says what would be sent.

import { useEffect, useRef, useState } from "preact/hooks";
import { type Schemas, get } from "../api/client.ts";
import { usePages } from "../api/pages.ts";
import { type Filter, type Sum, redrive } from "../api/redrive.ts";
import { go, link } from "../router.ts";
import { reasonWords } from "../say/why.ts";
import { useWho } from "../session.tsx";
import { announce } from "../ui/announce.tsx";
import { Input, Select } from "../ui/field.tsx";
import { number, plural, words } from "../ui/format.ts";
import { Panel } from "../ui/page.tsx";
import { Empty, Failed, Loading } from "../ui/states.tsx";
import { type Column, Table } from "../ui/table.tsx";
import { Time } from "../ui/time.tsx";

type Letter = Schemas["DeadLetter"];

const ages: Record<string, number> = { "1h": 3600e3, "24h": 86400e3, "7d": 7 * 86400e3 };

export function DeadLetters({ query }: { query: URLSearchParams }) {
  const { can } = useWho();
  const chosen = { reason: query.get("reason") ?? "", class: query.get("class") ?? "", provider: query.get("provider") ?? "", age: query.get("age") ?? "" };
  const [draft, set] = useState(chosen);
  // A span of time begins when it is chosen, so that pages and the redrive mean the same records.
  const [since, setSince] = useState<string>();
  const key = JSON.stringify(chosen);
  useEffect(() => {
    set(chosen);
    setSince(chosen.age && ages[chosen.age] ? new Date(Date.now() - (ages[chosen.age] as number)).toISOString() : undefined);
  }, [key]);
  const filter: Filter = { ...(chosen.reason && { reason: chosen.reason }), ...(chosen.class && { class: chosen.class }), ...(chosen.provider && { provider: chosen.provider }), ...(since && { since }) };
  const list = usePages<Letter>(
    async (cursor, signal) => {
      const page = await get("/v1/dlq", { query: { ...(filter as Record<string, string>), limit: 200, cursor }, signal });
      return { rows: page.entries, next: page.cursor };
    },
    (l) => l.position,
    [key, since],
  );
  const drive = useRedrive(list.refresh);
  const filtered = Object.keys(filter).length > 0;

  const columns: Column<Letter>[] = [
    { key: "at", title: "Given up", cell: (l) => <Time at={l.at} />, width: "8.5rem" },
    { key: "reason", title: "Why", cell: (l) => <a href={link("messages", l.message_id)}>{reasonWords(l.reason)}</a>, width: "14rem" },
    { key: "to", title: "To", cell: (l) => <code>{l.to ?? ""}</code>, width: "10rem" },
    { key: "class", title: "Class", cell: (l) => l.class ?? "default", width: "8rem", wideOnly: true },
    { key: "provider", title: "Provider", cell: (l) => l.provider ?? "", width: "8rem", wideOnly: true },
    { key: "code", title: "Code", cell: (l) => l.error_code ?? "", wideOnly: true },
    { key: "attempt", title: "Attempts", cell: (l) => l.attempt ?? 0, end: true, width: "5.5rem", wideOnly: true },
  ];
  if (can("send"))
    columns.push({
      key: "again",
      title: "",
      width: "8rem",
      end: true,
      cell: (l) =>
        l.skip ? (
          <span class="muted" title={words(l.skip)}>
            cannot
          </span>
        ) : (
          <button type="button" class="button small" disabled={drive.busy} onClick={() => drive.dry({ ids: [l.position] }, "this message")} aria-label={`Send again: ${reasonWords(l.reason)}, ${l.to ?? l.message_id}`}>
            Send again
          </button>
        ),
    });

  return (
    <Panel title="Dead letters" note={list.rows && `${plural(list.rows.length, "message")}${list.more ? ", and more" : ""}`} wide flush>
      <form
        class="row filters"
        onSubmit={(e) => {
          e.preventDefault();
          go(link("queues", "", { ...draft, reason: draft.reason.trim(), class: draft.class.trim(), provider: draft.provider.trim() }));
          list.refresh();
        }}
      >
        <Select
          label="Given up"
          value={draft.age}
          onValue={(age) => set({ ...draft, age })}
          options={[
            ["", "at any time"],
            ["1h", "in the last hour"],
            ["24h", "in the last 24 h"],
            ["7d", "in the last 7 days"],
          ]}
        />
        <Input label="Reason" value={draft.reason} onValue={(reason) => set({ ...draft, reason })} placeholder="permanent" list="dlq-reasons" />
        <datalist id="dlq-reasons">
          <option value="permanent" />
          <option value="attempts_exhausted" />
        </datalist>
        <Input label="Class" value={draft.class} onValue={(c) => set({ ...draft, class: c })} placeholder="any" />
        <Input label="Provider" value={draft.provider} onValue={(provider) => set({ ...draft, provider })} placeholder="any" />
        <button type="submit" class="button">
          Filter
        </button>
        {can("send") && (
          <button type="button" class="button primary" disabled={drive.busy || !list.rows || list.rows.length === 0} onClick={() => drive.dry(filter, filtered ? "what matches" : "all of it")}>
            Redrive {filtered ? "what matches" : "all"}…
          </button>
        )}
      </form>
      {drive.shown}
      {list.error !== undefined && !list.loading && <Failed error={list.error} retry={list.refresh} />}
      {list.rows === undefined ? (
        list.loading && <Loading lines={4} />
      ) : (
        <Table caption="What was given up on" columns={columns} rows={list.rows} rowKey={(l) => l.position} onEnd={list.loadMore} empty={<Empty title={filtered ? "Nothing matches" : "Weir gave up on nothing"} />} />
      )}
      {list.more && (
        <p class="table-more">
          <button type="button" class="button" onClick={list.loadMore} disabled={list.loading} aria-busy={list.loading}>
            Older ones
          </button>
        </p>
      )}
    </Panel>
  );
}

type Step = { is: "idle" } | { is: "counting" | "would" | "sending" | "sent"; filter: Filter; what: string; sum: Sum } | { is: "failed"; error: unknown; sum: Sum; dry: boolean };

const empty: Sum = { matched: 0, redriven: 0, skipped: {}, by_reason: {}, going: true };

/** useRedrive leads through a redrive: what would be sent, sending, what was sent. */
function useRedrive(onDone: () => void) {
  const [step, set] = useState<Step>({ is: "idle" });
  const ctl = useRef<AbortController | undefined>(undefined);
  useEffect(() => () => ctl.current?.abort(), []);
  const run = async (filter: Filter, what: string, dry: boolean) => {
    ctl.current?.abort();
    const now = (ctl.current = new AbortController());
    let sum = empty;
    const show = (is: "counting" | "would" | "sending" | "sent") => !now.signal.aborted && set({ is, filter, what, sum });
    show(dry ? "counting" : "sending");
    try {
      sum = await redrive(
        filter,
        dry,
        (s) => {
          sum = s;
          show(dry ? "counting" : "sending");
        },
        now.signal,
      );
      show(dry ? "would" : "sent");
      if (!dry) {
        announce(`${plural(sum.redriven, "message")} sent again`);
        onDone();
      }
    } catch (error) {
      if (!now.signal.aborted) set({ is: "failed", error, sum, dry });
    }
  };
  const busy = step.is === "counting" || step.is === "sending";
  const stop = () => {
    ctl.current?.abort();
    set({ is: "idle" });
  };
  return { busy, dry: (filter: Filter, what: string) => void run(filter, what, true), shown: step.is !== "idle" && <Progress step={step} onGo={(f, w) => void run(f, w, false)} onClose={stop} /> };
}

function Progress({ step, onGo, onClose }: { step: Exclude<Step, { is: "idle" }>; onGo: (filter: Filter, what: string) => void; onClose: () => void }) {
  const heading = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (step.is === "would") heading.current?.focus();
  }, [step.is]);
  const { sum } = step;
  const parts = (of: Record<string, number>) =>
    Object.entries(of)
      .filter(([, n]) => n > 0)
      .map(([k, n]) => `${number(n)} ${words(k)}`)
      .join(", ");
  const skipped = Object.values(sum.skipped).reduce((a, b) => a + b, 0);
  return (
    <div ref={heading} class={`notice ${step.is === "failed" ? "bad" : step.is === "sent" ? "ok" : "warn"}`} role="group" aria-label="Redrive" tabIndex={-1}>
      <div aria-live="polite">
        {step.is === "counting" && <p class="notice-title">Dry run: {plural(sum.matched, "message")} found so far…</p>}
        {step.is === "would" && (
          <>
            <p class="notice-title">{sum.redriven === 0 ? "Dry run: nothing would be sent again" : `Dry run: ${plural(sum.redriven, "message")} would be sent again`}</p>
            {sum.redriven > 0 && <p>{parts(sum.by_reason)}. Each becomes a new message of the same content, which limits decide like any other.</p>}
          </>
        )}
        {step.is === "sending" && (
          <>
            <p class="notice-title">{plural(sum.redriven, "message")} sent again so far…</p>
            <progress aria-label="Redrive" />
          </>
        )}
        {step.is === "sent" && (
          <>
            <p class="notice-title">{plural(sum.redriven, "message")} sent again</p>
            <p>
              {parts(sum.by_reason)} {sum.redriven > 0 && <a href={link("messages")}>See what becomes of them</a>}
            </p>
          </>
        )}
        {step.is === "failed" && (
          <>
            <p class="notice-title">{step.dry ? "The dry run broke off" : `It broke off after ${plural(sum.redriven, "message")}`}</p>
            <p>{step.error instanceof Error ? step.error.message : String(step.error)} To ask again sends nothing twice.</p>
          </>
        )}
        {skipped > 0 && step.is !== "failed" && (
          <p>
            {number(skipped)} cannot be sent again: {parts(sum.skipped)}.
          </p>
        )}
      </div>
      <div class="notice-actions">
        {step.is === "would" && sum.redriven > 0 && (
          <button type="button" class="button primary" onClick={() => onGo(step.filter, step.what)}>
            Send {plural(sum.redriven, "message")} again
          </button>
        )}
        <button type="button" class="button" onClick={onClose}>
          {step.is === "sent" || step.is === "failed" ? "Close" : step.is === "sending" || step.is === "counting" ? "Stop" : "Cancel"}
        </button>
      </div>
    </div>
  );
}
