"""MLflow: a saved pyfunc on the scoring server, whose one answer holds logits and gradients."""

import sys
import tempfile
from pathlib import Path
from typing import Any

import mlflow.pyfunc
import uvicorn
from mlflow.pyfunc import scoring_server

from ..network import Array, Network, points


class Mine(mlflow.pyfunc.PythonModel):  # type: ignore[misc, name-defined]  # the slim client has none
    def load_context(self, context: Any) -> None:
        self.network = Network()

    def predict(self, context: Any, model_input: Array, params: Any = None) -> dict[str, Array]:
        X = points(model_input)
        return {"logits": self.network.logits(X), "gradients": self.network.jacobians(X)}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model")
        mlflow.pyfunc.save_model(path, python_model=Mine(), pip_requirements=["mlflow", "numpy"])
        app = scoring_server.init(mlflow.pyfunc.load_model(path))
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]))
