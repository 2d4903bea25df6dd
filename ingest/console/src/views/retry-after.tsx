// What a Retry-After header means, in local time, and as a line for a client's
// code. Nothing leaves the browser, and no key is needed.

import "./desk.css";
import { useEffect, useState } from "preact/hooks";
import type { ViewProps } from "../app.tsx";
import { explain, sentence, stamp, utc } from "../retry-after.ts";
import { go, link } from "../router.ts";
import { Copy } from "../ui/copy.tsx";
import { Input } from "../ui/field.tsx";
import { duration } from "../ui/format.ts";
import { Facts, Page, Panel } from "../ui/page.tsx";
import { useNow } from "../ui/time.tsx";

export default function RetryAfter({ param }: ViewProps) {
  const [value, setValue] = useState(param || "120");
  const [came, setCame] = useState(Date.now);
  useEffect(() => {
    // The address follows what is typed; only another one is news.
    if (param) setValue((v) => (v.trim() === param ? v : param));
  }, [param]);
  const now = useNow(1000);
  // A whole header line may be pasted.
  const r = explain(value.replace(/^\s*retry-after\s*:/i, ""), came);
  const change = (v: string) => {
    setValue(v);
    setCame(Date.now());
    go(link("retry-after", v.trim()), true);
  };
  const left = "error" in r ? 0 : r.at - now;
  return (
    <Page title="Retry-After" lead="When to try again after a 429 or 503, from the header of the answer. Nothing is sent anywhere.">
      <div class="stack narrow">
        <Panel title="The header's value">
          <Input label="Seconds, or an HTTP date" value={value} onValue={change} error={"error" in r ? `${r.error[0]?.toUpperCase()}${r.error.slice(1)}.` : undefined} placeholder="120" maxLength={200} />
          <p class="row samples">
            <span class="muted">For example</span>
            {["120", new Date(came + 300_000).toUTCString(), "Retry-After: 30"].map((v) => (
              <button key={v} type="button" class="button small" onClick={() => change(v)}>
                {v}
              </button>
            ))}
          </p>
        </Panel>
        {!("error" in r) && (
          <Panel title="What it says">
            <p class="answer">{sentence(r)}</p>
            <Facts
              of={[
                ["Try again at", <span class="num">{stamp(r.at)}</span>],
                !stamp(r.at).endsWith(" UTC") && ["That is", <span class="num">{utc(r.at)}</span>],
                ["From now", <span class="num">{left > 0 ? `in ${duration(Math.ceil(left / 1000) * 1000)}` : "now"}</span>],
                r.form === "seconds" && ["The answer came", <button type="button" class="button small" onClick={() => setCame(Date.now())}>Just now</button>],
              ]}
            />
            {r.note && <p class="notice warn spaced">{r.note}</p>}
            <h3 class="spaced">For the client's code</h3>
            <p>
              <Copy text={`// ${r.comment}`} label="the comment" />
            </p>
          </Panel>
        )}
        <p class="muted">
          The same on the command line: <code>weir explain retry-after 120</code>
        </p>
      </div>
    </Page>
  );
}
