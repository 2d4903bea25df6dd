// What a place shows that has nothing to show: it is loading, it is empty, it
// failed, or the key may not see it. Each keeps the place's height.

import type { ComponentChildren } from "preact";
import { ApiError, whyNot } from "../api/client.ts";
import type { Scope } from "../session.tsx";
import { scopeWords, useWho } from "../session.tsx";

/** Loading holds a place open: lines of the height that will be there. */
export function Loading({ lines = 3, label = "Loading" }: { lines?: number; label?: string }) {
  return (
    <div class="skeleton" role="status" aria-label={label}>
      {Array.from({ length: lines }, (_, i) => (
        <span key={i} class={`bone w${(i * 5) % 4}`} />
      ))}
    </div>
  );
}

/** Empty says that there is nothing, why that may be, and what to do. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children && <div class="muted">{children}</div>}
    </div>
  );
}

/** Failed says what went wrong, and offers to ask again. A 403 says which scope is needed. */
export function Failed({ error, retry }: { error: unknown; retry?: (() => void) | undefined }) {
  const refused = error instanceof ApiError && error.code === "forbidden_scope";
  return (
    <div class="notice bad" role="alert">
      <div>
        <p class="notice-title">{refused ? "This key may not see this" : "This could not be loaded"}</p>
        <p>{whyNot(error)}</p>
      </div>
      {retry && !refused && (
        <button type="button" class="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}

/** Needs shows its children to keys with the scope, and to others what is missing. */
export function Needs({ scope, children }: { scope: Scope; children: ComponentChildren }) {
  const { can, session } = useWho();
  if (can(scope)) return <>{children}</>;
  return (
    <div class="notice" role="note">
      <div>
        <p class="notice-title">This needs the scope {scope}</p>
        <p>
          The key {session?.key ? <b>{session.key}</b> : "in use"} has {session?.scopes.join(", ") || "no scope"}. A key with {scope} {scopeWords[scope]}.
        </p>
        <p class="muted">
          An operator makes one with <code>weir keys create --scopes {scope}</code>.
        </p>
      </div>
    </div>
  );
}

/**
 * Answer shows a query: its last data while it asks again, else bones, else why
 * it failed. An error beside data stands above them, so that nothing old passes
 * for new.
 */
export function Answer<T>({ of, lines, children }: { of: { data: T | undefined; error: unknown; loading: boolean; reload: () => void }; lines?: number; children: (data: T) => ComponentChildren }) {
  if (of.data === undefined) return of.error && !of.loading ? <Failed error={of.error} retry={of.reload} /> : <Loading lines={lines ?? 3} />;
  return (
    <>
      {of.error && !of.loading ? <Failed error={of.error} retry={of.reload} /> : null}
      {children(of.data)}
    </>
  );
}
