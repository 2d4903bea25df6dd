import { type Difference, valueWords } from "../say/limit.ts";

/** Diff is what a change changes, field by field: what is in force, and what comes. */
export function Diff({ fields, caption, before = "In force", after = "After" }: { fields: readonly Difference[]; caption: string; before?: string; after?: string }) {
  return (
    <div class="table-box">
      <table class="diff">
        <caption class="sr">{caption}</caption>
        <thead>
          <tr>
            <th scope="col">Field</th>
            <th scope="col">{before}</th>
            <th scope="col">{after}</th>
          </tr>
        </thead>
        <tbody>
          {fields.map((f) => (
            <tr key={f.field}>
              <th scope="row">{f.field}</th>
              <td class="wrap">{f.old === undefined ? <span class="muted">–</span> : <del>{valueWords(f.old)}</del>}</td>
              <td class="wrap">{f.new === undefined ? <span class="muted">removed</span> : <ins>{valueWords(f.new)}</ins>}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
