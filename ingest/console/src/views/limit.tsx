// One limit: what it does, a change of it with its difference and its effect on
// recorded traffic before it is saved, observe made enforce, and its history.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ApiError, type Schemas, call, get, whyNot } from "../api/client.ts";
import { useQuery } from "../api/query.ts";
import { type Result, tryLimits } from "../api/trial.ts";
import { go, link } from "../router.ts";
import { type Fields, type Limit, differences, fromFields, fromText, limitWords, toFields, toText } from "../say/limit.ts";
import { parseWindow, windowWords } from "../say/window.ts";
import { announce } from "../ui/announce.tsx";
import { Confirm } from "../ui/confirm.tsx";
import { Input, Select } from "../ui/field.tsx";
import { full, millis, number, plural } from "../ui/format.ts";
import { Page, Panel } from "../ui/page.tsx";
import { Answer, Empty, Failed, Loading } from "../ui/states.tsx";
import { Textarea } from "../ui/textarea.tsx";
import { Time } from "../ui/time.tsx";
import { Diff } from "./diff.tsx";
import { ModeBadge, dayOf } from "./limits.tsx";
import { Revisions } from "./revisions.tsx";
import { Trial, effectWords } from "./trial.tsx";

type Resource = Omit<Schemas["LimitResource"], "value"> & { value: Limit };

const fresh: Resource = { etag: "", revision: 0, value: { name: "", per: ["recipient", "class"], allow: ["1/60s"], match: { class: [""] } } };
const spans = [
  ["1h", "the last hour"],
  ["24h", "the last 24 h"],
  ["7d", "the last 7 days"],
  ["14d", "the last 14 days"],
] as const;

export function LimitPage({ name }: { name: string }) {
  const asked = useQuery(async (signal) => (name ? ((await get("/v1/limits/{name}", { path: { name }, signal })) as unknown as Resource) : fresh), [name]);
  const missing = asked.error instanceof ApiError && asked.error.code === "resource_not_found";
  return (
    <Page title={name || "New limit"} lead={asked.data && name ? limitWords(asked.data.value) : undefined} actions={name && asked.data && <Delete resource={asked.data} />}>
      {missing ? (
        <Empty title="There is no such limit">
          It may have been removed. <a href={link("limits")}>All limits</a>
        </Empty>
      ) : (
        <Answer of={asked} lines={10}>
          {(r) => <Edit key={name} resource={r} reload={asked.reload} />}
        </Answer>
      )}
    </Page>
  );
}

/** Checked is what the server says of the draft: a dry run. */
type Checked = { is: "same" } | { is: "asking" } | { is: "good"; change: Resource } | { is: "wrong"; error: unknown };

function Edit({ resource, reload }: { resource: Resource; reload: () => void }) {
  const [base, setBase] = useState(resource);
  const isNew = !base.etag;
  const [fields, setFields] = useState<Fields>(() => toFields(base.value));
  const [asText, setAsText] = useState(false);
  const [text, setText] = useState(() => toText(base.value));
  const [theirs, setTheirs] = useState<Resource>();
  const [saving, setSaving] = useState(false);
  const [saveError, setSaveError] = useState<unknown>();
  const [changed, setChanged] = useState(0);
  const [since, setSince] = useState("24h");
  const trial = useTrial();

  const wanted = useMemo<{ limit?: Limit; wrong?: string }>(() => {
    if (!asText) return { limit: fromFields(fields, base.value) };
    try {
      return { limit: fromText(text) };
    } catch (err) {
      return { wrong: whyNot(err) };
    }
  }, [asText, fields, text, base]);
  const dirty = wanted.limit === undefined || isNew || differences(base.value, wanted.limit).length > 0;
  const [checked, recheck] = useCheck(base, wanted.limit, dirty && !theirs, setTheirs);
  const draftKey = JSON.stringify(wanted.limit);
  const good = checked.is === "good" && (checked.change.changes?.length ?? 0) > 0;

  const start = (r: Resource, keep?: Limit) => {
    setBase(r);
    setFields(toFields(keep ?? r.value));
    setText(toText(keep ?? r.value));
    setTheirs(undefined);
    setSaveError(undefined);
  };
  const set = (field: keyof Fields) => (v: string) => setFields((f) => ({ ...f, [field]: v }));

  const save = async () => {
    if (!wanted.limit) return;
    setSaving(true);
    setSaveError(undefined);
    try {
      const name = isNew ? (wanted.limit.name ?? "") : (base.value.name ?? "");
      const { data, headers } = await put(name, wanted.limit, base);
      announce(`Saved: revision ${data.revision} is in force`);
      trial.clear();
      if (isNew) go(link("limits", name));
      else {
        start({ ...data, etag: headers.get("ETag") ?? data.etag });
        setChanged((n) => n + 1);
        reload();
      }
    } catch (err) {
      const current = conflict(err);
      if (current) setTheirs(current);
      else setSaveError(err);
    } finally {
      setSaving(false);
    }
  };

  const fieldError = (pointer: string) => errorAt(checked.is === "wrong" ? checked.error : undefined, pointer);
  const tried = trial.result && trial.of === draftKey;
  return (
    <div class="stack">
      {base.value.mode === "observe" && !isNew && (
        <Observing
          base={base}
          onDone={(r) => {
            start(r);
            setChanged((n) => n + 1);
            reload();
          }}
          onConflict={setTheirs}
        />
      )}
      <Panel
        title={isNew ? "What it allows" : "Change it"}
        note={
          <div class="pickers">
            {!isNew && <ModeBadge mode={base.value.mode} />}
            <div class="switch" role="group" aria-label="Edit as">
              <button
                type="button"
                class="button small"
                aria-pressed={!asText}
                onClick={() => {
                  if (asText && wanted.limit) setFields(toFields(wanted.limit));
                  if (wanted.limit) setAsText(false);
                }}
              >
                Form
              </button>
              <button
                type="button"
                class="button small"
                aria-pressed={asText}
                onClick={() => {
                  if (wanted.limit) setText(toText(wanted.limit));
                  setAsText(true);
                }}
              >
                Text
              </button>
            </div>
          </div>
        }
        wide
      >
        <form
          class="form"
          onSubmit={(e) => {
            e.preventDefault();
            if (good) void save();
          }}
        >
          {asText ? (
            <Textarea label="The limit as text" rows={14} class="mono" value={text} onValue={setText} error={wanted.wrong ?? fieldError("")} hint="JSON, as in a policy file." />
          ) : (
            <div class="limit-form">
              {isNew && <Input label="Name" value={fields.name} onValue={set("name")} hint="Letters a to z, digits and hyphens." error={fieldError("/name")} />}
              <Textarea label="Windows" rows={4} value={fields.allow} onValue={set("allow")} error={fieldError("/allow")} hint={<WindowHint text={fields.allow} />} />
              <Textarea label="Counts only" rows={4} value={fields.match} onValue={set("match")} error={fieldError("/match")} hint="One a line: class: verify, login. Without any, every message." />
              <Input label="Counted together by" value={fields.per} onValue={set("per")} error={fieldError("/per")} hint="recipient, class, tenant, channel, country, prefix:4, metadata.ip … Empty is all together." />
              <Select
                label="Mode"
                value={fields.mode}
                onValue={set("mode")}
                options={[
                  ["enforce", "enforce: refuse"],
                  ["observe", "observe: let pass, and mark"],
                  ["off", "off"],
                ]}
              />
              <Select
                label="When it is full"
                value={fields.on_refusal}
                onValue={set("on_refusal")}
                options={[
                  ["reject", "refuse the message"],
                  ["defer", "let it wait until there is room"],
                ]}
              />
              <Select
                label="What takes a place"
                value={fields.count}
                onValue={set("count")}
                options={[
                  ["message", "a message"],
                  ["attempt", "every attempt"],
                  ["segments", "every SMS part"],
                ]}
              />
              <Input label="Zone of calendar windows" value={fields.timezone} onValue={set("timezone")} placeholder="UTC" error={fieldError("/timezone")} />
              <Textarea label="Exempt recipients" rows={2} value={fields.exempt} onValue={set("exempt")} error={fieldError("/exempt")} />
              {base.value.overrides && base.value.overrides.length > 0 && <p class="muted">{plural(base.value.overrides.length, "override")} for single recipients: edit {base.value.overrides.length === 1 ? "it" : "them"} as text.</p>}
            </div>
          )}
          {theirs ? (
            <Conflict theirs={theirs} mine={wanted.limit} onTake={() => start(theirs)} onKeep={() => start(theirs, wanted.limit)} />
          ) : (
            <div class="check-area" aria-live="polite">
              {checked.is === "same" && <p class="muted">Nothing is changed yet.</p>}
              {checked.is === "asking" && <p class="muted">Asking what this would change…</p>}
              {checked.is === "wrong" && !wanted.wrong && <Wrong error={checked.error} retry={recheck} />}
              {checked.is === "good" && (good ? <Change change={checked.change} isNew={isNew} /> : <p class="muted">This is what is in force already.</p>)}
            </div>
          )}
          {saveError !== undefined && <Wrong error={saveError} />}
          {dirty && !theirs && (
            <div class="row save-row">
              <Select label="Recorded traffic of" value={since} onValue={setSince} options={spans} />
              <button type="button" class={`button${tried ? "" : " primary"}`} disabled={!good || trial.running} aria-busy={trial.running} onClick={() => wanted.limit && trial.run(wanted.limit, since, draftKey)}>
                {trial.running ? "Trying…" : "Try it"}
              </button>
              <span class="spring" />
              {!isNew && (
                <button type="button" class="button" onClick={() => start(base)}>
                  Undo my changes
                </button>
              )}
              <button type="submit" class={`button${tried ? " primary" : ""}`} disabled={!good || saving} aria-busy={saving}>
                {tried ? "Save" : "Save without trying"}
              </button>
            </div>
          )}
        </form>
      </Panel>
      {(trial.running || trial.result || trial.error !== undefined) && (
        <Panel title="What it would have done" note={trial.result && !tried && !trial.running ? "of an earlier version of your change" : undefined} wide>
          {trial.running ? <Loading lines={5} label="Trying it on recorded traffic" /> : trial.error !== undefined ? <Failed error={trial.error} /> : trial.result && <Trial result={trial.result} />}
        </Panel>
      )}
      {!isNew && <Revisions limit={base.value.name ?? ""} changed={changed} />}
    </div>
  );
}

function WindowHint({ text }: { text: string }) {
  const windows = text.split(/[\n,]/).map((w) => w.trim()).filter(Boolean);
  const odd = windows.find((w) => !parseWindow(w));
  if (windows.length === 0) return <>One a line: 1/60s, 5/1h, 10/calendar-day, bucket 10 refill 0.5/s.</>;
  return <>{odd ? `${odd} is no window: 1/60s, 10/calendar-day, bucket 10 refill 0.5/s` : windows.map(windowWords).join(" · ")}</>;
}

/** Change is what the server says that saving would do. */
function Change({ change, isNew }: { change: Resource; isNew: boolean }) {
  const fields = change.changes?.flatMap((c) => c.fields ?? []) ?? [];
  return (
    <>
      <h3>{isNew ? "A new limit" : "What changes"}</h3>
      {isNew ? <p>{limitWords(change.value)}</p> : <Diff caption="What changes" fields={fields} />}
      {change.warming && change.warming.length > 0 && (
        <p class="muted">
          {change.warming.map((w, i) => (
            <span key={i} title={full(millis(w.complete))}>
              {i > 0 && "; "}
              {windowWords(w.window)} begins to count when it is saved, and is complete at <Time at={w.complete} />
            </span>
          ))}
          .
        </p>
      )}
    </>
  );
}

function Wrong({ error, retry }: { error: unknown; retry?: () => void }) {
  const errors = error instanceof ApiError ? (error.problem.errors ?? []) : [];
  if (errors.length === 0) return <Failed error={error} retry={retry} />;
  return (
    <div class="notice bad" role="alert">
      <div>
        <p class="notice-title">It cannot be saved so</p>
        <ul class="plain-list">
          {errors.map((e, i) => (
            <li key={i}>
              {e.pointer && <code>{e.pointer}</code>} {e.detail}
            </li>
          ))}
        </ul>
      </div>
    </div>
  );
}

/** Conflict is a 412: somebody else changed the limit after it was read. Nothing was saved. */
function Conflict({ theirs, mine, onTake, onKeep }: { theirs: Resource; mine: Limit | undefined; onTake: () => void; onKeep: () => void }) {
  return (
    <div class="notice warn" role="alert">
      <div>
        <p class="notice-title">Somebody else changed this limit meanwhile</p>
        <p>Nothing of yours was saved. Revision {theirs.revision} is in force. This is where it and your version differ:</p>
        {mine && <Diff caption="Theirs and yours" before="In force now" after="Yours" fields={differences(theirs.value, mine)} />}
        <div class="row conflict-actions">
          <button type="button" class="button" onClick={onTake}>
            Take what is in force
          </button>
          <button type="button" class="button" onClick={onKeep}>
            Keep mine, and go on from theirs
          </button>
        </div>
      </div>
    </div>
  );
}

/** Observing leads from observe to enforce in one step, with what it would refuse. */
function Observing({ base, onDone, onConflict }: { base: Resource; onDone: (r: Resource) => void; onConflict: (r: Resource) => void }) {
  const name = base.value.name ?? "";
  const day = useQuery(dayOf, [name]);
  const [open, setOpen] = useState(false);
  const trial = useTrial();
  const enforced: Limit = { ...base.value };
  delete enforced.mode;
  const observed = day.data?.get(name)?.observed ?? 0;
  return (
    <section class="panel say warn" aria-label="It only observes">
      <div class="row">
        <p class="verdict plain">
          <b>This limit only observes.</b> {day.data ? (observed > 0 ? `In the last 24 h it let pass ${plural(observed, "message")} that it would have refused.` : "In the last 24 h it would have refused nothing.") : day.error ? "What it would have refused cannot be told now." : "…"}
        </p>
        <button
          type="button"
          class="button primary"
          onClick={() => {
            setOpen(true);
            trial.run(enforced, "24h", "enforce");
          }}
        >
          Enforce it…
        </button>
      </div>
      <Confirm
        open={open}
        title={`Enforce ${name}?`}
        action={`Enforce ${name}`}
        onClose={() => setOpen(false)}
        onConfirm={async () => {
          try {
            const { data } = await put(name, enforced, base);
            announce(`${name} is enforced: revision ${data.revision} is in force`);
            onDone(data);
          } catch (err) {
            const current = conflict(err);
            if (!current) throw err;
            setOpen(false);
            onConflict(current);
          }
        }}
      >
        <p>From then on it refuses what it has let pass and marked.</p>
        <Diff caption="What changes" fields={[{ field: "mode", old: "observe", new: "enforce" }]} />
        {trial.running && <p class="muted">Trying it on the traffic of the last 24 h…</p>}
        {trial.result && <p class="verdict warn">{effectWords(trial.result)}</p>}
        {trial.error !== undefined && <p class="muted">Its effect on recorded traffic cannot be shown now: {whyNot(trial.error)} Marked in the last 24 h: {number(observed)}.</p>}
      </Confirm>
    </section>
  );
}

function Delete({ resource }: { resource: Resource }) {
  const name = resource.value.name ?? "";
  const [open, setOpen] = useState(false);
  return (
    <>
      <button type="button" class="button" onClick={() => setOpen(true)}>
        Delete…
      </button>
      <Confirm
        open={open}
        title={`Delete limit ${name}?`}
        action={`Delete ${name}`}
        danger
        onClose={() => setOpen(false)}
        onConfirm={async () => {
          await call("delete", "/v1/limits/{name}", { path: { name }, headers: { "If-Match": resource.etag } });
          announce(`Limit ${name} is deleted`);
          go(link("limits"));
        }}
      >
        <p>{limitWords(resource.value)}</p>
        <p>Nothing it counted is kept: made again, it begins with empty windows.</p>
      </Confirm>
    </>
  );
}

function put(name: string, limit: Limit, base: Resource, dry = false, signal?: AbortSignal) {
  const headers: Record<string, string> = base.etag ? { "If-Match": base.etag } : { "If-None-Match": "*" };
  return call("put", "/v1/limits/{name}", { path: { name }, body: limit as Schemas["Limit"], headers, ...(dry ? { query: { dry_run: true } } : {}), ...(signal ? { signal } : {}) }) as unknown as Promise<{ data: Resource; headers: Headers }>;
}

/** conflict is the version in force, where that is why a change was refused. */
function conflict(err: unknown): Resource | undefined {
  return err instanceof ApiError && err.status === 412 && err.problem.current ? (err.problem.current as unknown as Resource) : undefined;
}

function errorAt(error: unknown, pointer: string): string | undefined {
  if (!(error instanceof ApiError)) return undefined;
  const found = error.problem.errors?.filter((e) => (pointer === "" ? e.pointer === "" : e.pointer === pointer || e.pointer.startsWith(`${pointer}/`)));
  return found && found.length > 0 ? found.map((e) => e.detail).join("; ") : undefined;
}

/** useCheck asks the server, a moment after the last key, what the draft would change. */
function useCheck(base: Resource, limit: Limit | undefined, on: boolean, onConflict: (r: Resource) => void): [Checked, () => void] {
  const [state, set] = useState<Checked>({ is: "same" });
  const [again, ask] = useState(0);
  const conflicts = useRef(onConflict);
  conflicts.current = onConflict;
  const key = on ? JSON.stringify(limit) : "";
  useEffect(() => {
    const name = base.etag ? base.value.name : limit?.name;
    if (!on || !limit || !name) {
      set({ is: "same" });
      return;
    }
    set({ is: "asking" });
    const ctl = new AbortController();
    const timer = setTimeout(() => {
      put(name, limit, base, true, ctl.signal).then(
        ({ data }) => !ctl.signal.aborted && set({ is: "good", change: data }),
        (error: unknown) => {
          if (ctl.signal.aborted) return;
          const current = conflict(error);
          if (current) conflicts.current(current);
          else set({ is: "wrong", error });
        },
      );
    }, 300);
    return () => {
      clearTimeout(timer);
      ctl.abort();
    };
  }, [base, key, again]);
  return [state, () => ask((n) => n + 1)];
}

/** useTrial runs one backtest at a time, and takes back the one before. */
function useTrial() {
  const [state, set] = useState<{ running: boolean; result?: Result; error?: unknown; of?: string }>({ running: false });
  const ctl = useRef<AbortController | undefined>(undefined);
  useEffect(() => () => ctl.current?.abort(), []);
  return {
    ...state,
    run(limit: Limit, since: string, of: string) {
      ctl.current?.abort();
      const now = (ctl.current = new AbortController());
      set({ running: true, of });
      tryLimits([limit], [], since, now.signal).then(
        (result) => !now.signal.aborted && set({ running: false, result, of }),
        (error: unknown) => !now.signal.aborted && set({ running: false, error, of }),
      );
    },
    clear() {
      ctl.current?.abort();
      set({ running: false });
    },
  };
}
