// A provider's pace and a route's weights, changed.

import { parts } from "../providers.ts";
import { ChangeEntry } from "../ui/change.tsx";
import { Checkbox, Input } from "../ui/field.tsx";
import { percent } from "../ui/format.ts";

/** Route is one as the API has it, where what is a default is absent. */
export type Route = { name?: string; match?: Record<string, unknown>; to?: { provider: string; weight?: number }[]; failover?: string[] };

export function ChangePace({ name, onClose, onDone }: { name: string; onClose: () => void; onDone: () => void }) {
  return (
    <ChangeEntry kind="providers" name={name} title={`The pace of ${name}`} onClose={onClose} onDone={onDone}>
      {(value, set, wrong) => {
        const pace = (value["pace"] as string[] | undefined) ?? [];
        return (
          <div class="form">
            <Input
              label="Calls at most"
              value={pace.join(", ")}
              onValue={(v) => set({ ...value, pace: v.split(",").map((w) => w.trim()).filter(Boolean) })}
              placeholder="as fast as it goes"
              error={wrong("/pace")}
              hint="Over the whole cluster, in any such time: 5/1s, 200/60s. With commas between several."
            />
            <Checkbox label="Space calls evenly" checked={value["smooth"] === true} onValue={(v) => set({ ...value, smooth: v || undefined })} hint="Else they come in bursts, as the windows allow." />
            {wrong("/smooth") && <p class="field-error">{wrong("/smooth")}</p>}
          </div>
        );
      }}
    </ChangeEntry>
  );
}

export function ChangeWeights({ name, onClose, onDone }: { name: string; onClose: () => void; onDone: () => void }) {
  return (
    <ChangeEntry kind="routes" name={name} title={`The weights of ${name}`} onClose={onClose} onDone={onDone}>
      {(value, set, wrong) => {
        const to = (value["to"] as NonNullable<Route["to"]> | undefined) ?? [];
        const shares = parts(to, () => 1);
        return (
          <div class="form">
            {to.map((t, i) => (
              <Input
                key={t.provider}
                label={t.provider}
                type="number"
                min={0}
                max={1_000_000}
                inputMode="numeric"
                value={String(t.weight ?? 1)}
                onValue={(v) => set({ ...value, to: to.map((x, j) => (j === i ? { ...x, weight: v === "" ? 0 : Math.trunc(Number(v)) } : x)) })}
                error={wrong(`/to/${i}`)}
                hint={`${percent(shares[i]?.meant ?? 0)} of its messages, while all are well`}
              />
            ))}
            {wrong("/to") && !to.some((_, i) => wrong(`/to/${i}`)) && <p class="field-error">{wrong("/to")}</p>}
          </div>
        );
      }}
    </ChangeEntry>
  );
}
