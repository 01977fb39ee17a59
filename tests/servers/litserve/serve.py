"""LitServe: an API whose one answer holds logits and gradients."""

import sys
from typing import Any

import litserve

from ..network import Array, Network, points


class Mine(litserve.LitAPI):  # type: ignore[misc]  # without its types
    def setup(self, device: str) -> None:
        self.network = Network()

    def decode_request(self, request: dict[str, Any]) -> Array:
        return points(request["input"])

    def predict(self, X: Array) -> dict[str, Array]:
        return {"logits": self.network.logits(X), "gradients": self.network.jacobians(X)}

    def encode_response(self, output: dict[str, Array]) -> dict[str, Any]:
        return {"output": {name: array.tolist() for name, array in output.items()}}


if __name__ == "__main__":
    server = litserve.LitServer(Mine(), accelerator="cpu")
    server.run(host="127.0.0.1", port=int(sys.argv[1]), generate_client_file=False)
