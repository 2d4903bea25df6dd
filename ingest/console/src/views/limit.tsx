// One limit: what it does, a change of it with its difference and its effect on
// recorded traffic before it is saved, observe made enforce, and its history. A
// change that is not saved is kept for the tab.

import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { ApiError, call, errorAt, get, whyNot } from "../api/client.ts";
import { useAgain, useQuery } from "../api/query.ts";
import { draftOf, dropDraft, keepDraft } from "../drafts.ts";
import { go, link } from "../router.ts";
import { type Fields, type Limit, differences, fromFields, fromText, limitWords, toFields, toText } from "../say/limit.ts";
import { useBy, useWho } from "../session.tsx";
import { useAlive } from "../ui/alive.ts";
import { announce } from "../ui/announce.tsx";
import { Confirm } from "../ui/confirm.tsx";
import { Select, Textarea } from "../ui/field.tsx";
import { Page, Panel } from "../ui/page.tsx";
import { Answer, Empty, Failed, Loading } from "../ui/states.tsx";
import { Time } from "../ui/time.tsx";
import { Change, Conflict, type Resource, Wrong, conflict, put, useCheck } from "./limit-check.tsx";
import { LimitForm } from "./limit-form.tsx";
import { Observing, enforcing } from "./limit-observe.tsx";
import { ModeBadge } from "./limits.tsx";
import { Revisions } from "./revisions.tsx";
import { Trial, useTrial } from "./trial.tsx";

const fresh: Resource = { etag: "", revision: 0, value: { name: "", per: ["recipient", "class"], allow: ["1/60s"], match: { class: [""] } } };
const spans = [
  ["1h", "the last hour"],
  ["24h", "the last 24 h"],
  ["7d", "the last 7 days"],
  ["14d", "the last 14 days"],
] as const;

export function LimitPage({ name }: { name: string }) {
  const asked = useQuery(async (signal) => (name ? ((await get("/v1/limits/{name}", { path: { name }, signal })) as unknown as Resource) : fresh), [name]);
  const [saved, setSaved] = useState<Resource>();
  const missing = asked.error instanceof ApiError && asked.error.code === "resource_not_found";
  // Another instance may have taken it in a moment ago, and not this one yet.
  useAgain(missing && !asked.data, asked.loading, asked.reload);
  const newest = saved ?? asked.data;
  return (
    <Page title={name || "New limit"} lead={newest && name ? limitWords(newest.value) : undefined} actions={name && newest && <Delete resource={newest} />}>
      {missing ? (
        <Empty title="There is no such limit">
          It may have been removed. <a href={link("limits")}>All limits</a>
        </Empty>
      ) : (
        <Answer of={asked} lines={10}>
          {(r) => <Edit key={name} resource={r} onSaved={setSaved} />}
        </Answer>
      )}
    </Page>
  );
}

function Edit({ resource, onSaved }: { resource: Resource; onSaved: (r: Resource) => void }) {
  const by = useBy();
  const { ofAll } = useWho();
  const [found, setFound] = useState(() => draftOf(resource.value.name ?? "", by));
  const [base, setBase] = useState(found?.base ?? resource);
  const isNew = !base.etag;
  const [fields, setFields] = useState<Fields>(() => found?.fields ?? toFields(base.value));
  const [asText, setAsText] = useState(found?.asText ?? false);
  const [text, setText] = useState(() => found?.text ?? toText(base.value));
  const [theirs, setTheirs] = useState<Resource | undefined>(found && found.base.etag !== resource.etag ? resource : undefined);
  const [saving, setSaving] = useState(false);
  const [saveError, setSaveError] = useState<unknown>();
  const [revision, setRevision] = useState(resource.revision);
  const [since, setSince] = useState("24h");
  const trial = useTrial();
  const alive = useAlive();

  const wanted = useMemo<{ limit?: Limit; wrong?: string }>(() => {
    if (!asText) return { limit: fromFields(fields, base.value) };
    try {
      return { limit: fromText(text) };
    } catch (err) {
      return { wrong: whyNot(err) };
    }
  }, [asText, fields, text, base]);
  const differs = wanted.limit === undefined || differences(base.value, wanted.limit).length > 0;
  const dirty = differs || isNew;
  const key = base.value.name ?? "";
  const kept = useRef(found);
  useLayoutEffect(() => {
    const k = kept.current;
    if (!differs) {
      if (k) dropDraft(key);
      kept.current = undefined;
      setFound(undefined);
    } else if (!k || k.base !== base || k.asText !== asText || k.fields !== fields || k.text !== text) {
      kept.current = { at: Date.now(), by, base, asText, fields, text };
      keepDraft(key, kept.current);
    }
  }, [differs, base, asText, fields, text]);
  // Not an effect that waits for the picture: who leaves at once would be asked of what stood before.
  useLayoutEffect(() => {
    if (!differs) return;
    // The draft outlives a reload and not its tab, and a browser does not say which of the two is meant.
    const ask = (e: BeforeUnloadEvent) => e.preventDefault();
    addEventListener("beforeunload", ask);
    return () => removeEventListener("beforeunload", ask);
  }, [differs]);
  const [checked, recheck] = useCheck(base, wanted.limit, dirty && !theirs, setTheirs);
  const draftKey = JSON.stringify(wanted.limit);
  const latest = useRef(draftKey);
  latest.current = draftKey;
  const good = checked.is === "good" && (checked.change.changes?.length ?? 0) > 0;

  /** start begins anew from r. */
  const start = (r: Resource) => {
    goOn(r, r.value);
    setFound(undefined);
  };
  /** goOn changes r to what is kept; where that is nothing, to what is written. */
  const goOn = (r: Resource, keep?: Limit) => {
    setBase(r);
    setTheirs(undefined);
    setSaveError(undefined);
    if (!keep) return;
    setFields(toFields(keep));
    setText(toText(keep));
  };
  /** took notes that r is in force. */
  const took = (r: Resource) => {
    setRevision(r.revision);
    onSaved(r);
  };

  const save = async () => {
    if (!wanted.limit) return;
    setSaving(true);
    setSaveError(undefined);
    try {
      const name = isNew ? (wanted.limit.name ?? "") : (base.value.name ?? "");
      const { data, headers } = await put(name, wanted.limit, base);
      announce(`Saved: revision ${data.revision} is in force`);
      trial.clear();
      const now = { ...data, etag: headers.get("ETag") ?? data.etag };
      const on = latest.current !== draftKey; // he wrote on while it was saved
      if (!on || isNew) dropDraft(key); // he may have left
      if (isNew) {
        if (on && kept.current) keepDraft(name, { ...kept.current, base: now });
        if (alive()) go(link("limits", name));
        return;
      }
      if (on) goOn(now);
      else start(now);
      took(now);
    } catch (err) {
      const current = conflict(err);
      if (current) setTheirs(current);
      else setSaveError(err);
    } finally {
      setSaving(false);
    }
  };

  const fieldError = (pointer: string) => errorAt(checked.is === "wrong" ? checked.error : undefined, pointer);
  const tryIt = () => wanted.limit && trial.run(wanted.limit, since, draftKey);
  const tried = trial.result && trial.of === draftKey;
  return (
    <div class="stack">
      {base.value.mode === "observe" && !isNew && (
        <Observing
          base={base}
          onDone={(r) => {
            if (differs) goOn(r, wanted.limit && enforcing(wanted.limit));
            else start(r);
            took(r);
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
          {found && differs && (
            <div class="notice warn" role="status">
              <p>
                Your unsaved changes, made at <Time at={found.at} />.
              </p>
              <button type="button" class="button small" onClick={() => start(theirs ?? base)}>
                Discard them
              </button>
            </div>
          )}
          {asText ? (
            <Textarea label="The limit as text" rows={14} class="mono" value={text} onValue={setText} error={wanted.wrong ?? fieldError("")} hint="JSON, as in a policy file." />
          ) : (
            <LimitForm fields={fields} set={(field, v) => setFields((f) => ({ ...f, [field]: v }))} wrong={fieldError} isNew={isNew} overrides={base.value.overrides} />
          )}
          {theirs ? (
            <Conflict theirs={theirs} mine={wanted.limit} onTake={() => start(theirs)} onKeep={() => goOn(theirs, wanted.limit)} />
          ) : (
            <div class="check-area" aria-live="polite">
              {checked.is === "same" && <p class="muted">{isNew ? "Give it a name: then it is said what it would do." : "Nothing is changed yet."}</p>}
              {checked.is === "asking" && <p class="muted">Asking what this would change…</p>}
              {checked.is === "wrong" && !wanted.wrong && <Wrong error={checked.error} retry={recheck} />}
              {checked.is === "good" && (good ? <Change change={checked.change} isNew={isNew} /> : <p class="muted">This is what is in force already.</p>)}
            </div>
          )}
          {saveError !== undefined && <Wrong error={saveError} />}
          {dirty && !theirs && (
            <div class="row save-row">
              {ofAll && (
                <>
                  <Select label="Recorded traffic of" value={since} onValue={setSince} options={spans} />
                  <button type="button" class={`button${tried ? "" : " primary"}`} disabled={!good || trial.running} aria-busy={trial.running} onClick={tryIt}>
                    {trial.running ? "Trying…" : "Try it"}
                  </button>
                </>
              )}
              <span class="spring" />
              {!isNew && (
                <button type="button" class="button" onClick={() => start(base)}>
                  Undo my changes
                </button>
              )}
              <button type="submit" class={`button${tried || !ofAll ? " primary" : ""}`} disabled={!good || saving} aria-busy={saving}>
                {tried || !ofAll ? "Save" : "Save without trying"}
              </button>
            </div>
          )}
        </form>
      </Panel>
      {(trial.running || trial.result || trial.error !== undefined) && (
        <Panel title="What it would have done" note={trial.result && !tried && !trial.running ? "of an earlier version of your change" : undefined} wide>
          {trial.running ? (
            <>
              <Loading lines={5} label="Trying it on recorded traffic" />
              <button type="button" class="button small" onClick={trial.clear}>
                Stop
              </button>
            </>
          ) : trial.error !== undefined ? (
            <Failed title="It could not be tried" error={trial.error} retry={wanted.limit && tryIt} />
          ) : (
            trial.result && <Trial result={trial.result} />
          )}
        </Panel>
      )}
      {!isNew && <Revisions limit={base.value.name ?? ""} upTo={revision} />}
    </div>
  );
}

function Delete({ resource }: { resource: Resource }) {
  const name = resource.value.name ?? "";
  const [open, setOpen] = useState(false);
  const alive = useAlive();
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
          dropDraft(name);
          if (alive()) go(link("limits"));
        }}
      >
        <p>{limitWords(resource.value)}</p>
        <p>Nothing it counted is kept: made again, it begins with empty windows.</p>
      </Confirm>
    </>
  );
}
