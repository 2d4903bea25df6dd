// Who changed what in the policy, and when.

import { useEffect } from "preact/hooks";
import { type Schemas, get } from "../api/client.ts";
import { usePages } from "../api/pages.ts";
import { useAgain } from "../api/query.ts";
import { sumUp } from "../say/revision.ts";
import { useWho } from "../session.tsx";
import { Panel } from "../ui/page.tsx";
import { Empty, Listed } from "../ui/states.tsx";
import { Time } from "../ui/time.tsx";

type Revision = Schemas["Revision"];
type Change = Schemas["Change"];

/** Revisions shows the policy's history, or with a name what was done to that limit. upTo is the revision that is known to be in force: until it is there, it is asked for again. */
export function Revisions(of: Of) {
  // The history is every tenant's: a key of one tenant is not asked for it.
  return useWho().ofAll ? <History {...of} /> : null;
}

interface Of {
  limit?: string;
  upTo?: number | undefined;
}

function History({ limit, upTo = 0 }: Of) {
  const list = usePages<Revision>(
    async (cursor, signal) => {
      const page = await get("/v1/revisions", { query: { limit: 50, cursor }, signal });
      return { rows: page.revisions, next: page.next_cursor };
    },
    (r) => String(r.revision),
    [],
  );
  const behind = (list.rows?.[0]?.revision ?? upTo) < upTo;
  useEffect(() => {
    if (behind) list.refresh();
  }, [behind, upTo]);
  useAgain(behind, list.loading, list.refresh);
  const concerns = (c: Change) => !limit || (c.kind === "limit" && c.name === limit);
  return (
    <Panel title="Who changed what" note={limit ? `limit ${limit}` : "the whole policy"} wide>
      <Listed of={list} more="Older changes">
        {(all) => {
          const shown = all.filter((r) => r.changes.some(concerns));
          if (shown.length === 0) return list.more ? <p class="muted">None of the last {all.length} revisions changed it.</p> : <Empty title="No change is recorded" />;
          return (
            <ol class="revisions">
              {shown.map((r) => (
                <li key={r.revision}>
                  <p>
                    <b class="num">Revision {r.revision}</b> · <Time at={r.at} /> {r.by && <>· {r.by}</>}
                  </p>
                  <ul class="plain-list">
                    {sumUp(r.changes.filter(concerns)).map((line) => (
                      <li key={line.words}>
                        {line.words}
                        {line.fields && <span class="muted">: {line.fields}</span>}
                      </li>
                    ))}
                  </ul>
                </li>
              ))}
            </ol>
          );
        }}
      </Listed>
    </Panel>
  );
}
