import unittest

from handle import handle
from sdk.testing import get, not_ready_host, fake_host


class Test(unittest.TestCase):
    def test_chains_are_listed(self) -> None:
        host = fake_host("ibc-0", "ibc-1")
        self.assertEqual(handle(host, get("/")).body, b"2 chains: ibc-0, ibc-1\n")
        self.assertEqual(handle(host, get("/chain/ibc-1")).status, 200)
        self.assertEqual(handle(host, get("/chain/ibc-2")).status, 404)

    def test_unknown_chains_are_reported_as_not_ready(self) -> None:
        response = handle(not_ready_host("wait"), get("/"))
        self.assertEqual((response.status, response.header("retry-after")), (503, "1"))

    def test_other_paths_and_methods_are_rejected(self) -> None:
        self.assertEqual(handle(fake_host(), get("/other")).status, 404)
        self.assertEqual(handle(fake_host(), get("/", "POST")).status, 405)


if __name__ == "__main__":
    unittest.main()
