"""Processes that are forked from one that runs torch."""

import os
from functools import cache, partial

import torch


@cache
def be_safe_to_fork() -> None:
    """torch's threads don't survive a fork, and a child that asked for them would wait
    for ever (nlp.pipe with n_process): let children do with one thread each."""
    if hasattr(os, "register_at_fork"):  # where there is no fork there is no need
        os.register_at_fork(after_in_child=partial(torch.set_num_threads, 1))
