"""NAME: responds to requests about a relayer, below its mount path."""

from sdk import Host, Params, Request, Response, Router

routes = Router()
handle = routes.respond


@routes.get("/")
def all_chains(host: Host, request: Request, params: Params) -> Response:
    """Lists the configured chains, with their number."""
    ids = host.chain_ids()
    return Response.text(f"{len(ids)} chains: {', '.join(ids)}\n")


@routes.get("/chain/:id")
def one_chain(host: Host, request: Request, params: Params) -> Response:
    """Returns the identifier of a chain, or 404 if it is not configured."""
    id = params.get("id")
    chain = host.chain(id)
    if chain is None:
        return Response.error(404, "ChainNotFound", f"there is no chain {id}")
    return Response.success(chain.id)
