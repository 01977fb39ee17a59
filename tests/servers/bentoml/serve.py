"""BentoML: a service with one method, whose one answer holds logits and gradients."""

import os
import sys
from typing import Any

import bentoml
import numpy as np
import numpy.typing as npt

from ..network import Network, points


@bentoml.service
class Mine:
    def __init__(self) -> None:
        self.network = Network()

    @bentoml.api  # type: ignore[untyped-decorator]  # without its types
    def predict(self, input: npt.NDArray[np.float64]) -> dict[str, Any]:
        X = points(input)
        return {"logits": self.network.logits(X).tolist(), "gradients": self.network.jacobians(X).tolist()}


if __name__ == "__main__":
    command = [sys.executable, "-m", "bentoml", "serve", "servers.bentoml.serve:Mine", "--host", "127.0.0.1"]
    os.execv(sys.executable, [*command, "--port", sys.argv[1]])
