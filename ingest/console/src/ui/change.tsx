// A change of one entry of the policy: a form, then what it would change, then
// the change itself, with If-Match, so that nobody's change is lost.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Schemas } from "../api/client.ts";
import { ApiError, address, errorAt, request, whyNot } from "../api/client.ts";
import { announce } from "./announce.tsx";
import { Confirm } from "./confirm.tsx";
import { Diff } from "./diff.tsx";
import { Loading } from "./states.tsx";

type Resource = Schemas["Resource"];
type Value = Record<string, unknown>;

interface Props {
  /** Of the API: "providers", "routes". */
  kind: string;
  name: string;
  title: string;
  /** The fields. set replaces what the entry will be; wrong is what the server says of a field, by its pointer. */
  children: (value: Value, set: (v: Value) => void, wrong: (pointer: string) => string | undefined) => ComponentChildren;
  onClose: () => void;
  onDone: () => void;
}

export function ChangeEntry({ kind, name, title, children, onClose, onDone }: Props) {
  const path = address(`/v1/${kind}/{name}`, { name });
  const [etag, setEtag] = useState("");
  const [value, setValue] = useState<Value>();
  const [plan, setPlan] = useState<Resource["changes"]>();
  const [problem, setProblem] = useState<ApiError>();
  const [lost, setLost] = useState("");

  useEffect(() => {
    const ctl = new AbortController();
    request("get", path, undefined, {}, ctl.signal).then(
      ({ data }) => {
        const r = data as Resource;
        setEtag(r.etag);
        setValue(r.value as Value);
      },
      (err: unknown) => ctl.signal.aborted || setLost(whyNot(err)),
    );
    return () => ctl.abort();
  }, [path]);

  const fields = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (value) fields.current?.querySelector("input")?.focus();
  }, [value !== undefined]);

  const latest = useRef(value);
  latest.current = value;
  const put = async (dry: boolean) => {
    try {
      return (await request("put", dry ? `${path}?dry_run=true` : path, value, { "If-Match": etag })).data as Resource;
    } catch (err) {
      if (err instanceof ApiError && err.status === 412) throw new Error("Somebody changed it meanwhile. Close this, and look at it again.");
      if (dry && latest.current !== value) return undefined; // of what stands there no more
      if (err instanceof ApiError) setProblem(err);
      throw err;
    }
  };
  const wrong = (pointer: string) => errorAt(problem, pointer);
  return (
    <Confirm
      open
      title={title}
      action={plan ? "Save" : "Show what changes"}
      disabled={!value || (plan !== undefined && plan.length === 0)}
      onClose={onClose}
      stay={!plan}
      onConfirm={async () => {
        setProblem(undefined);
        if (!plan) {
          const r = await put(true);
          // Who wrote on meanwhile is shown what that changes before he can save it.
          if (r && latest.current === value) setPlan(r.changes ?? []);
          return;
        }
        const r = await put(false);
        announce(`Saved. Revision ${r?.revision} is in force.`);
        onDone();
      }}
    >
      {lost && <p class="notice bad">{lost}</p>}
      {!value && !lost && <Loading lines={3} />}
      {value && (
        <div ref={fields}>
          {children(
            value,
            (v) => {
              setPlan(undefined);
              setProblem(undefined);
              setValue(v);
            },
            wrong,
          )}
        </div>
      )}
      {plan && <Changes of={plan} />}
    </Confirm>
  );
}

function Changes({ of }: { of: NonNullable<Resource["changes"]> }) {
  const fields = of.flatMap((c) => c.fields ?? []);
  if (fields.length === 0) return <p class="muted">Nothing would change.</p>;
  return (
    <div role="status">
      <p class="field-label">What changes, within a second, on every instance:</p>
      <Diff caption="What changes" fields={fields} />
    </div>
  );
}
