// The limits in force with what each refused, and the policy's history; one
// limit of them is in limit.tsx.

import "./desk.css";
import { get } from "../api/client.ts";
import { day, since, stats } from "../api/operate.ts";
import { useQuery } from "../api/query.ts";
import { draftOf } from "../drafts.ts";
import type { ViewProps } from "../app.tsx";
import { link } from "../router.ts";
import { useBy } from "../session.tsx";
import { type Limit, matchWords, perWords } from "../say/limit.ts";
import { windowWords } from "../say/window.ts";
import { number } from "../ui/format.ts";
import { Page, Panel } from "../ui/page.tsx";
import { Answer, Empty, known } from "../ui/states.tsx";
import { Badge } from "../ui/status.tsx";
import { Table } from "../ui/table.tsx";
import { LimitPage } from "./limit.tsx";
import { Revisions } from "./revisions.tsx";

export default function View({ param, query }: ViewProps) {
  if (param) return <LimitPage key={param} name={param} />;
  if (query.get("new")) return <LimitPage key="new" name="" />;
  return <All />;
}

/** dayOf is what limits refused in the last 24 hours, by limit. */
export async function dayOf(signal: AbortSignal): Promise<Map<string, { refused: number; observed: number }>> {
  const { limits } = await stats(signal, { from: since(day) });
  const out = new Map<string, { refused: number; observed: number }>();
  for (const l of limits) {
    const have = out.get(l.limit) ?? { refused: 0, observed: 0 };
    out.set(l.limit, { refused: have.refused + (l.refused ?? 0), observed: have.observed + (l.observed ?? 0) });
  }
  return out;
}

export const ModeBadge = ({ mode }: { mode: string | undefined }) =>
  mode === "observe" ? <Badge tone="warn" text="observes" title="It lets pass what it would refuse, and marks it." /> : mode === "off" ? <Badge tone="mute" text="off" title="It does nothing." /> : <Badge tone="ok" text="enforced" title="It refuses." />;

function All() {
  const limits = useQuery(async (signal) => (await get("/v1/limits", { signal })) as unknown as { revision: number; items: { etag: string; value: Limit }[] }, [], { every: 10_000 });
  const refused = useQuery(dayOf, [], { every: 30_000 });
  const by = useBy();
  const count = (name: string, what: "refused" | "observed") => known(refused, (of) => number(of.get(name)?.[what] ?? 0));
  return (
    <Page
      title="Limits"
      lead="How many messages may pass. All limits that match are decided at once, all or nothing."
      actions={
        <a class="button primary" href={link("limits", "", { new: "1" })}>
          New limit{draftOf("", by) && " (unsaved)"}
        </a>
      }
    >
      <div class="stack">
        <Panel title="In force" note={limits.data && `revision ${limits.data.revision}`} wide flush>
          <Answer of={limits} lines={6}>
            {(l) => (
              <Table
                caption="Limits in force"
                rows={l.items}
                rowKey={(r) => r.value.name ?? ""}
                empty={<Empty title="No limits: everything passes">A limit says how many messages a recipient, or whoever it counts by, may get in a window.</Empty>}
                columns={[
                  { key: "name", title: "Limit", cell: (r) => <><a href={link("limits", r.value.name ?? "")}>{r.value.name}</a>{draftOf(r.value.name ?? "", by) && <> <Badge tone="warn" text="unsaved changes" title="Yours, in this tab" /></>}</> },
                  { key: "mode", title: "Mode", cell: (r) => <ModeBadge mode={r.value.mode} /> },
                  { key: "allow", title: "Allows", cell: (r) => <span class="part">{(r.value.allow ?? []).map(windowWords).join(" · ")}</span> },
                  { key: "match", title: "Counts", cell: (r) => matchWords(r.value.match), wideOnly: true },
                  { key: "per", title: "For", cell: (r) => perWords(r.value.per), roomyOnly: true },
                  { key: "refused", title: "Refused, 24\u00a0h", cell: (r) => (r.value.mode === "observe" ? <span class="muted">would have: {count(r.value.name ?? "", "observed")}</span> : count(r.value.name ?? "", "refused")), end: true },
                ]}
              />
            )}
          </Answer>
        </Panel>
        <Revisions upTo={limits.data?.revision} />
      </div>
    </Page>
  );
}
