// Fields of forms: a label, what it takes, and what is wrong with it, bound to one another.

import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";

interface Common {
  label: string;
  hint?: ComponentChildren;
  error?: string | undefined;
  /** The label is read out and not shown. */
  quiet?: boolean;
}

function Around({ id, label, hint, error, quiet, children }: Common & { id: string; children: ComponentChildren }) {
  return (
    <div class={`field${error ? " wrong" : ""}`}>
      <label for={id} class={quiet ? "sr" : ""}>
        {label}
      </label>
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

const described = (id: string, hint: unknown, error: unknown) => [hint ? `${id}-hint` : "", error ? `${id}-error` : ""].filter(Boolean).join(" ") || undefined;

interface InputProps extends Common {
  value: string;
  onValue: (v: string) => void;
  type?: "text" | "password" | "search" | "number" | "datetime-local" | "date" | "url";
  name?: string;
  placeholder?: string;
  inputMode?: "text" | "numeric" | "decimal" | "tel" | "email" | "search";
  autocomplete?: "off" | "current-password";
  maxLength?: number;
  min?: string | number;
  max?: string | number;
  step?: string | number;
  list?: string;
  required?: boolean;
  disabled?: boolean;
  readOnly?: boolean;
  onBlur?: () => void;
}

export function Input({ label, hint, error, quiet, value, onValue, ...rest }: InputProps) {
  const id = useId();
  return (
    <Around {...{ id, label, hint, error, quiet: quiet ?? false }}>
      {/* Preact's types tell inputs apart by type; which it is, only the caller knows. */}
      <input autocomplete="off" spellcheck={false} {...(rest as { type?: "text" })} id={id} value={value} onInput={(e) => onValue(e.currentTarget.value)} aria-invalid={error ? true : undefined} aria-describedby={described(id, hint, error)} />
    </Around>
  );
}

interface SelectProps extends Common {
  value: string;
  onValue: (v: string) => void;
  /** Values, or values with what is shown for them. */
  options: readonly (string | readonly [value: string, text: string])[];
  name?: string;
  disabled?: boolean;
}

export function Select({ label, hint, error, quiet, value, onValue, options, ...rest }: SelectProps) {
  const id = useId();
  return (
    <Around {...{ id, label, hint, error, quiet: quiet ?? false }}>
      <select {...rest} id={id} value={value} onChange={(e) => onValue(e.currentTarget.value)} aria-invalid={error ? true : undefined} aria-describedby={described(id, hint, error)}>
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
