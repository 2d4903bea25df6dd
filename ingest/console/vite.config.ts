import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";
import { compress } from "./compress.ts";

const dist = fileURLToPath(new URL("./dist", import.meta.url));

// Where `npm run dev` finds a running `weir dev`.
const weir = process.env["WEIR_URL"] ?? "http://127.0.0.1:8080";

export default defineConfig({
  base: "/console/",
  plugins: [compress(dist)],
  build: {
    outDir: dist,
    target: "es2022",
    cssTarget: ["chrome123", "firefox120", "safari17.5"], // light-dark() as it is
    sourcemap: false,
    assetsInlineLimit: 0, // the content security policy has no data: for scripts and styles
    reportCompressedSize: false,
    rolldownOptions: { checks: { pluginTimings: false } }, // compressing takes the time that it takes
  },
  server: {
    // The server checks Host and Origin: both are its own behind the proxy.
    proxy: { "/v1": { target: weir, changeOrigin: true, headers: { origin: weir } } },
  },
  test: {
    include: ["src/**/*.test.{ts,tsx}", "test/unit/**/*.test.ts"],
  },
});
