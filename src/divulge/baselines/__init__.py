"""Published methods to compare with. They are measured like attacks, and their loot goes no further."""

from typing import TYPE_CHECKING

from divulge.lazy import importer

_HOMES = {
    "BlindSurrogate": "blind_surrogate",
    "FirstLayerImages": "haim2022.first_layer",
    "GradientCancelling": "gradient_cancelling",
    "ModelInversion": "haim2022.inversion",
    "PublishedExtraction": "milli2018.extraction",
}
__all__ = sorted(_HOMES)
__getattr__ = importer(__name__, _HOMES)

if TYPE_CHECKING:
    from divulge.baselines.blind_surrogate import BlindSurrogate as BlindSurrogate
    from divulge.baselines.gradient_cancelling import GradientCancelling as GradientCancelling
    from divulge.baselines.haim2022.first_layer import FirstLayerImages as FirstLayerImages
    from divulge.baselines.haim2022.inversion import ModelInversion as ModelInversion
    from divulge.baselines.milli2018.extraction import PublishedExtraction as PublishedExtraction
