// From observe to enforce in one step, with what it would refuse.

import { useState } from "preact/hooks";
import { whyNot } from "../api/client.ts";
import { useQuery } from "../api/query.ts";
import type { Limit } from "../say/limit.ts";
import { announce } from "../ui/announce.tsx";
import { Confirm } from "../ui/confirm.tsx";
import { Diff } from "../ui/diff.tsx";
import { number, plural } from "../ui/format.ts";
import { type Resource, conflict, put } from "./limit-check.tsx";
import { dayOf } from "./limits.tsx";
import { effectWords, useTrial } from "./trial.tsx";

/** enforcing is a limit that observes, enforced; one of another mode is as it was. */
export function enforcing(l: Limit): Limit {
  const out = { ...l };
  if (out.mode === "observe") delete out.mode;
  return out;
}

export function Observing({ base, onDone, onConflict }: { base: Resource; onDone: (r: Resource) => void; onConflict: (r: Resource) => void }) {
  const name = base.value.name ?? "";
  const day = useQuery(dayOf, [name], { every: 15_000 });
  const [open, setOpen] = useState(false);
  const trial = useTrial();
  const enforced = enforcing(base.value);
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
        onClose={() => {
          setOpen(false);
          trial.clear();
        }}
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
