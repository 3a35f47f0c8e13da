"""A kernel's struct_ops, made up; tests/e2e/test_kernel.py finds those of real kernels."""

import errno
import os
import struct
from dataclasses import dataclass, field

from schedkit.kernel.bpf import Link


def make_value(name: str, *, at: int = 0x170) -> bytes:
    """A registered structure: addresses of functions, then some numbers, then the name."""
    return (
        struct.pack("<II", 1, 1).ljust(at - 8, b"\x55")
        + struct.pack("<Q", 1)
        + name.encode().ljust(128, b"\0")
        + bytes(16)
    )


@dataclass
class MadeUpStructOps:
    links: list[Link] = field(default_factory=list)
    values: dict[int, bytes] = field(default_factory=dict)
    refusal: int = 0
    detached: list[int] = field(default_factory=list)

    def list_links(self) -> list[Link]:
        self._refuse()
        return self.links

    def list_maps(self) -> list[int]:
        self._refuse()
        return list(self.values)

    def read_value(self, map_id: int) -> bytes:
        self._refuse()
        if map_id not in self.values:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        return self.values[map_id]

    def detach(self, link_id: int) -> None:
        self._refuse()
        self.detached.append(link_id)

    def _refuse(self) -> None:
        if self.refusal:
            raise OSError(self.refusal, os.strerror(self.refusal), "bpf(2)")
