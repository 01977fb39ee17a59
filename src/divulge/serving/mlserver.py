"""The same network on MLServer, a real inference server, where that is installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from divulge.contract import Weights
from divulge.errors import BadInput, TargetFailed
from divulge.serving.network import NAME, metadata, save
from divulge.serving.processes import STARTS, free_ports, is_ready, stop


@contextmanager
def on_mlserver(network: Weights) -> Iterator[str]:
    """The address of a network that MLServer serves on loopback."""
    if find_spec("mlserver") is None:
        raise BadInput("expected MLServer to be installed, found none; run pip install mlserver, or leave the server out")
    with TemporaryDirectory() as folder:
        home = Path(folder)
        save(network, home / "network.npz")
        model = {
            **metadata(NAME, network.dimension),
            "implementation": "divulge.serving.mlserver_runtime.Network",
            "parameters": {"uri": str(home / "network.npz"), "version": "1"},
        }
        (home / "model-settings.json").write_text(json.dumps(model))
        for _ in range(STARTS):
            http, grpc = free_ports(2)
            process = _start(home, http, grpc)
            try:
                if is_ready(f"http://127.0.0.1:{http}/v2/models/{NAME}/ready", process):
                    yield f"http://127.0.0.1:{http}/v2/models/{NAME}"
                    return
            finally:
                stop(process)
        log = (home / "log").read_text(errors="replace").strip().splitlines()
        raise TargetFailed(f"MLServer did not start: {log[-1] if log else 'it said nothing'}; leave the server out")


def _start(home: Path, http: int, grpc: int) -> subprocess.Popen[bytes]:
    settings = {"host": "127.0.0.1", "http_port": http, "grpc_port": grpc, "metrics_endpoint": None, "parallel_workers": 0}
    (home / "settings.json").write_text(json.dumps(settings))
    command = [str(Path(sys.executable).parent / "mlserver"), "start", str(home)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with (home / "log").open("ab") as log:
        return subprocess.Popen(command, env=environment, cwd=home, stdout=log, stderr=log)
