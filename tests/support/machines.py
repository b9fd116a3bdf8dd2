"""Other machines: network namespaces, each with a cable to this one."""

from __future__ import annotations

import os
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from tests.support.parts import debian_package

# Set aside for tests of networks, so nobody's real one.
NETWORK = "198.18.0.0/15"
LOOPBACK = "127.0.0.0/8"


class Machine(NamedTuple):
    """A place of its own: what is started with ``prefix`` in front runs there.

    ``gateway`` is the address under which it reaches this machine.
    """

    gateway: str
    prefix: tuple[str, ...]


class NoNamespaces(UserWarning):
    """Machines are addresses of the loopback, as this one may make no networks."""


@contextmanager
def machines(count: int) -> Iterator[list[Machine]]:
    """Make machines that reach this one, and through it nothing.

    Where the kernel lets us make no networks (in a container without the right to),
    they are homes and loopback addresses of their own, and a warning says so.
    """
    debian_package("iproute2", "ip")
    with ExitStack() as stack:
        refusal = _refusal()
        if refusal is None:
            yield [stack.enter_context(_namespace(index)) for index in range(count)]
            return
        # Said aloud, and no failure, though warnings are errors elsewhere.
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn(f"no network namespaces: {refusal}", NoNamespaces, 2)
        yield [stack.enter_context(_home(index)) for index in range(count)]


def _refusal() -> str | None:
    """Return why no namespace with a cable can be made here, or None."""
    name = f"ixt{os.getpid()}probe"
    made = _ip("netns", "add", name)
    if made.returncode == 0:
        cable = f"ix{os.getpid() % 2**24}-p"
        made = _ip(*f"link add {cable} type veth peer name eth0 netns {name}".split())
        # The cable goes with it.
        _ip("netns", "delete", name)
    return None if made.returncode == 0 else made.stderr.strip()


@contextmanager
def _namespace(index: int) -> Iterator[Machine]:
    name = f"ixt{os.getpid()}n{index}"
    net = f"198.{18 + os.getpid() % 2}.{os.getpid() // 2 % 256}"
    here, there = (f"{net}.{4 * index + end}" for end in (1, 2))
    cable = f"ix{os.getpid() % 2**24}-{index}"
    try:
        for line in (
            f"netns add {name}",
            f"link add {cable} type veth peer name eth0 netns {name}",
            f"address add {here}/30 dev {cable}",
            f"link set {cable} up",
            f"-n {name} address add {there}/30 dev eth0",
            f"-n {name} link set eth0 up",
            f"-n {name} link set lo up",
        ):
            done = _ip(*line.split())
            assert done.returncode == 0, f"ip {line}: {done.stderr}"
        yield Machine(here, ("ip", "netns", "exec", name))
    finally:
        _ip("netns", "delete", name)


@contextmanager
def _home(index: int) -> Iterator[Machine]:
    with tempfile.TemporaryDirectory() as home:
        yield Machine(f"127.0.1.{index + 1}", ("env", f"HOME={home}"))


def _ip(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["ip", *arguments], capture_output=True, text=True)
