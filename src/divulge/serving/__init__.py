"""Small model servers for demonstrations and tests, on loopback: Open Inference Protocol V2, with explanations."""

from divulge.serving.mlserver import on_mlserver
from divulge.serving.own import Handler, Server, served

__all__ = ["Handler", "Server", "on_mlserver", "served"]
