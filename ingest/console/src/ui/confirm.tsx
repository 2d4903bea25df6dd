import type { ComponentChildren } from "preact";
import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { whyNot } from "../api/client.ts";

interface Props {
  open: boolean;
  title: string;
  /** The verb on the button: "Redrive 12 messages". Never "OK". */
  action: string;
  /** The verb that leaves all as it is, where "Cancel" could mean the other thing. */
  dismiss?: string;
  danger?: boolean;
  disabled?: boolean;
  /** Confirming is a step, and does not close it. */
  stay?: boolean;
  children?: ComponentChildren;
  /** Does it. The dialog stays open while it runs, and where it fails says why. */
  onConfirm: () => Promise<unknown> | void;
  onClose: () => void;
}

/** Confirm asks before something that cannot be undone. Escape and the other button close it. */
export function Confirm({ open, title, action, dismiss = "Cancel", danger, disabled, stay, children, onConfirm, onClose }: Props) {
  const ref = useRef<HTMLDialogElement>(null);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState("");
  useEffect(() => {
    const d = ref.current;
    if (!d) return;
    if (open && !d.open) {
      setError("");
      d.showModal();
    } else if (!open && d.open) d.close();
  }, [open]);
  // A dialog that is taken away while it is open gives the focus back only if it is closed first.
  useLayoutEffect(() => {
    const d = ref.current;
    return () => d?.close();
  }, []);
  const heading = useId();
  const confirm = async () => {
    setBusy(true);
    setError("");
    try {
      await onConfirm();
      if (!stay) onClose();
    } catch (err) {
      setError(whyNot(err));
    } finally {
      setBusy(false);
    }
  };
  return (
    <dialog
      ref={ref}
      class="dialog"
      aria-labelledby={heading}
      onCancel={(e) => {
        e.preventDefault();
        if (!busy) onClose();
      }}
      onClose={() => open && onClose()}
    >
      {open && (
        <form
          method="dialog"
          onSubmit={(e) => {
            e.preventDefault();
            void confirm();
          }}
        >
          <h2 id={heading}>{title}</h2>
          <div class="dialog-body">{children}</div>
          {error && (
            <p class="notice bad" role="alert">
              {error}
            </p>
          )}
          <div class="dialog-actions">
            <button type="button" class="button" onClick={onClose} disabled={busy}>
              {dismiss}
            </button>
            <button type="submit" class={`button ${danger ? "danger" : "primary"}`} disabled={busy || disabled} aria-busy={busy}>
              {action}
            </button>
          </div>
        </form>
      )}
    </dialog>
  );
}
