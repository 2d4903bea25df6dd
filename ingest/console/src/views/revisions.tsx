// Who changed what in the policy, and when.

import { get } from "../api/client.ts";
import { usePages } from "../api/pages.ts";
import { valueWords } from "../say/limit.ts";
import { Panel } from "../ui/page.tsx";
import { Empty, Failed, Loading } from "../ui/states.tsx";
import { Time } from "../ui/time.tsx";
import type { Schemas } from "../api/client.ts";

type Revision = Schemas["Revision"];
type Change = Schemas["Change"];

/** Revisions shows the policy's history, or with a name what was done to that limit. changed asks anew. */
export function Revisions({ limit, changed = 0 }: { limit?: string; changed?: number }) {
  const list = usePages<Revision>(
    async (cursor, signal) => {
      const page = await get("/v1/revisions", { query: { limit: 50, cursor }, signal });
      return { rows: page.revisions, next: page.next_cursor };
    },
    (r) => String(r.revision),
    [changed],
  );
  const concerns = (c: Change) => !limit || (c.kind === "limit" && c.name === limit);
  const shown = list.rows?.filter((r) => r.changes.some(concerns));
  return (
    <Panel title="Who changed what" note={limit ? `limit ${limit}` : "the whole policy"} wide>
      {list.error !== undefined && !list.loading && <Failed error={list.error} retry={list.refresh} />}
      {shown === undefined ? (
        list.loading && <Loading lines={3} />
      ) : shown.length === 0 ? (
        <Empty title="No change is recorded" />
      ) : (
        <ol class="revisions">
          {shown.map((r) => (
            <li key={r.revision}>
              <p>
                <b class="num">Revision {r.revision}</b> · <Time at={r.at} /> {r.by && <>· {r.by}</>}
              </p>
              <ul class="plain-list">
                {r.changes
                  .filter(concerns)
                  .slice(0, 12)
                  .map((c, i) => (
                    <li key={i}>
                      {changeWords(c)}
                      {c.fields && c.fields.length > 0 && <span class="muted">: {c.fields.map((f) => `${f.field} ${valueWords(f.old)} → ${valueWords(f.new)}`).join("; ")}</span>}
                    </li>
                  ))}
                {r.changes.filter(concerns).length > 12 && <li class="muted">and {r.changes.filter(concerns).length - 12} more</li>}
              </ul>
            </li>
          ))}
        </ol>
      )}
      {list.more && (
        <p class="table-more">
          <button type="button" class="button small" onClick={list.loadMore} disabled={list.loading}>
            Older changes
          </button>
        </p>
      )}
    </Panel>
  );
}

const verbs = { add: "made", change: "changed", remove: "removed" } as const;
const changeWords = (c: Change) => `${c.kind} ${c.name} ${verbs[c.op]}`;
