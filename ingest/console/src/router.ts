// Addresses are after the #, so that the server has one page and a link can be
// pasted into a chat. Values are percent-encoded.

import { useLayoutEffect, useState } from "preact/hooks";
import { arriving, asking } from "./ui/focus.ts";

export const views = ["home", "recipients", "messages", "limits", "providers", "queues", "alerts", "proof", "retry-after"] as const;
export type View = (typeof views)[number];

export interface Route {
  view: View | "none";
  /** What follows the view: a recipient, a message's id, a limit's name. */
  param: string;
  query: URLSearchParams;
}

/** parse reads an address: "#/messages/ID?x=y". What cannot be read is view "none". */
export function parse(hash: string): Route {
  const text = hash.replace(/^#\/?/, "");
  const mark = text.indexOf("?");
  const path = mark < 0 ? text : text.slice(0, mark);
  const query = new URLSearchParams(mark < 0 ? "" : text.slice(mark + 1));
  const slash = path.indexOf("/");
  const head = slash < 0 ? path : path.slice(0, slash);
  const rest = slash < 0 ? "" : path.slice(slash + 1);
  let param = rest;
  try {
    param = decodeURIComponent(rest);
  } catch {
    // A pasted % that encodes nothing is what it says.
  }
  if (head === "") return { view: "home", param: "", query };
  const view = views.find((v) => v === head && v !== "home");
  return { view: view ?? "none", param, query };
}

/** link is the address of a view. */
export function link(view: View, param = "", query: Record<string, string | undefined> = {}): string {
  const q = new URLSearchParams();
  for (const [k, v] of Object.entries(query)) if (v) q.set(k, v);
  const text = q.toString();
  const path = view === "home" ? "" : param ? `${view}/${encodeURIComponent(param)}` : view;
  return `#/${path}${text ? `?${text}` : ""}`;
}

/** go changes the address; replace leaves the one before out of the history. */
export function go(to: string, replace = false): void {
  asking(to);
  if (replace) {
    history.replaceState(history.state, "", to);
    dispatchEvent(new HashChangeEvent("hashchange"));
  } else location.hash = to;
}

export function useRoute(): Route {
  const [route, set] = useState(() => parse(location.hash));
  // Not an effect that waits for the picture: an address that changed before would be missed.
  useLayoutEffect(() => {
    const changed = () => {
      arriving();
      set(parse(location.hash));
    };
    const clicked = (e: MouseEvent) => {
      const a = (e.target as Element).closest<HTMLAnchorElement>('a[href^="#/"]');
      if (a && !e.ctrlKey && !e.metaKey && !e.shiftKey) asking(a.hash); // with those it opens elsewhere
    };
    addEventListener("hashchange", changed);
    addEventListener("click", clicked, true);
    return () => {
      removeEventListener("hashchange", changed);
      removeEventListener("click", clicked, true);
    };
  }, []);
  return route;
}

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/** find is where pasted text leads: a message's id, or a recipient in any spelling. */
export function find(text: string): string {
  const t = text.trim();
  if (!t) return link("home");
  return uuid.test(t) ? link("messages", t.toLowerCase()) : link("recipients", t);
}
