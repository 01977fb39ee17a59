"""What MLServer runs: a ReLU network that answers values and, as another output, their input gradients."""

import numpy as np
from mlserver import MLModel
from mlserver.types import InferenceRequest, InferenceResponse, ResponseOutput

from divulge.contract import Gradients
from divulge.serving.network import answer, read


class Network(MLModel):  # type: ignore[misc]  # MLServer has no types
    served: Gradients

    async def load(self) -> bool:
        self.served = read(self.settings.parameters.uri)
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        tensor = payload.inputs[0]
        X = np.array(tensor.data.root, dtype=float).reshape(-1, self.served.dimension)
        wanted = [output.name for output in payload.outputs or ()] or ["value"]
        answers = {name: answer(self.served, name, X) for name in wanted}
        outputs = [
            ResponseOutput(name=name, datatype="FP64", shape=list(found.shape), data=found.ravel().tolist())
            for name, found in answers.items()
        ]
        return InferenceResponse(model_name=self.name, model_version=self.version, outputs=outputs)
