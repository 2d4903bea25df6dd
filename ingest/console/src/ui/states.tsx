// What a place shows that has nothing to show: it is loading, it is empty, it
// failed, or the key may not see it. Each keeps the place's height.

import type { ComponentChildren } from "preact";
import { ApiError, whyNot } from "../api/client.ts";
import type { Pages } from "../api/pages.ts";
import type { QueryState } from "../api/query.ts";
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

/** Failed says what went wrong, and offers to ask again: busy is that it is being asked. A 403 says which scope is needed. */
export function Failed({ title = "This could not be loaded", error, retry, busy }: { title?: string; error: unknown; retry?: (() => void) | undefined; busy?: boolean }) {
  const refused = error instanceof ApiError && (error.code === "forbidden_scope" || error.code === "forbidden_tenant");
  return (
    <div class="notice bad" role="alert">
      <div>
        <p class="notice-title">{refused ? "This key may not see this" : title}</p>
        <p>{whyNot(error)}</p>
      </div>
      {retry && !refused && (
        <button type="button" class="button" onClick={retry} aria-busy={busy}>
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
export function Answer<T>({ of, lines = 3, children }: { of: QueryState<T>; lines?: number; children: (data: T) => ComponentChildren }) {
  return (
    <>
      {of.error !== undefined && <Failed error={of.error} retry={of.reload} busy={of.loading} />}
      {of.data !== undefined ? children(of.data) : of.error === undefined && <Loading lines={lines} />}
    </>
  );
}

/** known is a value in a word: "…" while it is first asked for, "–" where it cannot be told. */
export const known = <T,>(of: QueryState<T>, show: (data: T) => string): string => (of.data !== undefined ? show(of.data) : of.error !== undefined ? "–" : "…");

/** Listed is Answer for a list that comes in pages, with the button that brings the next. */
export function Listed<T>({ of, lines = 3, more, children }: { of: Pages<T>; lines?: number; more: string; children: (rows: readonly T[]) => ComponentChildren }) {
  return (
    <>
      {of.error !== undefined && <Failed error={of.error} retry={of.refresh} busy={of.loading} />}
      {of.partial && (
        <div class="notice warn" role="status">
          <div>
            <p class="notice-title">This is not all</p>
            <p>ClickHouse does not answer. Only what this server has in memory is shown: about the last ten minutes.</p>
          </div>
        </div>
      )}
      {of.rows !== undefined ? children(of.rows) : of.error === undefined && <Loading lines={lines} />}
      {of.more && (
        <p class="table-more">
          <button type="button" class="button" onClick={of.loadMore} aria-busy={of.loading}>
            {more}
          </button>
        </p>
      )}
    </>
  );
}
