// The SDK for modules of `relayer-rest`, with the names of the SDKs for Rust and Python.
//
// | file | job |
// |---|---|
// | `request.js` | the request: its method, path, headers and query |
// | `parameter.js` | the decoding of parameters, and their errors |
// | `host.js` | the host's functions, by the interfaces that the module imports |
// | `state.js` | the relayer's state with its names resolved |
// | `router.js` | routing by path |
// | `response.js` | responses and errors, with their status and headers |
// | `module.js` | the export of a module |
// | `imports.js` | a script that writes the imports of `wit/world.wit` to a file |
// | `openapi.js` | a script that adds the declaration of the routes to the module |
// | `testing.js` | a fake host for tests |
// | `world.js` | the names in the contract, for the fake host and the build |

export { Host } from "./host.js";
export { InvalidParameter } from "./parameter.js";
export { Request } from "./request.js";
export { Response } from "./response.js";
export { Params, Router } from "./router.js";
export { State } from "./state.js";
