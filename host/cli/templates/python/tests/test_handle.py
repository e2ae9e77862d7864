import unittest

from handle import handle
from sdk.testing import FakeHost, Request


class Test(unittest.TestCase):
    def test_chains_are_listed(self) -> None:
        host = FakeHost().with_chain("ibc-0").with_chain("ibc-1")
        response = handle(host, Request.get("/"))
        self.assertEqual(response.text_body(), "2 chains: ibc-0, ibc-1\n")
        self.assertEqual(handle(host, Request.get("/chain/ibc-1")).status, 200)
        self.assertEqual(handle(host, Request.get("/chain/ibc-2")).status, 404)

    def test_unknown_chains_are_reported_as_not_ready(self) -> None:
        response = handle(FakeHost.not_ready("wait"), Request.get("/"))
        self.assertEqual((response.status, response.header("retry-after")), (503, "1"))

    def test_other_paths_and_methods_are_rejected(self) -> None:
        self.assertEqual(handle(FakeHost(), Request.get("/other")).status, 404)
        self.assertEqual(handle(FakeHost(), Request("POST", "/")).status, 405)


if __name__ == "__main__":
    unittest.main()
