// The shell: who is looking, where to go, and the view that the address names.

import type { ComponentType } from "preact";
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ApiError, call, get, signedOut } from "./api/client.ts";
import { find, go, link, useRoute } from "./router.ts";
import type { View } from "./router.ts";
import { WhoContext, useWho } from "./session.tsx";
import type { Scope, Session, Who } from "./session.tsx";
import { setTheme, theme, themes } from "./theme.ts";
import type { Theme } from "./theme.ts";
import { Announcer } from "./ui/announce.tsx";
import { Page } from "./ui/page.tsx";
import { Empty, Failed, Loading, Needs } from "./ui/states.tsx";

/** Every view is a piece of its own, which comes when it is first opened. Its param and query are the address's. */
export interface ViewProps {
  param: string;
  query: URLSearchParams;
}

interface Entry {
  title: string;
  /** Without it the view is not offered. */
  scope?: Scope;
  load: () => Promise<{ default: ComponentType<ViewProps> }>;
}

const entries: Record<View, Entry> = {
  home: { title: "Overview", scope: "read", load: () => import("./views/home.tsx") },
  recipients: { title: "Recipients", scope: "read", load: () => import("./views/recipient.tsx") },
  messages: { title: "Messages", scope: "read", load: () => import("./views/message.tsx") },
  limits: { title: "Limits", scope: "admin", load: () => import("./views/limits.tsx") },
  providers: { title: "Providers", scope: "admin", load: () => import("./views/providers.tsx") },
  queues: { title: "Queues", scope: "read", load: () => import("./views/queues.tsx") },
  proof: { title: "Proof", scope: "admin", load: () => import("./views/proof.tsx") },
  "retry-after": { title: "Retry-After", load: () => import("./views/retry-after.tsx") },
};

type SignedIn = { is: "asking" } | { is: "in"; session: Session } | { is: "out"; why?: string } | { is: "lost"; error: unknown };

export function App() {
  const route = useRoute();
  const [signed, setSigned] = useState<SignedIn>({ is: "asking" });
  const ask = useCallback(() => {
    get("/v1/session").then(
      (session) => setSigned({ is: "in", session }),
      (error: unknown) => setSigned(error instanceof ApiError && error.status === 401 ? { is: "out" } : { is: "lost", error }),
    );
  }, []);
  useEffect(ask, [ask]);
  useEffect(() => {
    const over = () => setSigned({ is: "out", why: "The session is over: the key was revoked or has expired, or 12 hours have passed." });
    addEventListener(signedOut, over);
    return () => removeEventListener(signedOut, over);
  }, []);

  const who = useMemo<Who>(() => {
    const session = signed.is === "in" ? signed.session : undefined;
    return {
      session,
      can: (scope) => session?.scopes.includes(scope) ?? false,
      signOut: () => {
        call("delete", "/v1/session").then(ask, (error: unknown) => setSigned({ is: "lost", error }));
      },
    };
  }, [signed, ask]);

  const open = route.view === "retry-after"; // needs no key
  return (
    <WhoContext.Provider value={who}>
      <a class="skip" href="#main" onClick={(e) => (e.preventDefault(), document.getElementById("main")?.focus())}>
        Skip to content
      </a>
      <div class="shell">
        <Side current={route.view} who={who} asking={signed.is === "asking"} />
        <main id="main" tabIndex={-1}>
          {signed.is === "lost" && !open && <Failed error={signed.error} retry={ask} />}
          {signed.is === "asking" && !open && <Loading lines={8} label="Loading the console" />}
          {signed.is === "out" && !open && <SignInView why={signed.why} onIn={(session) => setSigned({ is: "in", session })} />}
          {(signed.is === "in" || open) && (route.view === "none" ? <Nowhere /> : <Lazy key={route.view} view={route.view} param={route.param} query={route.query} />)}
        </main>
      </div>
      <Announcer />
    </WhoContext.Provider>
  );
}

const signIn = () => import("./views/sign-in.tsx");

function SignInView(props: { why: string | undefined; onIn: (s: Session) => void }) {
  const [Form, set] = useState<ComponentType<typeof props>>();
  useEffect(() => void signIn().then((m) => set(() => m.default)), []);
  return Form ? <Form {...props} /> : <Loading lines={4} />;
}

const loaded = new Map<View, ComponentType<ViewProps>>();

function Lazy({ view, param, query }: ViewProps & { view: View }) {
  const [Shown, set] = useState<ComponentType<ViewProps> | undefined>(() => loaded.get(view));
  const [error, setError] = useState<unknown>();
  const entry = entries[view];
  const { can } = useWho();
  const may = !entry.scope || can(entry.scope);
  useEffect(() => {
    if (!may || loaded.has(view)) return;
    entry.load().then(
      (m) => {
        loaded.set(view, m.default);
        set(() => m.default);
      },
      () => setError(new Error("A part of the console could not be loaded. If Weir was just updated, load the page again.")),
    );
  }, [view, may]);
  if (entry.scope && !may)
    return (
      <Page title={entry.title}>
        <Needs scope={entry.scope}>{null}</Needs>
      </Page>
    );
  if (error) return <Failed error={error} retry={() => location.reload()} />;
  if (!Shown) return <Loading lines={10} label={`Loading ${entry.title}`} />;
  return <Shown param={param} query={query} />;
}

function Nowhere() {
  return (
    <Page title="Nothing here">
      <Empty title="This address leads nowhere.">
        It may be from another version. <a href={link("home")}>Back to the overview</a>
      </Empty>
    </Page>
  );
}

/** Side holds its places open while it is asked who is looking, so that nothing moves. */
function Side({ current, who, asking }: { current: string; who: Who; asking: boolean }) {
  const shown = (Object.entries(entries) as [View, Entry][]).filter(([, e]) => asking || !e.scope || who.can(e.scope));
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
            <b>{who.session.tenant}</b>
            <span class="muted">{who.session.key ? `${who.session.key}${who.session.test ? " · test key" : ""}` : "no key needed here"}</span>
          </p>
        )}
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
