import { afterEach, expect, test } from "vitest";
import { ofTenant, show } from "./tenant.ts";

afterEach(() => show(undefined));

test("a reading is of the tenant that is shown, unless it names one", () => {
  expect(ofTenant("/v1/messages", { class: "verify" })).toEqual({ class: "verify" });
  show("acme");
  expect(ofTenant("/v1/messages", { class: "verify" })).toEqual({ tenant: "acme", class: "verify" });
  expect(ofTenant("/v1/stats", { tenant: "*" })).toEqual({ tenant: "*" });
  expect(ofTenant("/v1/events")).toEqual({ tenant: "acme" });
  expect(ofTenant("/v1/limits")).toEqual({});
  expect(ofTenant("/v1/messages/{id}/cancel")).toEqual({});
});
