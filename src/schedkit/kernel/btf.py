"""The kernel's description of its own types (BTF), as far as schedulers stumble over it."""

import sys
from array import array
from pathlib import Path

from schedkit.kernel.files import read_bytes
from schedkit.unknown import Unknown

VMLINUX = "sys/kernel/btf/vmlinux"
_LONGEST = 64 << 20
_MAGIC = 0xEB9F
_PTR, _CONST, _STRUCT, _FUNC, _FUNC_PROTO = 2, 10, 4, 12, 13
# Words after the three of every type: a fixed number, and some for each of its members. By kind.
_FIXED = (0, 1, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0)
_EACH = (0, 0, 0, 0, 3, 3, 2, 0, 0, 0, 0, 0, 0, 2, 0, 3, 0, 0, 0, 3)
_PUBLIC = b"scx_bpf_"
_IMPLICIT = b"bpf_prog_aux"


def read_malformed_kfuncs(root: Path = Path("/")) -> tuple[str, ...] | Unknown | None:
    """The scx_bpf_ functions whose public prototype shows an argument that only the verifier passes; None without BTF.

    From 7.0 on such a function has two descriptions: NAME, as schedulers call it, and NAME_impl with a last argument
    `struct bpf_prog_aux *`. Where the kernel's build left the argument in NAME, libbpf finds `func_proto …
    incompatible with vmlinux` and the load fails with EINVAL.
    """
    path = root / VMLINUX
    content = read_bytes(path, _LONGEST)
    if not isinstance(content, bytes):
        return content
    try:
        return tuple(sorted(_Btf(content).find_malformed()))
    except (ValueError, IndexError):
        return Unknown(f"{path}: not BTF as we know it")


class _Btf:
    """Types are found by walking over all before them, so one walk notes where each begins."""

    def __init__(self, content: bytes) -> None:
        order = {_MAGIC.to_bytes(2, order): order for order in ("little", "big")}.get(content[:2])
        if not order:
            raise ValueError("wrong magic")
        header = array("I", content[4:24])
        if order != sys.byteorder:
            header.byteswap()
        length, types_at, types_length, strings_at, strings_length = header
        if len(content) < length + max(types_at + types_length, strings_at + strings_length):
            raise ValueError("cut off")
        self._names = content[length + strings_at : length + strings_at + strings_length]
        self._words = array("I", content[length + types_at : length + types_at + types_length])
        if order != sys.byteorder:
            self._words.byteswap()
        self._begins = self._walk()

    def find_malformed(self) -> list[str]:
        """Look at every function whose name we know."""
        names = self._find_names(_PUBLIC)
        implicit = {at for at, name in self._find_names(_IMPLICIT).items() if name == _IMPLICIT.decode()}
        words = self._words
        return [
            names[words[at]]
            for at in self._begins[1:]
            if words[at] in names
            and words[at + 1] >> 24 & 0x7F == _FUNC
            and not names[words[at]].endswith("_impl")
            and self._ends_with_implicit(words[at + 2], implicit)
        ]

    def _find_names(self, start: bytes) -> dict[int, str]:
        """The names that begin so, by where they are."""
        names = {}
        at = self._names.find(b"\0" + start)
        while at >= 0:
            end = self._names.index(b"\0", at + 1)
            names[at + 1] = self._names[at + 1 : end].decode(errors="replace")
            at = self._names.find(b"\0" + start, end)
        return names

    def _ends_with_implicit(self, prototype: int, implicit: set[int]) -> bool:
        at = self._begins[prototype]
        information = self._words[at + 1]
        count = information & 0xFFFFFF
        if information >> 24 & 0x7F != _FUNC_PROTO or not count:
            return False
        name, kind = self._words[at + 3 + 2 * (count - 1) : at + 3 + 2 * count]
        # Kernels before 7.0 marked such arguments by a name that ends in __prog, and the verifier minds that.
        return self._is_pointer_to(kind, implicit) and not self._name_at(name).endswith(b"__prog")

    def _is_pointer_to(self, kind: int, names: set[int]) -> bool:
        """A pointer to the structure, or to a const one."""
        pointed = False
        for _ in range(3):
            at = self._begins[kind]
            tag = self._words[at + 1] >> 24 & 0x7F
            if tag == _STRUCT:
                return pointed and self._words[at] in names
            if tag not in (_PTR, _CONST):
                return False
            pointed = pointed or tag == _PTR
            kind = self._words[at + 2]
        return False

    def _name_at(self, at: int) -> bytes:
        return self._names[at : self._names.index(b"\0", at)]

    def _walk(self) -> list[int]:
        words, begins, at, end = self._words, [0], 0, len(self._words)
        note = begins.append  # type 0 is void and has no place
        while at < end:
            note(at)
            information = words[at + 1]
            kind = information >> 24 & 0x7F
            at += 3 + _FIXED[kind] + (information & 0xFFFFFF) * _EACH[kind]
        return begins
