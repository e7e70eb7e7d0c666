"""Run in a network namespace of its own: embeds a folder on a Ray cluster.

    python -m tests.embed.ray_driver OUTPUT local|nodes|victim|kills [NUMBER]

nodes: a cluster of two nodes, of which one is killed in the middle and another added.
victim: the actor that does the job NUMBER is killed whenever it begins it.
kills: actors are killed at random moments, so many times.
"""

import json
import os
import random
import socket
import struct
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import psutil
import ray
from ray.cluster_utils import Cluster

from spacy_elmo.embed import run

IFF_UP, SIOCGIFFLAGS, SIOCSIFFLAGS = 1, 0x8913, 0x8914


def start_loopback():
    import fcntl  # here, since Windows has none

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        request = struct.pack("16sh14x", b"lo", 0)
        request = fcntl.ioctl(found, SIOCGIFFLAGS, request)
        flags = struct.unpack("16sh14x", request)[1] | IFF_UP
        fcntl.ioctl(found, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags))


def replace_a_node(output, cluster, node):
    """When there are some shards: kill a node, and add another."""
    while len(list((output / "shards").glob("*"))) < 3:
        time.sleep(0.02)
    cluster.remove_node(node, allow_graceful=False)
    cluster.add_node(num_cpus=1)


def kill_whoever_does(output, job):
    pattern = f"*/{job:08d}.*" if job else "none"
    with suppress(FileNotFoundError):  # it was removed just now
        for path in (output / ".unfinished").glob(pattern):
            for process in psutil.process_iter():
                with suppress(psutil.Error, OSError):
                    if str(path) in [file.path for file in process.open_files()]:
                        process.kill()
    time.sleep(0.05)


def kill_actors(embedding, output, n_kills):
    """Kill actors at random moments of a run, when it gets somewhere. Return how many
    were killed."""
    choice, before, kills = random.Random(0), 0, 0
    while not embedding.done():
        time.sleep(0.3 * choice.random())
        found = len(list((output / "shards").glob("*")))
        if found > before and kills < n_kills:
            before = found
            actors = [p for p in psutil.process_iter() if "ray::_Actor" in p.name()]
            with suppress(psutil.Error, IndexError):
                choice.choice(actors).kill()
                kills += 1
    return kills


def main(output, how, number="0"):
    start_loopback()
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    kills = 0
    if how == "local":
        found = run(output, ray="local", processes=2)
    else:
        head = {"num_cpus": 1 if how == "nodes" else 2, "include_dashboard": False}
        cluster = Cluster(initialize_head=True, head_node_args=head)
        node = cluster.add_node(num_cpus=1) if how == "nodes" else None
        ray.init(address=cluster.address, log_to_driver=False)
        with ThreadPoolExecutor(1) as pool:
            embedding = pool.submit(run, output, ray=cluster.address, processes=2)
            if how == "nodes":
                replace_a_node(output, cluster, node)
            if how == "kills":
                kills = kill_actors(embedding, output, int(number))
            while not embedding.done():
                kill_whoever_does(output, int(number) if how == "victim" else None)
            found = embedding.result()
    row = {"tokens": found.tokens, "aside": found.aside, "kills": kills}
    sys.stdout.write(json.dumps(row))
    sys.stdout.flush()
    os._exit(0)  # Ray's own processes end with the namespace


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
