import assert from "node:assert/strict";
import test from "node:test";

import { get, knowsNothing, madeUp } from "../sdk/testing.js";
import { handle } from "../src/handle.js";

test("chains are told", () => {
  const host = madeUp("ibc-0", "ibc-1");
  assert.equal(handle(host, get("/")).body, "2 chains: ibc-0, ibc-1\n");
  assert.equal(handle(host, get("/chain/ibc-1")).status, 200);
  assert.equal(handle(host, get("/chain/ibc-2")).status, 404);
});

test("what is not known yet is said", () => {
  const answer = handle(knowsNothing("wait"), get("/"));
  assert.equal(answer.status, 503);
  assert.deepEqual(answer.headers.at(-1), ["retry-after", "1"]);
});

test("what is not served is refused", () => {
  assert.equal(handle(madeUp(), get("/other")).status, 404);
  const answer = handle(madeUp(), { ...get("/"), method: "POST" });
  assert.equal(answer.status, 405);
});
