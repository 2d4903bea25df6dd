// Where a Chromium is: the one that WEIR_CHROMIUM names, one on PATH, or else
// the one of npm's @sparticuz/chromium, which the lock file pins. Its files are
// compressed; they are unpacked once into node_modules/.cache, with the
// libraries and fonts that a bare machine lacks.

import { execFileSync } from "node:child_process";
import { accessSync, chmodSync, constants, createReadStream, createWriteStream, existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { createBrotliDecompress } from "node:zlib";

export interface Chromium {
  path: string;
  env: Record<string, string>;
  from: string;
}

const here = import.meta.dirname;
const packed = join(here, "node_modules", "@sparticuz", "chromium");

/** findChromium throws, with what to do about it in the message, where there is none. */
export async function findChromium(): Promise<Chromium> {
  const named = process.env.WEIR_CHROMIUM;
  if (named) {
    if (!runs(named)) throw new Error(`WEIR_CHROMIUM names ${named}, which cannot be run`);
    return { path: named, env: {}, from: "WEIR_CHROMIUM" };
  }
  for (const name of ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"])
    for (const dir of (process.env.PATH ?? "").split(delimiter)) {
      const path = join(dir, name);
      if (runs(path)) return { path, env: {}, from: "PATH" };
    }
  if (process.platform !== "linux" || process.arch !== "x64") throw new Error("no Chromium on PATH, and the one that npm has is for Linux on x64: install one, or name it in WEIR_CHROMIUM");
  if (!existsSync(packed)) throw new Error("no Chromium on PATH, and npm has not fetched one: run npm ci in ingest/console/test");
  return unpack();
}

function runs(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

async function unpack(): Promise<Chromium> {
  const { version } = JSON.parse(readFileSync(join(packed, "package.json"), "utf8")) as { version: string };
  const dir = join(here, "node_modules", ".cache", `chromium-${version}`);
  mkdirSync(dir, { recursive: true });
  const path = join(dir, "chromium");
  if (!existsSync(path)) {
    await inflate("chromium.br", path);
    chmodSync(path, 0o755);
  }
  const env: Record<string, string> = {};
  await untar("swiftshader", dir, dir); // looked for beside the binary
  if (execFileSync("ldd", [path], { encoding: "utf8" }).includes("not found")) env.LD_LIBRARY_PATH = join(await untar("al2023", dir), "lib");
  if (!existsSync("/etc/fonts/fonts.conf")) {
    const fonts = await untar("fonts", dir);
    env.FONTCONFIG_FILE = join(fonts, "here.conf");
    writeFileSync(env.FONTCONFIG_FILE, `<fontconfig><dir>${fonts}</dir><cachedir>${fonts}/cache</cachedir></fontconfig>\n`);
  }
  return { path, env, from: `npm's @sparticuz/chromium ${version}` };
}

/** A file that has its name is whole: it is written beside it first. */
async function inflate(name: string, to: string): Promise<void> {
  const half = `${to}.${process.pid}`;
  await pipeline(createReadStream(join(packed, "bin", name)), createBrotliDecompress(), createWriteStream(half));
  renameSync(half, to);
}

async function untar(name: string, dir: string, into = join(dir, name)): Promise<string> {
  const tar = join(dir, `${name}.tar`);
  if (existsSync(tar)) return into;
  await inflate(`${name}.tar.br`, `${tar}.new`);
  mkdirSync(into, { recursive: true });
  execFileSync("tar", ["-xf", `${tar}.new`, "-C", into, "--no-same-owner"]);
  renameSync(`${tar}.new`, tar);
  return into;
}
