import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { idle } from "./focus.ts";

/** Page is a view's frame: its title, what it is for, and its actions. Its heading takes the focus when the view is opened. */
export function Page({ title, lead, actions, children }: { title: string; lead?: ComponentChildren; actions?: ComponentChildren; children: ComponentChildren }) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${title} · Weir`;
  }, [title]);
  // Once, and with the view: a title that becomes known later takes the focus from
  // nobody. Nor does a view that came late from who is elsewhere by then.
  useLayoutEffect(() => {
    if (opened && idle()) heading.current?.focus({ preventScroll: true });
    opened = true;
  }, []);
  return (
    <>
      <header class="page-head">
        <div>
          <h1 ref={heading} tabIndex={-1}>
            {title}
          </h1>
          {lead && <p class="lead">{lead}</p>}
        </div>
        {actions && <div class="actions">{actions}</div>}
      </header>
      {children}
    </>
  );
}

let opened = false; // The first view leaves the focus where the browser has it.

/** Panel is a part of a page with a heading. */
export function Panel({ title, note, children, wide, flush }: { title: string; note?: ComponentChildren; children: ComponentChildren; wide?: boolean; flush?: boolean }) {
  return (
    <section class={`panel${wide ? " wide" : ""}${flush ? " flush" : ""}`} aria-label={title}>
      <header class="panel-head">
        <h2>{title}</h2>
        {note && <div class="panel-note">{note}</div>}
      </header>
      {children}
    </section>
  );
}

/** Facts are names with values, side by side. */
export function Facts({ of }: { of: readonly (readonly [name: string, value: ComponentChildren] | false | undefined | "")[] }) {
  return (
    <dl class="facts">
      {of.map(
        (f) =>
          f && (
            <div key={f[0]}>
              <dt>{f[0]}</dt>
              <dd>{f[1]}</dd>
            </div>
          ),
      )}
    </dl>
  );
}
