"""BTF of a few types, made up to its specification; tests/e2e/test_kernel.py reads that of both kernels."""

import struct
from pathlib import Path

import pytest

from schedkit.kernel.btf import VMLINUX, read_malformed_kfuncs
from schedkit.unknown import Unknown

PTR, INT, STRUCT, CONST, FUNC, FUNC_PROTO, ENUM64 = 2, 1, 4, 10, 12, 13, 19


class Btf:
    """Collects types, and writes them as a kernel of either byte order would."""

    def __init__(self, order: str = "<") -> None:
        self.order, self.strings, self.types, self.count = order, b"\0", b"", 0

    def add(self, kind: int, name: str, third: int, *more: int, members: int = 0) -> int:
        self.types += self.pack(self.name(name), kind << 24 | members, third, *more)
        self.count += 1
        return self.count

    def name(self, name: str) -> int:
        if not name:
            return 0
        self.strings += name.encode() + b"\0"
        return len(self.strings) - len(name) - 1

    def function(self, name: str, **arguments: int) -> None:
        words = [word for argument, kind in arguments.items() for word in (self.name(argument), kind)]
        self.add(FUNC, name, self.add(FUNC_PROTO, "", 0, *words, members=len(arguments)))

    def pack(self, *words: int) -> bytes:
        return struct.pack(f"{self.order}{len(words)}I", *words)

    def write(self, root: Path) -> Path:
        path = root / VMLINUX
        path.parent.mkdir(parents=True)
        header = struct.pack(f"{self.order}HBB", 0xEB9F, 1, 0)
        header += self.pack(24, 0, len(self.types), len(self.types), len(self.strings))
        path.write_bytes(header + self.types + self.strings)
        return root


@pytest.mark.parametrize("order", ["<", ">"])
def test_only_public_prototypes_with_the_implicit_argument_are_malformed(tmp_path: Path, order: str) -> None:
    btf = Btf(order)
    number = btf.add(INT, "int", 4, 0x01000020)
    btf.add(ENUM64, "wide", 8, 1, 2, 3, 1, 2, 3, members=2)
    btf.add(STRUCT, "task", 8, btf.name("a"), number, 0, btf.name("b"), number, 32, members=2)
    hidden = btf.add(PTR, "", btf.add(CONST, "", btf.add(STRUCT, "bpf_prog_aux", 0)))
    similar = btf.add(PTR, "", btf.add(STRUCT, "bpf_prog_aux_other", 0))
    btf.function("scx_bpf_kick_cpu", cpu=number, aux=hidden)
    btf.function("scx_bpf_now")
    btf.function("scx_bpf_dsq_insert", cpu=number)
    btf.function("scx_bpf_dsq_insert_impl", cpu=number, aux=hidden)
    btf.function("scx_bpf_older", cpu=number, aux__prog=hidden)
    btf.function("scx_bpf_similar", aux=similar)
    btf.function("bpf_other", aux=hidden)
    btf.add(STRUCT, "scx_bpf_arguments", 0)

    assert read_malformed_kfuncs(btf.write(tmp_path)) == ("scx_bpf_kick_cpu",)


def test_kernel_without_btf(tmp_path: Path) -> None:
    assert read_malformed_kfuncs(tmp_path) is None


@pytest.mark.parametrize(
    "content",
    [b"", b"\x9f\xeb", b"not BTF at all, but long enough", b"\x9f\xeb\x01\0" + struct.pack("<5I", 24, 0, 12, 12, 1)],
)
def test_torn_btf_is_unknown(tmp_path: Path, content: bytes) -> None:
    root = Btf().write(tmp_path)
    (root / VMLINUX).write_bytes(content)

    assert isinstance(read_malformed_kfuncs(root), Unknown)


def test_kind_from_the_future_is_unknown(tmp_path: Path) -> None:
    btf = Btf()
    btf.add(60, "new", 0)

    assert isinstance(read_malformed_kfuncs(btf.write(tmp_path)), Unknown)
