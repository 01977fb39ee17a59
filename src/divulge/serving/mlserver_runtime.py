"""What MLServer runs: a ReLU network that answers values and, as another output, their input gradients."""

import numpy as np
from mlserver import MLModel
from mlserver.types import InferenceRequest, InferenceResponse, ResponseOutput

from divulge.serving.network import Network as Served, read


class Network(MLModel):  # type: ignore[misc]  # MLServer has no types
    served: Served

    async def load(self) -> bool:
        self.served = read(self.settings.parameters.uri)
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        tensor = payload.inputs[0]
        X = np.array(tensor.data.root, dtype=float).reshape(-1, self.served.dimension)
        wanted = [output.name for output in payload.outputs or ()] or ["value"]
        answers = {name: self.served.answer(name, X) for name in wanted}
        outputs = [
            ResponseOutput(name=name, datatype="FP64", shape=list(answer.shape), data=answer.ravel().tolist())
            for name, answer in answers.items()
        ]
        return InferenceResponse(model_name=self.name, model_version=self.version, outputs=outputs)
