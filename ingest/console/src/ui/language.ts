// uPlot asks Intl for the browser's language while it is loaded, and stops there
// where Intl does not know it: a Chromium under LANG=C says "en-US@posix".

try {
  new Intl.NumberFormat(navigator.language);
} catch {
  Object.defineProperty(navigator, "language", { value: "en", configurable: true });
}

export {};
