// The shell: who is looking, where to go, and the view that the address names.

import type { ComponentType } from "preact";
import { useCallback, useEffect, useMemo, useState } from "preact/hooks";
import { ApiError, call, get, signedOut } from "./api/client.ts";
import { show } from "./api/tenant.ts";
import { link, useRoute } from "./router.ts";
import type { View } from "./router.ts";
import { WhoContext, actsOnAll, useWho } from "./session.tsx";
import type { Session, Who } from "./session.tsx";
import { Side, entries } from "./side.tsx";
import { Announcer } from "./ui/announce.tsx";
import { Page } from "./ui/page.tsx";
import { Empty, Failed, Loading, Needs } from "./ui/states.tsx";

/** Every view is a piece of its own, which comes when it is first opened. Its param and query are the address's. */
export interface ViewProps {
  param: string;
  query: URLSearchParams;
}

const load: Record<View, () => Promise<{ default: ComponentType<ViewProps> }>> = {
  home: () => import("./views/home.tsx"),
  recipients: () => import("./views/recipient.tsx"),
  messages: () => import("./views/message.tsx"),
  limits: () => import("./views/limits.tsx"),
  providers: () => import("./views/providers.tsx"),
  queues: () => import("./views/queues.tsx"),
  alerts: () => import("./views/alerts.tsx"),
  proof: () => import("./views/proof.tsx"),
  "retry-after": () => import("./views/retry-after.tsx"),
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

  const [chosen, choose] = useState<string>();
  const session = signed.is === "in" ? signed.session : undefined;
  const other = chosen !== undefined && chosen !== session?.tenant && session?.tenants?.includes(chosen) ? chosen : undefined;
  show(other); // before any view of this rendering asks
  const who = useMemo<Who>(() => {
    return {
      session,
      can: (scope) => (session?.scopes.includes(scope) ?? false) && !(other && scope === "send"),
      ofAll: actsOnAll(session),
      tenant: other ?? session?.tenant ?? "",
      look: choose,
      signOut: () => {
        call("delete", "/v1/session").then(ask, (error: unknown) => setSigned({ is: "lost", error }));
      },
    };
  }, [session, other, ask]);

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
          {(signed.is === "in" || open) && (route.view === "none" ? <Nowhere /> : <Lazy key={`${route.view} ${who.tenant}`} view={route.view} param={route.param} query={route.query} />)}
        </main>
      </div>
      <Announcer />
    </WhoContext.Provider>
  );
}

const signIn = () => import("./views/sign-in.tsx");

function SignInView(props: { why: string | undefined; onIn: (s: Session) => void }) {
  const { Shown, error } = usePiece(signIn);
  if (error) return <Failed error={error} retry={() => location.reload()} />;
  return Shown ? <Shown {...props} /> : <Loading lines={4} />;
}

function Lazy({ view, param, query }: ViewProps & { view: View }) {
  const { title, scope } = entries[view];
  const { can } = useWho();
  const may = !scope || can(scope);
  const { Shown, error } = usePiece(load[view], !may);
  if (scope && !may)
    return (
      <Page title={title}>
        <Needs scope={scope}>{null}</Needs>
      </Page>
    );
  if (error) return <Failed error={error} retry={() => location.reload()} />;
  if (!Shown) return <Loading lines={10} label={`Loading ${title}`} />;
  return <Shown param={param} query={query} />;
}

type Piece<P> = () => Promise<{ default: ComponentType<P> }>;

/** loaded is what has come, by what loads it: what is there is shown at once. */
const loaded = new Map<unknown, unknown>();

/** usePiece loads a part of the console. */
function usePiece<P>(load: Piece<P>, skip = false): { Shown: ComponentType<P> | undefined; error: unknown } {
  const [, came] = useState(false);
  const [error, fail] = useState<unknown>();
  const Shown = loaded.get(load) as ComponentType<P> | undefined;
  useEffect(() => {
    if (skip || Shown) return; // not loaded.has: it may have come after this drawing, for a component that is gone
    load().then(
      (m) => {
        loaded.set(load, m.default);
        came(true);
      },
      () => fail(new Error("A part of the console could not be loaded. If Weir was just updated, load the page again.")),
    );
  }, [load, skip, Shown]);
  return { Shown, error };
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
