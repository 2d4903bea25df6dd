// A change of one entry of the policy: a form, then what it would change, then
// the change itself, with If-Match, so that nobody's change is lost.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Schemas } from "../api/client.ts";
import { ApiError, address, request, whyNot } from "../api/client.ts";
import { announce } from "./announce.tsx";
import { Confirm } from "./confirm.tsx";
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

  const put = async (dry: boolean) => {
    try {
      return (await request("put", dry ? `${path}?dry_run=true` : path, value, { "If-Match": etag })).data as Resource;
    } catch (err) {
      if (err instanceof ApiError && err.status === 412) throw new Error("Somebody changed it meanwhile. Close this, and look at it again.");
      if (err instanceof ApiError) setProblem(err);
      throw err;
    }
  };
  const wrong = (pointer: string) => problem?.problem.errors?.find((e) => e.pointer === pointer || e.pointer.startsWith(`${pointer}/`))?.detail;
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
          setPlan((await put(true)).changes ?? []);
          return;
        }
        const r = await put(false);
        announce(`Saved. Revision ${r.revision} is in force.`);
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
      <table class="changes">
        <tbody>
          {fields.map((f) => (
            <tr key={f.field}>
              <th scope="row">{f.field}</th>
              <td class="wrap">
                <del>{text(f.old)}</del> <span aria-hidden="true">→</span> <ins>{text(f.new)}</ins>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const text = (v: unknown): string => (v === undefined || v === null ? "not set" : typeof v === "string" ? v : Array.isArray(v) && v.every((x) => typeof x === "string") ? v.join(", ") : JSON.stringify(v));
