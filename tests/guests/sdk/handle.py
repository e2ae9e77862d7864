"""The module of `src/lib.rs` in Python."""

from sdk import Host, InvalidParameter, Params, Request, Response, Router, State

routes = Router()


def handle(host: Host, request: Request) -> Response:
    if request.method == "POST" and request.path == "/clear":
        host.clear_packets("ibc-0")
        host.clear_packets(None)
        return Response.empty(202)
    return routes.respond(host, request)


@routes.get("/")
def count(host: Host, request: Request, params: Params) -> Response:
    print("counting")
    return Response.text(f"{len(host.chain_ids())} of them\n")


@routes.get("/query")
def query(host: Host, request: Request, params: Params) -> Response:
    return Response.success(request.query("a"))


@routes.get("/all")
def query_all(host: Host, request: Request, params: Params) -> Response:
    return Response.success(request.query_all("a"))


@routes.get("/limit")
def limit(host: Host, request: Request, params: Params) -> Response:
    limit = request.query_as("limit", int)
    if limit is not None and limit > 100:
        raise InvalidParameter("limit", f"{limit} is above 100; request fewer")
    return Response.success(10 if limit is None else limit)


@routes.get("/pairs")
def pairs(host: Host, request: Request, params: Params) -> Response:
    return Response.success(request.query_pairs())


@routes.get("/text")
def text(host: Host, request: Request, params: Params) -> Response:
    return Response.success(request.query_text())


@routes.get("/header")
def header(host: Host, request: Request, params: Params) -> Response:
    return Response.success(request.header("x-a"))


@routes.get("/headers")
def headers(host: Host, request: Request, params: Params) -> Response:
    return Response.success(len(request.header_all("x-a")))


@routes.get("/param/:a/:b")
def param(host: Host, request: Request, params: Params) -> Response:
    return Response.success([params.get("a"), params.raw("b")])


@routes.get("/chain/:id")
def chain(host: Host, request: Request, params: Params) -> Response:
    id = params.get("id")
    chain = host.chain(id)
    if chain is None:
        raise Response.error(404, "ChainNotFound", f"there is no chain {id}")
    return Response.success(chain.id)


@routes.get("/workers")
def workers(host: Host, request: Request, params: Params) -> Response:
    state = State(host.state())
    workers = []
    for worker in state.workers():
        names = vars(worker.object)
        chains = [names["src_chain_id"], names["dst_chain_id"]] if "src_chain_id" in names else []
        workers.append([worker.id, worker.object.kind, chains])
    return Response.success([state.chains(), workers])


@routes.get("/mount")
def mount(host: Host, request: Request, params: Params) -> Response:
    return Response.text(host.mount())


@routes.get("/host")
def about(host: Host, request: Request, params: Params) -> Response:
    host.log("warn", "shown")
    parts = [[part.name, part.version] for part in host.components()]
    is_confirmed = host.unconfirmed_since() is None
    return Response.success([parts, str(host.changed()), is_confirmed, len(host.sources())])


@routes.get("/telemetry")
def telemetry(host: Host, request: Request, params: Params) -> Response:
    known = host.metric_families()
    families = []
    for name in known:
        samples = []
        for sample in host.metric_family(name).samples:
            pairs = ",".join(f"{label.name}={label.value}" for label in sample.labels)
            samples.append(f"{sample.name} {pairs} {sample.value}")
        families.append(samples)
    is_absent = host.metric_family("absent") is None
    return Response.success([known, families, is_absent, str(host.scraped())])


@routes.get("/made")
def made(host: Host, request: Request, params: Params) -> Response:
    return Response.text(request.path).with_status(201).with_header("x-b", "c")
