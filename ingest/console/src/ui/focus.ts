// The focus is where a person works. What comes late, a view's code or an answer,
// takes it only from where he was when he asked for it.

let asked: Element | null = null;
let noted = false;

/** asking notes where the focus is when an address is asked for: at the click or the call, since the next key may come before its hashchange. */
export function asking(to: string): void {
  if (to === location.hash) return;
  asked = document.activeElement;
  noted = true;
}

/** arriving is the hashchange. Back and Forward were not noted before. */
export function arriving(): void {
  if (!noted) asked = document.activeElement;
  noted = false;
}

/** idle says that nobody writes, and that the focus is where it was when the view was asked for, or nowhere. */
export function idle(): boolean {
  const now = document.activeElement;
  return !now || now === document.body || (now === asked && !now.matches("input, select, textarea"));
}
