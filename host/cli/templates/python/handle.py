"""NAME: responds to requests about a relayer, below its mount path."""

from sdk.response import Response, error, success, text
from sdk.host import Host
from sdk.router import Params, Router

routes = Router()
handle = routes.respond


@routes.get("/")
def all_chains(host: Host, _: Params) -> Response:
    """Lists the configured chains, with their number."""
    ids = host.chains.ids()
    return text(f"{len(ids)} chains: {', '.join(ids)}\n")


@routes.get("/chain/:id")
def one_chain(host: Host, params: Params) -> Response:
    """Returns the identifier of a chain, or 404 if it is not configured."""
    chain = host.chains.config(params["id"])
    if chain is None:
        return error(404, "ChainNotFound", f"there is no chain {params['id']}")
    return success(chain.id)
