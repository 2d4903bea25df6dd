// What a browser fetches before the first view stands, as it is sent: the page,
// the styles, the scripts of the shell, of the overview and of its charts.

import { existsSync, readFileSync, readdirSync } from "node:fs";
import { expect, test } from "vitest";

const dist = new URL("../../dist/", import.meta.url);
const most = 150 * 1024;

const read = (name: string) => readFileSync(new URL(name, dist));

/** needed is every file that a page's html or a script names, from one on. */
function needed(from: string[], skip: (name: string) => boolean): Set<string> {
  const found = new Set<string>();
  const look = (name: string) => {
    if (found.has(name) || skip(name)) return;
    found.add(name);
    if (!/\.(html|js)$/.test(name)) return;
    for (const [, other] of read(name).toString().matchAll(/["'`](?:\/console\/|\.\/)?((?:assets\/)?[\w.-]+\.(?:js|css))["'`]/g)) {
      const path = other!.startsWith("assets/") ? other! : `assets/${other}`;
      if (existsSync(new URL(path, dist))) look(path);
    }
  };
  from.forEach(look);
  return found;
}

test("the console is built: make console", () => {
  expect(existsSync(new URL("index.html", dist))).toBe(true);
});

test("the first view is under 150 KB, as brotli and as gzip", () => {
  const otherViews = /assets\/(recipient|message|limits|providers|queues|alerts|proof|retry-after|sign-in)-/;
  const files = [...needed(["index.html"], (name) => otherViews.test(name))];
  expect(files.some((f) => /assets\/home-.*\.js$/.test(f)), files.join(" ")).toBe(true);
  for (const how of [".br", ".gz"]) {
    const bytes = files.map((f) => read(f + how).length).reduce((a, b) => a + b, 0);
    console.log(`first view ${how}: ${(bytes / 1024).toFixed(1)} KB in ${files.length} files`);
    expect(bytes).toBeLessThan(most);
  }
});

test("nothing comes from elsewhere, and nothing inline", () => {
  const html = read("index.html").toString();
  expect(html).not.toMatch(/(src|href)="(https?:)?\/\//);
  expect(html).not.toMatch(/<script(?![^>]*\bsrc=)[^>]*>/);
  expect(html).not.toMatch(/<style|style="/);
  for (const name of readdirSync(new URL("assets/", dist))) {
    if (name.endsWith(".css")) expect(read(`assets/${name}`).toString(), name).not.toMatch(/@import|url\((?!["']?data:)/);
  }
});

test("every asset's name has a hash of its content, and .br and .gz beside it", () => {
  const names = readdirSync(new URL("assets/", dist));
  for (const name of names.filter((n) => /\.(js|css)$/.test(n))) {
    expect(name).toMatch(/-[\w-]{8}\.(js|css)$/);
    expect(names).toContain(`${name}.br`);
    expect(names).toContain(`${name}.gz`);
  }
});
