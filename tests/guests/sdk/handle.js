// The module of `src/lib.rs` in JavaScript.

import { InvalidParameter, Response, Router, State } from "../sdk/index.js";

const routes = new Router()
  .get("/", count)
  .get("/query", (_, request) => Response.success(request.query("a") ?? null))
  .get("/all", (_, request) => Response.success(request.queryAll("a")))
  .get("/limit", limit)
  .get("/pairs", (_, request) => Response.success(request.queryPairs()))
  .get("/text", (_, request) => Response.success(request.queryText() ?? null))
  .get("/header", (_, request) => Response.success(request.header("x-a") ?? null))
  .get("/headers", (_, request) => Response.success(request.headerAll("x-a").length))
  .get("/param/:a/:b", (_host, _request, params) =>
    Response.success([params.get("a"), params.raw("b")]))
  .get("/chain/:id", chain)
  .get("/workers", workers)
  .get("/mount", (host) => Response.text(host.mount()))
  .get("/host", about)
  .get("/telemetry", telemetry)
  .get("/made", (_, request) =>
    Response.text(request.path).withStatus(201).withHeader("x-b", "c"));

export function handle(host, request) {
  if (request.method === "POST" && request.path === "/clear") {
    host.clearPackets("ibc-0");
    host.clearPackets(undefined);
    return Response.empty(202);
  }
  return routes.respond(host, request);
}

function about(host) {
  host.log("warn", "shown");
  const parts = host.components().map(({ name, version }) => [name, version]);
  const isConfirmed = host.unconfirmedSince() === undefined;
  return Response.success([parts, String(host.changed()), isConfirmed, host.sources().length]);
}

function telemetry(host) {
  const known = host.metricFamilies();
  const families = known.map((name) => {
    const { samples } = host.metricFamily(name);
    return samples.map(({ name, labels, value }) => {
      const pairs = labels.map(({ name, value }) => `${name}=${value}`);
      return `${name} ${pairs.join(",")} ${value}`;
    });
  });
  const isAbsent = host.metricFamily("absent") === undefined;
  return Response.success([known, families, isAbsent, String(host.scraped())]);
}

function count(host) {
  console.log("counting");
  return Response.text(`${host.chainIds().length} of them\n`);
}

function limit(_, request) {
  const limit = request.queryAs("limit", Number) ?? 10;
  if (limit > 100) throw new InvalidParameter("limit", `${limit} is above 100; request fewer`);
  return Response.success(limit);
}

function chain(host, _, params) {
  const id = params.get("id");
  const chain = host.chain(id);
  if (!chain) throw Response.error(404, "ChainNotFound", `there is no chain ${id}`);
  return Response.success(chain.id);
}

function workers(host) {
  const state = new State(host.state());
  const workers = state.workers().map(({ id, object }) => {
    const { kind, srcChainId, dstChainId } = object;
    return [id, kind, srcChainId === undefined ? [] : [srcChainId, dstChainId]];
  });
  return Response.success([state.chains(), workers]);
}
