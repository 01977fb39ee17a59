"""What MLServer runs in the tests: a small ReLU network that answers values and, as other outputs, their gradients."""

import numpy as np
from mlserver import MLModel
from mlserver.errors import InferenceError
from mlserver.types import InferenceRequest, InferenceResponse, ResponseOutput

from . import served_network


class Network(MLModel):  # type: ignore[misc]  # MLServer has no types
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        points = payload.inputs[0]
        precision = {"FP64": np.float64, "FP32": np.float32}[points.datatype]
        X = np.array(points.data.root, dtype=precision).astype(float).reshape(points.shape[0], -1)
        if X.max() > 1000:
            raise InferenceError("points above 1000 are out of range")
        outputs = []
        for output in payload.outputs or self.settings.outputs:
            answer = getattr(served_network, output.name)(X).astype(precision)
            outputs.append(
                ResponseOutput(
                    name=output.name,
                    datatype=points.datatype,
                    shape=list(answer.shape),
                    data=answer.ravel().tolist(),
                )
            )
        return InferenceResponse(model_name=self.name, model_version=self.version, outputs=outputs)
