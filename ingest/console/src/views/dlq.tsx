// The dead letter queue: what was given up on and why, and sending it again,
// first as a dry run that says what would be sent.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Schemas, get } from "../api/client.ts";
import { day, hour, since } from "../api/operate.ts";
import { usePages } from "../api/pages.ts";
import { type Filter, type Sum, nothing, redrive } from "../api/redrive.ts";
import { go, link } from "../router.ts";
import { reasonWords } from "../say/why.ts";
import { useWho } from "../session.tsx";
import { announce } from "../ui/announce.tsx";
import { Input, Select, useDraft } from "../ui/field.tsx";
import { number, plural, words } from "../ui/format.ts";
import { Panel } from "../ui/page.tsx";
import { Empty, Listed } from "../ui/states.tsx";
import { type Column, Table } from "../ui/table.tsx";
import { Time } from "../ui/time.tsx";

type Letter = Schemas["DeadLetter"];

const ages: Record<string, number> = { "1h": hour, "24h": day, "7d": 7 * day };

export function DeadLetters({ query }: { query: URLSearchParams }) {
  const { can } = useWho();
  const chosen = { reason: query.get("reason") ?? "", class: query.get("class") ?? "", provider: query.get("provider") ?? "", age: query.get("age") ?? "" };
  const [draft, set] = useDraft(chosen);
  const [asked, again] = useState(0);
  const key = JSON.stringify(chosen);
  // A span of time begins when it is asked for, so that pages and the redrive mean the same records.
  const from = useMemo(() => (ages[chosen.age] ? since(ages[chosen.age] as number) : undefined), [key, asked]);
  const filter: Filter = { ...(chosen.reason && { reason: chosen.reason }), ...(chosen.class && { class: chosen.class }), ...(chosen.provider && { provider: chosen.provider }), ...(from && { since: from }) };
  const list = usePages<Letter>(
    async (cursor, signal) => {
      const page = await get("/v1/dlq", { query: { ...(filter as Omit<Filter, "all"> as Record<string, string>), limit: 200, cursor }, signal });
      return { rows: page.entries, next: page.cursor };
    },
    (l) => l.position,
    [key, asked],
  );
  const drive = useRedrive(list.refresh);
  // The lanes' two, what rejections of these rows say, and the one that the address names.
  const reasons = [...new Set(["", "permanent", "attempts_exhausted", ...(list.rows ?? []).map((l) => l.reason), chosen.reason])];
  const filtered = Object.keys(filter).length > 0;

  const columns: Column<Letter>[] = [
    { key: "at", title: "Given up", cell: (l) => <Time at={l.at} />, width: "8.5rem" },
    { key: "reason", title: "Why", cell: (l) => <a href={link("messages", l.message_id)}>{reasonWords(l.reason)}</a>, width: "14rem" },
    { key: "to", title: "To", cell: (l) => <code>{l.to ?? ""}</code>, width: "10rem", wideOnly: true },
    { key: "class", title: "Class", cell: (l) => l.class ?? "default", width: "8rem", wideOnly: true },
    { key: "provider", title: "Provider", cell: (l) => l.provider ?? "", width: "8rem", roomyOnly: true },
    { key: "code", title: "Code", cell: (l) => l.error_code ?? "", wideOnly: true },
    { key: "attempt", title: "Attempts", cell: (l) => l.attempt ?? 0, end: true, width: "5.5rem", roomyOnly: true },
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
        ) : l.redriven_at ? (
          <span class="muted">
            sent again <Time at={l.redriven_at} />
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
          const to = link("queues", "", { ...draft, class: draft.class.trim(), provider: draft.provider.trim() });
          if (to === link("queues", "", chosen)) again((n) => n + 1);
          else go(to);
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
        <Select label="Why" value={draft.reason} onValue={(reason) => set({ ...draft, reason })} options={reasons.map((r) => [r, r ? reasonWords(r) : "anything"] as const)} />
        <Input label="Class" value={draft.class} onValue={(c) => set({ ...draft, class: c })} placeholder="any" />
        <Input label="Provider" value={draft.provider} onValue={(provider) => set({ ...draft, provider })} placeholder="any" />
        <button type="submit" class="button">
          Filter
        </button>
        {can("send") && (
          <button type="button" class="button primary" disabled={drive.busy || !list.rows || list.rows.length === 0} onClick={() => drive.dry(filtered ? filter : { all: true }, filtered ? "what matches" : "all of it")}>
            Redrive {filtered ? "what matches" : "all"}…
          </button>
        )}
      </form>
      {drive.shown}
      <Listed of={list} lines={4} more="Older ones">
        {(rows) => <Table caption="What was given up on" columns={columns} rows={rows} rowKey={(l) => l.position} onEnd={list.loadMore} empty={<Empty title={filtered ? "Nothing matches" : "Weir gave up on nothing"} />} />}
      </Listed>
    </Panel>
  );
}

type Step = { is: "idle" } | { is: "counting" | "would" | "sending" | "sent"; filter: Filter; what: string; sum: Sum } | { is: "failed"; error: unknown; sum: Sum; dry: boolean };

/** useRedrive leads through a redrive: what would be sent, sending, what was sent. */
function useRedrive(onDone: () => void) {
  const [step, set] = useState<Step>({ is: "idle" });
  const ctl = useRef<AbortController | undefined>(undefined);
  useEffect(() => () => ctl.current?.abort(), []);
  const run = async (filter: Filter, what: string, dry: boolean, counted?: string) => {
    ctl.current?.abort();
    const now = (ctl.current = new AbortController());
    let sum = nothing;
    const show = (is: "counting" | "would" | "sending" | "sent") => !now.signal.aborted && set({ is, filter, what, sum });
    show(dry ? "counting" : "sending");
    try {
      sum = await redrive(
        filter,
        dry,
        counted,
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
  return { busy, dry: (filter: Filter, what: string) => void run(filter, what, true), shown: step.is !== "idle" && <Progress step={step} onGo={(f, w, counted) => void run(f, w, false, counted)} onClose={stop} /> };
}

function Progress({ step, onGo, onClose }: { step: Exclude<Step, { is: "idle" }>; onGo: (filter: Filter, what: string, counted: string | undefined) => void; onClose: () => void }) {
  const heading = useRef<HTMLDivElement>(null);
  useEffect(() => {
    // The button that was pressed may be gone. Who writes elsewhere by then goes on there.
    if (step.is !== "counting" && !document.activeElement?.matches("input, select, textarea")) heading.current?.focus();
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
            {sum.may_be_received > 0 && <p>{plural(sum.may_be_received, "message")} of them may have been received: their recipients may get them twice.</p>}
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
            {number(skipped)} left out: {parts(sum.skipped)}. What ended for good is sent again only when its reason is chosen.
          </p>
        )}
      </div>
      <div class="notice-actions">
        {step.is === "would" && sum.redriven > 0 && (
          <button type="button" class="button primary" onClick={() => onGo(step.filter, step.what, sum.start)}>
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
