// Light, dark, or as the system has it. The choice stays in this browser.

export const themes = ["auto", "light", "dark"] as const;
export type Theme = (typeof themes)[number];

export function theme(): Theme {
  try {
    return themes.find((t) => t === localStorage.getItem("weir.theme")) ?? "auto";
  } catch {
    return "auto"; // storage is forbidden
  }
}

export function setTheme(t: Theme): void {
  if (t === "auto") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = t;
  try {
    localStorage.setItem("weir.theme", t);
  } catch {
    // It holds until the page is loaded anew.
  }
}
