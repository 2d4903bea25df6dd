// The fields of a limit.

import { type Fields, type Limit } from "../say/limit.ts";
import { parseWindow, windowWords } from "../say/window.ts";
import { Input, Select, Textarea } from "../ui/field.tsx";
import { plural } from "../ui/format.ts";

/** What has few values: the field, its name for people, and each value with its meaning. */
const choices = [
  ["mode", "Mode", [["enforce", "enforce: refuse"], ["observe", "observe: let pass, and mark"], ["off", "off"]]],
  ["on_refusal", "When it is full", [["reject", "refuse the message"], ["defer", "let it wait until there is room"]]],
  ["count", "What takes a place", [["message", "a message"], ["attempt", "every attempt"], ["segments", "every SMS part"], ["cost", "each unit of the request's cost"]]],
] as const;

interface Props {
  fields: Fields;
  set: (field: keyof Fields, value: string) => void;
  /** What the server says of a field, by its pointer. */
  wrong: (pointer: string) => string | undefined;
  /** It has no name yet. */
  isNew: boolean;
  overrides: Limit["overrides"];
}

export function LimitForm({ fields, set, wrong, isNew, overrides = [] }: Props) {
  const of = (field: keyof Fields) => ({ value: fields[field], onValue: (v: string) => set(field, v), error: wrong(`/${field}`) });
  return (
    <div class="limit-form">
      {isNew && <Input label="Name" {...of("name")} hint="Letters a to z, digits and hyphens." />}
      <Textarea label="Windows" rows={4} {...of("allow")} hint={<WindowHint text={fields.allow} />} />
      <Textarea label="Counts only" rows={4} {...of("match")} hint="One a line: class: verify, login. Without any, every message." />
      <Input label="Counted together by" {...of("per")} hint="recipient, class, tenant, channel, country, prefix:4, metadata.ip … Empty is all together." />
      {choices.map(([field, label, options]) => (
        <Select key={field} label={label} {...of(field)} options={options} />
      ))}
      <Input label="Zone of calendar windows" {...of("timezone")} placeholder="UTC" />
      <Textarea label="Exempt recipients" rows={2} {...of("exempt")} />
      {overrides.length > 0 && (
        <p class="muted">
          {plural(overrides.length, "override")} for single recipients: edit {overrides.length === 1 ? "it" : "them"} as text.
        </p>
      )}
    </div>
  );
}

function WindowHint({ text }: { text: string }) {
  const windows = text.split(/[\n,]/).map((w) => w.trim()).filter(Boolean);
  const odd = windows.find((w) => !parseWindow(w));
  if (windows.length === 0) return <>One a line: 1/60s, 5/1h, 10/calendar-day, bucket 10 refill 0.5/s.</>;
  return <>{odd ? `${odd} is no window: 1/60s, 10/calendar-day, bucket 10 refill 0.5/s` : windows.map(windowWords).join(" · ")}</>;
}
