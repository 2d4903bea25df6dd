import { useState } from "preact/hooks";
import { call, whyNot } from "../api/client.ts";
import type { Session } from "../session.tsx";
import { Input } from "../ui/field.tsx";
import { link } from "../router.ts";
import { Page } from "../ui/page.tsx";

/** Signing in: the key goes to the server once and stays in a cookie that scripts cannot read. */
export default function SignIn({ why, onIn }: { why?: string | undefined; onIn: (s: Session) => void }) {
  const [key, setKey] = useState("");
  const [error, setError] = useState<string>();
  const [busy, setBusy] = useState(false);
  const submit = async () => {
    const trimmed = key.trim();
    if (!trimmed) {
      setError("Paste a key first.");
      return;
    }
    setBusy(true);
    setError(undefined);
    try {
      const { data } = await call("post", "/v1/session", { body: { key: trimmed } });
      setKey("");
      if (data) onIn(data);
    } catch (err) {
      setError(whyNot(err));
    } finally {
      setBusy(false);
    }
  };
  return (
    <div class="sign-in">
      <Page title="Sign in" lead="With an API key. What it may not see is not offered.">
        {why && (
          <p class="notice warn" role="status">
            {why}
          </p>
        )}
        <form
          onSubmit={(e) => {
            e.preventDefault();
            void submit();
          }}
        >
          <Input label="API key" type="password" autocomplete="current-password" placeholder="weir_live_…" value={key} onValue={setKey} error={error} maxLength={200} hint="It is kept for 12 hours in a cookie that scripts cannot read." />
          <button type="submit" class="button primary" disabled={busy} aria-busy={busy}>
            Sign in
          </button>
        </form>
        <p class="muted">
          No key? An operator makes one: <code>weir keys create</code>. To read a Retry-After header <a href={link("retry-after")}>no key is needed</a>.
        </p>
      </Page>
    </div>
  );
}
