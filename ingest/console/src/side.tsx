// The side of every page, on a phone its top: where to go, what to find, who is looking.

import { useEffect, useRef, useState } from "preact/hooks";
import { type View, find, go, link } from "./router.ts";
import type { Scope, Who } from "./session.tsx";
import { type Theme, setTheme, theme, themes } from "./theme.ts";
import { zone } from "./ui/format.ts";

/** entries are the views in their order; one with a scope is offered to keys that have it. */
export const entries: Record<View, { title: string; scope?: Scope }> = {
  home: { title: "Overview", scope: "read" },
  recipients: { title: "Recipients", scope: "read" },
  messages: { title: "Messages", scope: "read" },
  limits: { title: "Limits", scope: "policy" },
  providers: { title: "Providers", scope: "operate" },
  queues: { title: "Queues", scope: "read" },
  alerts: { title: "Alerts", scope: "policy" },
  proof: { title: "Proof", scope: "operate" },
  "retry-after": { title: "Retry-After" },
};

/** Side holds its places open while it is asked who is looking, so that nothing moves. */
export function Side({ current, who, asking }: { current: string; who: Who; asking: boolean }) {
  const shown = (Object.entries(entries) as [View, (typeof entries)[View]][]).filter(([, e]) => asking || !e.scope || who.can(e.scope));
  const nav = useRef<HTMLElement>(null);
  useEffect(() => {
    // On a phone the views are a strip: the one that is open is in sight.
    const n = nav.current;
    const a = n?.querySelector<HTMLElement>("[aria-current]");
    if (n && a) n.scrollLeft = a.offsetLeft - n.offsetLeft - (n.clientWidth - a.offsetWidth) / 2;
  }, [current, asking]);
  return (
    <header class={`side${asking ? " asking" : ""}`}>
      <a class="brand" href={link("home")} aria-label="Weir, overview">
        <svg viewBox="0 0 32 32" aria-hidden="true">
          <rect width="32" height="32" rx="7" class="brand-bg" />
          <path d="M6 10h20M6 10v12M26 10v12" class="brand-frame" />
          <path d="M10 17c2 0 2 2 4 2s2-2 4-2 2 2 4 2M10 23c2 0 2 2 4 2s2-2 4-2 2 2 4 2" class="brand-water" />
        </svg>
        Weir
      </a>
      {(asking || who.can("read")) && <Find />}
      <nav ref={nav} aria-label="Views">
        <ul>
          {shown.map(([view, e]) => (
            <li key={view}>
              <a href={link(view)} aria-current={view === current ? "page" : undefined}>
                {e.title}
              </a>
            </li>
          ))}
        </ul>
      </nav>
      <div class="side-foot">
        {asking && <p class="who">{"\u00a0"}<span>{"\u00a0"}</span></p>}
        {who.session && (
          <p class="who" title={`Scopes: ${who.session.scopes.join(", ")}`}>
            {(who.session.tenants?.length ?? 0) > 1 ? <Tenants who={who} all={who.session.tenants ?? []} /> : <b>{who.session.tenant}</b>}
            <span class="muted">{who.session.key ? `${who.session.key}${who.session.test ? " · test key" : ""}` : "no key needed here"}</span>
          </p>
        )}
        <p class="who muted">Times are {zone(Date.now())}</p>
        <ThemeChoice />
        {who.session?.key && (
          <button type="button" class="button small" onClick={who.signOut}>
            Sign out
          </button>
        )}
      </div>
    </header>
  );
}

/** Find takes what support staff have: a number, an address, or a message's id. "/" goes to it. */
function Find() {
  const ref = useRef<HTMLInputElement>(null);
  useEffect(() => {
    const slash = (e: KeyboardEvent) => {
      const t = e.target as HTMLElement;
      if (e.key !== "/" || e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(t.tagName) || t.isContentEditable || document.querySelector("dialog[open]")) return;
      e.preventDefault();
      ref.current?.focus();
      ref.current?.select();
    };
    addEventListener("keydown", slash);
    return () => removeEventListener("keydown", slash);
  }, []);
  return (
    <form
      class="find"
      role="search"
      onSubmit={(e) => {
        e.preventDefault();
        const text = ref.current?.value ?? "";
        if (text.trim()) go(find(text));
        ref.current?.blur();
      }}
    >
      <label for="find" class="sr">
        Find a recipient or a message
      </label>
      <input ref={ref} id="find" type="search" placeholder="Number, mail or id" autocomplete="off" spellcheck={false} aria-keyshortcuts="/" enterkeyhint="search" />
      <kbd aria-hidden="true">/</kbd>
    </form>
  );
}

/** Tenants chooses whose messages are shown. */
function Tenants({ who, all }: { who: Who; all: string[] }) {
  return (
    <select aria-label="Tenant whose messages are shown" value={who.tenant} onChange={(e) => who.look(e.currentTarget.value)}>
      {all.map((t) => (
        <option key={t} value={t}>
          {t}
          {t !== who.session?.tenant && " (only look)"}
        </option>
      ))}
    </select>
  );
}

function ThemeChoice() {
  const [now, set] = useState<Theme>(theme);
  const next = themes[(themes.indexOf(now) + 1) % themes.length] ?? "auto";
  return (
    <button
      type="button"
      class="button small quiet"
      onClick={() => {
        setTheme(next);
        set(next);
      }}
      title={`Change to ${next}`}
    >
      Theme: {now}
    </button>
  );
}
