// Whom the policy tells of what. What was told stands with who was told.

import "./desk.css";
import type { ViewProps } from "../app.tsx";
import { get } from "../api/client.ts";
import { useQuery } from "../api/query.ts";
import { type Alert, oftenWords, toWords, whenWords } from "../say/alert.ts";
import { Copy } from "../ui/copy.tsx";
import { Page, Panel } from "../ui/page.tsx";
import { Answer, Empty } from "../ui/states.tsx";
import { Table } from "../ui/table.tsx";

export default function Alerts(_: ViewProps) {
  const asked = useQuery(async (signal) => (await get("/v1/alerts", { signal })).items.map((i) => i.value as Alert), [], { every: 15_000 });
  return (
    <Page title="Alerts" lead="Whom Weir tells when something happens, and how often at most. What is held back is summed up in the next notice.">
      <Panel title="In force" wide flush>
        <Answer of={asked} lines={4}>
          {(alerts) => (
            <>
              <Table
                caption="Alerts in force"
                rows={alerts}
                rowKey={(a) => a.name ?? ""}
                columns={[
                  { key: "name", title: "Alert", cell: (a) => a.name },
                  { key: "to", title: "Whom", cell: (a) => <span title={toWords(a.to)}>{toWords(a.to)}</span> },
                  {
                    key: "when",
                    title: "Of what",
                    cell: (a) => (
                      <ul class="plain-list in-cell">
                        {a.when.map((w) => (
                          <li key={w}>{whenWords(w)}</li>
                        ))}
                      </ul>
                    ),
                  },
                  { key: "often", title: "At most", wideOnly: true, cell: (a) => oftenWords(a.at_most) },
                ]}
                empty={
                  <Empty title="Nobody is told of anything">
                    Add an alert to the policy file, and bring it into force with <code>weir apply</code>: Slack, mail or a webhook.
                  </Empty>
                }
              />
              {alerts[0] && (
                <p class="table-foot">
                  To see whether one arrives: <Copy text={`weir alerts test ${alerts[0].name}`} />
                </p>
              )}
            </>
          )}
        </Answer>
      </Panel>
    </Page>
  );
}
