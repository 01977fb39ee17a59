"""Servers in processes of their own: a port on loopback, the wait until they answer, their end."""

from __future__ import annotations

import socket
import subprocess
import time
import urllib.error
import urllib.request

STARTS = 3
"Between the choice of a port and its use another process may take it; three times in a row is no accident."
PATIENCE = 300.0
"Seconds until a server answers on a loaded machine, before it is called broken; two to twenty are usual."


def stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def is_ready(url: str, process: subprocess.Popen[bytes]) -> bool:
    """Wait until a server answers; false where it ended instead, or takes too long."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        try:
            opener.open(url, timeout=5).close()
            return process.poll() is None
        except urllib.error.HTTPError as error:
            error.close()
        except OSError:
            pass
        time.sleep(0.1)
    return False


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports
