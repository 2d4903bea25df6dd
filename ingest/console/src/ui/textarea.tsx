import type { ComponentChildren, TextareaHTMLAttributes } from "preact";
import { useId } from "preact/hooks";

type Props = { label: string; value: string; onValue: (v: string) => void; hint?: ComponentChildren; error?: string | undefined } & Omit<TextareaHTMLAttributes, "value" | "label">;

/** Textarea is a field of several lines, with its label, what it takes, and what is wrong with it. */
export function Textarea({ label, value, onValue, hint, error, ...rest }: Props) {
  const id = useId();
  const described = [hint ? `${id}-hint` : "", error ? `${id}-error` : ""].filter(Boolean).join(" ") || undefined;
  return (
    <div class={`field${error ? " wrong" : ""}`}>
      <label for={id}>{label}</label>
      <textarea spellcheck={false} {...rest} id={id} value={value} onInput={(e) => onValue(e.currentTarget.value)} aria-invalid={error ? true : undefined} aria-describedby={described} />
      {hint && (
        <p id={`${id}-hint`} class="hint">
          {hint}
        </p>
      )}
      {error && (
        <p id={`${id}-error`} class="field-error">
          {error}
        </p>
      )}
    </div>
  );
}
