// Where one was on a page, for when one comes back to it by Back, Forward or
// Refresh. A browser does so by itself only for what is there at once; these pages
// come in pieces. Each entry of the history has a number in its state.

interface Place {
  page: number;
  /** Of the long table that scrolls in a box. */
  box: number;
}

const box = () => document.querySelector("main .table-box.boxed");
const kept = "weir.places";
/** How long a place is looked for once nothing is loading any more, and in all, in ms. */
const patience = 5000;
const longest = 60_000;
const loads = () => document.querySelector('main .skeleton, main .table-more [aria-busy="true"]') !== null;

/** followScroll is called once, before the first page is drawn. */
export function followScroll(): void {
  history.scrollRestoration = "manual";
  let places: Record<number, Place> = {};
  try {
    places = JSON.parse(sessionStorage.getItem(kept) ?? "{}") as typeof places;
  } catch {
    // Storage is forbidden, or another version wrote there.
  }
  const entry = () => (history.state as { n?: number } | null)?.n;
  let last = Math.max(entry() ?? 0, ...Object.keys(places).map(Number));
  let seeking: ReturnType<typeof setInterval> | undefined;
  const stop = () => {
    clearInterval(seeking);
    seeking = undefined;
  };
  const note = () => {
    const n = entry();
    if (n !== undefined && seeking === undefined) places[n] = { page: scrollY, box: box()?.scrollTop ?? 0 };
  };
  const arrive = () => {
    stop();
    const n = entry();
    if (n === undefined) {
      history.replaceState({ n: ++last }, "");
      scrollTo(0, 0);
      return;
    }
    const place = places[n];
    if (!place) return;
    const began = Date.now();
    let until = began + patience;
    seeking = setInterval(() => {
      if (loads()) until = Math.min(Date.now() + patience, began + longest);
      box()?.scrollTo(0, place.box); // at its end a list loads more
      scrollTo(0, place.page);
      const there = Math.abs(scrollY - place.page) < 2 && Math.abs((box()?.scrollTop ?? 0) - place.box) < 2;
      if (there || Date.now() > until) stop();
    }, 50);
  };
  addEventListener("scroll", note, { capture: true, passive: true });
  addEventListener("hashchange", (e) => e.isTrusted && arrive()); // go() makes one where it replaces
  addEventListener("pagehide", () => {
    try {
      sessionStorage.setItem(kept, JSON.stringify(places));
    } catch {
      // Then a page that is loaded anew begins at its top.
    }
  });
  // Whoever scrolls by himself is not led elsewhere.
  for (const by of ["wheel", "touchstart", "keydown", "pointerdown"]) addEventListener(by, stop, { passive: true });
  arrive();
}
