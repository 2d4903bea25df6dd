// A table for any number of rows. Up to `all` of them are simply there; more
// scroll in a box, where only what is seen is drawn. Screen readers are told the
// whole count and each row's place. Arrows, Page Up and Down, Home and End go
// from row to row; a row's link or button takes the focus.

import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { span } from "./window.ts";

export interface Column<T> {
  key: string;
  title: string;
  cell: (row: T, index: number) => ComponentChildren;
  /** Numbers stand to the right. */
  end?: boolean;
  /** Left out on narrow screens. */
  wideOnly?: boolean;
  /** Left out where there is no room for all, below 1,000 px. */
  roomyOnly?: boolean;
  /** A fixed width in CSS, so that columns of long tables do not move: "12rem", "20%". */
  width?: string;
  /** Its width on a phone, where that is another. */
  narrow?: string;
}

interface Props<T> {
  caption: string;
  columns: readonly Column<T>[];
  rows: readonly T[];
  rowKey: (row: T, index: number) => string;
  empty?: ComponentChildren;
  /** Marks a row: the one that is open. */
  current?: (row: T) => boolean;
  /** The end is near: bring more. */
  onEnd?: () => void;
  /** How many rows are drawn without a box. */
  all?: number;
  /** Columns keep their widths, and what is too long for one is cut: for rows that change by themselves. */
  fixed?: boolean;
}

const rowHeight = 37;

export function Table<T>({ caption, columns, rows, rowKey, empty, current, onEnd, all = 100, fixed }: Props<T>) {
  const box = useRef<HTMLDivElement>(null);
  const boxed = rows.length > all;
  const [seen, see] = useState({ top: 0, height: 600 });
  const focus = useRef<number | undefined>(undefined);
  const near = useRef(-1);

  useEffect(() => {
    const b = box.current;
    if (!b || !boxed) return;
    let frame = 0;
    const look = () => {
      frame = 0;
      see((s) => (s.top === b.scrollTop && s.height === b.clientHeight ? s : { top: b.scrollTop, height: b.clientHeight }));
      if (b.scrollTop + b.clientHeight > b.scrollHeight - 20 * rowHeight && near.current !== rows.length) {
        near.current = rows.length;
        onEnd?.();
      }
    };
    const soon = () => (frame ||= requestAnimationFrame(look));
    look();
    b.addEventListener("scroll", soon, { passive: true });
    const size = new ResizeObserver(soon);
    size.observe(b);
    return () => {
      b.removeEventListener("scroll", soon);
      size.disconnect();
      cancelAnimationFrame(frame);
    };
  }, [boxed, rows.length, onEnd]);

  const { from, until } = boxed ? span(rows.length, rowHeight, seen.top, seen.height) : { from: 0, until: rows.length };

  const focusRow = (i: number) => {
    const row = box.current?.querySelector<HTMLElement>(`tr[data-row="${i}"]`);
    (row?.querySelector<HTMLElement>("a[href],button") ?? row)?.focus({ preventScroll: !boxed ? false : true });
    return row !== null && row !== undefined;
  };
  useLayoutEffect(() => {
    if (focus.current === undefined) return;
    // The row that had it may be drawn no more; who has gone elsewhere stays there.
    const now = document.activeElement;
    if ((now && now !== document.body && !box.current?.contains(now)) || focusRow(focus.current)) focus.current = undefined;
  });

  const keys = (e: KeyboardEvent) => {
    if (e.altKey || e.ctrlKey || e.metaKey) return;
    const target = e.target as HTMLElement;
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName)) return;
    const at = Number(target.closest<HTMLElement>("tr[data-row]")?.dataset["row"] ?? -1);
    const page = Math.max(1, Math.floor((boxed ? seen.height : 600) / rowHeight) - 2);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: rows.length - 1 }[e.key];
    if (to === undefined || rows.length === 0) return;
    e.preventDefault();
    const i = Math.max(0, Math.min(rows.length - 1, to));
    const b = box.current;
    if (b && boxed) {
      const top = i * rowHeight;
      if (top < b.scrollTop) b.scrollTop = top;
      else if (top + 2 * rowHeight > b.scrollTop + b.clientHeight) b.scrollTop = top + 2 * rowHeight - b.clientHeight;
    }
    if (!focusRow(i)) focus.current = i;
  };

  return (
    <div ref={box} class={`table-box${boxed ? " boxed" : ""}`} role={boxed ? "region" : undefined} aria-label={boxed ? caption : undefined} tabIndex={boxed ? 0 : undefined} onKeyDown={keys}>
      <table class={fixed ? "fixed" : undefined} aria-rowcount={rows.length + 1}>
        <caption class="sr">{caption}</caption>
        <thead>
          <tr aria-rowindex={1}>
            {columns.map((c) => {
              const style = c.width ? { "--w": c.width, "--n": c.narrow ?? c.width } : undefined;
              // A column of buttons or bars needs no name, and an empty heading would be read as one.
              return c.title ? (
                <th key={c.key} scope="col" class={cls(c)} style={style}>
                  {c.title}
                </th>
              ) : (
                <td key={c.key} class={cls(c)} style={style} />
              );
            })}
          </tr>
        </thead>
        <tbody>
          {from > 0 && <Spacer rows={from} />}
          {rows.slice(from, until).map((row, j) => {
            const i = from + j;
            return (
              <tr key={rowKey(row, i)} data-row={i} aria-rowindex={i + 2} tabIndex={-1} aria-current={current?.(row) ? "true" : undefined}>
                {columns.map((c) => (
                  <td key={c.key} class={cls(c)}>
                    {c.cell(row, i)}
                  </td>
                ))}
              </tr>
            );
          })}
          {until < rows.length && <Spacer rows={rows.length - until} />}
        </tbody>
      </table>
      {rows.length === 0 && empty}
    </div>
  );
}

const cls = <T,>(c: Column<T>) => [c.end ? "end" : "", c.wideOnly ? "wide-only" : "", c.roomyOnly ? "roomy-only" : ""].filter(Boolean).join(" ") || undefined;

/** Spacer is as high as rows that are not drawn. It spans one column: a phone has not all of them. */
function Spacer({ rows }: { rows: number }) {
  return (
    <tr aria-hidden="true" class="spacer">
      <td style={{ height: `${rows * rowHeight}px` }} />
    </tr>
  );
}
