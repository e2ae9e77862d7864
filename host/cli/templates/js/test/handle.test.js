import assert from "node:assert/strict";
import test from "node:test";

import { get, notReadyHost, fakeHost } from "../sdk/testing.js";
import { handle } from "../src/handle.js";

test("chains are listed", () => {
  const host = fakeHost("ibc-0", "ibc-1");
  assert.equal(handle(host, get("/")).body, "2 chains: ibc-0, ibc-1\n");
  assert.equal(handle(host, get("/chain/ibc-1")).status, 200);
  assert.equal(handle(host, get("/chain/ibc-2")).status, 404);
});

test("unknown chains are reported as not ready", () => {
  const response = handle(notReadyHost("wait"), get("/"));
  assert.equal(response.status, 503);
  assert.deepEqual(response.headers.at(-1), ["retry-after", "1"]);
});

test("other paths and methods are rejected", () => {
  assert.equal(handle(fakeHost(), get("/other")).status, 404);
  const response = handle(fakeHost(), { ...get("/"), method: "POST" });
  assert.equal(response.status, 405);
});
