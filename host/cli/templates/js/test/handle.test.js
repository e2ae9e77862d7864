import assert from "node:assert/strict";
import test from "node:test";

import { FakeHost, Request } from "../sdk/testing.js";
import { handle } from "../src/handle.js";

test("chains are listed", () => {
  const host = new FakeHost().withChain("ibc-0").withChain("ibc-1");
  assert.equal(handle(host, Request.get("/")).textBody(), "2 chains: ibc-0, ibc-1\n");
  assert.equal(handle(host, Request.get("/chain/ibc-1")).status, 200);
  assert.equal(handle(host, Request.get("/chain/ibc-2")).status, 404);
});

test("unknown chains are reported as not ready", () => {
  const response = handle(FakeHost.notReady("wait"), Request.get("/"));
  assert.equal(response.status, 503);
  assert.equal(response.header("retry-after"), "1");
});

test("other paths and methods are rejected", () => {
  assert.equal(handle(new FakeHost(), Request.get("/other")).status, 404);
  assert.equal(handle(new FakeHost(), new Request("POST", "/")).status, 405);
});
