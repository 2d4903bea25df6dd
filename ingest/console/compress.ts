import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import type { Plugin } from "vite";

/**
 * Writes a .br and a .gz beside every text file of the build, so that the server
 * compresses nothing, and puts back dist/.gitkeep, which the build removes and
 * Go's embed needs where nothing is built.
 */
export function compress(dir: string): Plugin {
  return {
    name: "weir-compress",
    apply: "build",
    closeBundle() {
      writeFileSync(join(dir, ".gitkeep"), "");
      for (const entry of readdirSync(dir, { recursive: true, withFileTypes: true })) {
        if (!entry.isFile() || !/\.(html|js|css|svg|json)$/.test(entry.name)) continue;
        const path = join(entry.parentPath, entry.name);
        const text = readFileSync(path);
        writeFileSync(path + ".br", brotliCompressSync(text, { params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: text.length } }));
        writeFileSync(path + ".gz", gzipSync(text, { level: 9 }));
      }
    },
  };
}
