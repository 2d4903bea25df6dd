// src/api/types.ts is what `npm run types` makes of the API's description.

import { readFileSync } from "node:fs";
import openapiTS, { astToString } from "openapi-typescript";
import { expect, test } from "vitest";

test("types.ts is of schemas/openapi.yaml: npm run types", async () => {
  const schema = new URL("../../../../schemas/openapi.yaml", import.meta.url);
  const made = astToString(await openapiTS(schema));
  const held = readFileSync(new URL("../../src/api/types.ts", import.meta.url), "utf8");
  expect(held.endsWith(made), "run npm run types in ingest/console, and commit").toBe(true);
}, 15_000);
