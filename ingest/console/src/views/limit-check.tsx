// A draft of a limit before it is saved: what the server says of it (a dry run),
// what it would change, what is wrong with it, and whether somebody else was first.

import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, type Schemas, call } from "../api/client.ts";
import { type Limit, differences, limitWords } from "../say/limit.ts";
import { windowWords } from "../say/window.ts";
import { Diff } from "../ui/diff.tsx";
import { full, millis } from "../ui/format.ts";
import { Failed } from "../ui/states.tsx";
import { Time } from "../ui/time.tsx";

export type Resource = Omit<Schemas["LimitResource"], "value"> & { value: Limit };

/** Checked is what the server says of the draft. */
export type Checked = { is: "same" } | { is: "asking" } | { is: "good"; change: Resource } | { is: "wrong"; error: unknown };

/** put saves a limit, made from base; dry only says what that would change. */
export function put(name: string, limit: Limit, base: Resource, dry = false, signal?: AbortSignal) {
  const headers: Record<string, string> = base.etag ? { "If-Match": base.etag } : { "If-None-Match": "*" };
  return call("put", "/v1/limits/{name}", { path: { name }, body: limit as Schemas["Limit"], headers, ...(dry ? { query: { dry_run: true } } : {}), ...(signal ? { signal } : {}) }) as unknown as Promise<{ data: Resource; headers: Headers }>;
}

/** conflict is the version in force, where that is why a change was refused. */
export function conflict(err: unknown): Resource | undefined {
  return err instanceof ApiError && err.status === 412 && err.problem.current ? (err.problem.current as unknown as Resource) : undefined;
}

/** useCheck asks the server, a moment after the last key, what the draft would change. */
export function useCheck(base: Resource, limit: Limit | undefined, on: boolean, onConflict: (r: Resource) => void): [Checked, () => void] {
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

/** Change is what the server says that saving would do. */
export function Change({ change, isNew }: { change: Resource; isNew: boolean }) {
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

export function Wrong({ error, retry }: { error: unknown; retry?: () => void }) {
  const errors = error instanceof ApiError ? (error.problem.errors ?? []) : [];
  if (errors.length === 0) return <Failed title="It cannot be saved now" error={error} retry={retry} />;
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
export function Conflict({ theirs, mine, onTake, onKeep }: { theirs: Resource; mine: Limit | undefined; onTake: () => void; onKeep: () => void }) {
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
