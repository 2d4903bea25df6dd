import { expect, test } from "vitest";
import { type Session, actsOnAll } from "./session.tsx";

test.each<[string, Session | undefined, boolean]>([
  ["nobody is signed in", undefined, false],
  ["weir dev, without keys", { tenant: "default", scopes: ["policy"] }, true],
  ["the operator's key", { tenant: "default", key: "root", scopes: ["policy"] }, true],
  ["a tenant's key", { tenant: "acme", key: "boss", scopes: ["policy"] }, false],
])("%s", (_, session, all) => expect(actsOnAll(session)).toBe(all));
