"""The entry point of the component."""

from handle import handle
from sdk.module import module

Handler = module(handle)
