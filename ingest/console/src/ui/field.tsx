// Fields of forms: a label, what it takes, and what is wrong with it, bound to one another.

import type { ComponentChildren, TextareaHTMLAttributes } from "preact";
import { useId, useRef, useState } from "preact/hooks";

interface Common {
  label: string;
  hint?: ComponentChildren;
  error?: string | undefined;
}

function Around({ id, label, hint, error, children }: Common & { id: string; children: ComponentChildren }) {
  return (
    <div class={`field${error ? " wrong" : ""}`}>
      <label for={id}>{label}</label>
      {children}
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

/** bound is what ties a field to its hint and to what is wrong with it. */
const bound = (id: string, hint: unknown, error: unknown) => ({
  id,
  "aria-invalid": error ? true : undefined,
  "aria-describedby": [hint ? `${id}-hint` : "", error ? `${id}-error` : ""].filter(Boolean).join(" ") || undefined,
});

interface InputProps extends Common {
  value: string;
  onValue: (v: string) => void;
  type?: "text" | "password" | "search" | "number" | "datetime-local" | "date" | "url";
  placeholder?: string;
  inputMode?: "text" | "numeric" | "decimal" | "tel" | "email" | "search";
  autocomplete?: "off" | "current-password";
  maxLength?: number;
  min?: string | number;
  max?: string | number;
  list?: string;
}

export function Input({ label, hint, error, value, onValue, ...rest }: InputProps) {
  const id = useId();
  return (
    <Around {...{ id, label, hint, error }}>
      {/* Preact's types tell inputs apart by type; which it is, only the caller knows. */}
      <input autocomplete="off" spellcheck={false} {...(rest as { type?: "text" })} {...bound(id, hint, error)} value={value} onInput={(e) => onValue(e.currentTarget.value)} />
    </Around>
  );
}

/** useDraft is what a form holds of filters that are in the address, until it is sent. Another address, as by Back, is another draft. */
export function useDraft<T extends object>(of: T): [T, (draft: T) => void] {
  const key = JSON.stringify(of);
  const kept = useRef({ key, draft: of });
  // Not in an effect: that would come after the first key of who writes at once.
  if (kept.current.key !== key) kept.current = { key, draft: of };
  const [, draw] = useState(0);
  return [
    kept.current.draft,
    (draft) => {
      kept.current.draft = draft;
      draw((n) => n + 1);
    },
  ];
}

interface SelectProps extends Common {
  value: string;
  onValue: (v: string) => void;
  /** Values, or values with what is shown for them. */
  options: readonly (string | readonly [value: string, text: string])[];
}

export function Select({ label, hint, error, value, onValue, options }: SelectProps) {
  const id = useId();
  return (
    <Around {...{ id, label, hint, error }}>
      <select {...bound(id, hint, error)} value={value} onChange={(e) => onValue(e.currentTarget.value)}>
        {options.map((o) => {
          const [v, text] = typeof o === "string" ? [o, o] : o;
          return (
            <option key={v} value={v}>
              {text}
            </option>
          );
        })}
      </select>
    </Around>
  );
}

type TextareaProps = Common & { value: string; onValue: (v: string) => void } & Pick<TextareaHTMLAttributes, "rows" | "class">;

/** Textarea is a field of several lines. */
export function Textarea({ label, hint, error, value, onValue, ...rest }: TextareaProps) {
  const id = useId();
  return (
    <Around {...{ id, label, hint, error }}>
      <textarea spellcheck={false} {...rest} {...bound(id, hint, error)} value={value} onInput={(e) => onValue(e.currentTarget.value)} />
    </Around>
  );
}

export function Checkbox({ label, checked, onValue, hint }: { label: string; checked: boolean; onValue: (v: boolean) => void; hint?: string }) {
  const id = useId();
  return (
    <div class="check">
      <input type="checkbox" id={id} checked={checked} onChange={(e) => onValue(e.currentTarget.checked)} aria-describedby={hint ? `${id}-hint` : undefined} />
      <label for={id}>{label}</label>
      {hint && (
        <p id={`${id}-hint`} class="hint">
          {hint}
        </p>
      )}
    </div>
  );
}
