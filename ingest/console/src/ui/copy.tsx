import { announce } from "./announce.tsx";

/** Copy is a text that a click copies: ids, commands. */
export function Copy({ text, label }: { text: string; label?: string }) {
  return (
    <button
      type="button"
      class="copy"
      title="Copy"
      onClick={() => {
        navigator.clipboard.writeText(text).then(
          () => announce("Copied"),
          () => announce("The browser did not let it be copied"),
        );
      }}
    >
      <span class="sr">Copy{label ? ` ${label}:` : ""} </span>
      <code>{text}</code>
      <svg viewBox="0 0 16 16" aria-hidden="true">
        <path d="M5.5 5.5v-3h8v8h-3M2.5 5.5h8v8h-8z" />
      </svg>
    </button>
  );
}
