// Who is looking at the console, and what the key lets him see.

import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Schemas } from "./api/client.ts";

export type Scope = "send" | "read" | "policy" | "operate";
export type Session = Schemas["Session"];

export interface Who {
  session: Session | undefined;
  /** can: the key has the scope. A call without it would be 403. */
  can: (scope: Scope) => boolean;
  /** ofAll: the key acts on every tenant. What shows or changes all of them answers other keys with 403. */
  ofAll: boolean;
  /** tenant is whose messages are shown. Another's can only be looked at. */
  tenant: string;
  /** look shows a tenant's messages. */
  look: (tenant: string) => void;
  signOut: () => void;
}

export const WhoContext = createContext<Who>({ session: undefined, can: () => false, ofAll: false, tenant: "", look: () => {}, signOut: () => {} });

/** actsOnAll: keys of the tenant default, and callers who need none. */
export const actsOnAll = (session: Session | undefined): boolean => session !== undefined && (!session.key || session.tenant === "default");

export const useWho = (): Who => useContext(WhoContext);

/** useBy is who is looking, as his drafts have it. */
export function useBy(): string {
  const { session } = useWho();
  return `${session?.tenant ?? ""}/${session?.key ?? ""}`;
}

/** What each scope is for, in the sentence that says that one is missing. */
export const scopeWords: Record<Scope, string> = {
  send: "sends, cancels, retries and redrives messages",
  read: "reads messages, counts and what limits leave",
  policy: "reads and changes limits, routes and alerts",
  operate: "of the tenant default sees providers, delays and the proof",
};
