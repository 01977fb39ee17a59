"""KServe: a custom model that predicts and explains over the V1 protocol."""

import sys
from typing import Any

from kserve import Model, ModelServer, model_server
from kserve.protocol.rest.server import RESTServer

from ..network import Network, points


class Mine(Model):  # type: ignore[misc]  # KServe has no types
    def load(self) -> bool:
        self.network = Network()
        self.ready = True
        return self.ready

    async def predict(self, payload: Any, *_: Any, **__: Any) -> dict[str, Any]:
        return {"predictions": self.network.logits(points(payload["instances"])).tolist()}

    async def explain(self, payload: Any, *_: Any, **__: Any) -> dict[str, Any]:
        return {"explanations": self.network.jacobians(points(payload["instances"])).tolist()}


class OnLoopback(RESTServer):  # type: ignore[misc]  # KServe has no types
    """KServe's own listens on all interfaces, and takes no option for it."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.config.host = "127.0.0.1"


if __name__ == "__main__":
    model_server.RESTServer = OnLoopback
    model = Mine("mine")
    model.load()
    ModelServer(http_port=int(sys.argv[1]), enable_grpc=False).start([model])
