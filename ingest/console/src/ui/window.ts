// Which rows of a long table are worth drawing.

export interface Span {
  /** The first row that is drawn, and the one after the last. */
  from: number;
  until: number;
}

/** span is the rows that are seen, with some more on both sides so that scrolling meets no holes. */
export function span(count: number, rowHeight: number, scrolled: number, height: number, more = 12): Span {
  const first = Math.floor(Math.max(0, scrolled) / rowHeight);
  const from = Math.max(0, Math.min(first - more, count));
  const until = Math.min(count, first + Math.ceil(height / rowHeight) + 1 + more);
  return { from, until: Math.max(from, until) };
}
