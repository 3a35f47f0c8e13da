"""The few things we ask of bpf(2): which struct_ops there are, what is in them, and to detach one."""

import errno
import os
import struct
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import NamedTuple, Protocol

_SYSCALL_NUMBERS = {
    "x86_64": 321,
    "aarch64": 280,
    "riscv64": 280,
    "loongarch64": 280,
    "s390x": 351,
    "ppc64le": 361,
}
_MAP_LOOKUP_ELEM = 1
_MAP_GET_NEXT_ID = 12
_MAP_GET_FD_BY_ID = 14
_OBJ_GET_INFO_BY_FD = 15
_LINK_GET_FD_BY_ID = 30
_LINK_GET_NEXT_ID = 31
_LINK_DETACH = 34
_READ_ONLY = 1 << 3  # BPF_F_RDONLY
_MAP_TYPE_STRUCT_OPS = 26
_LINK_TYPE_STRUCT_OPS = 9
_ATTRIBUTES = 128  # more than any command here has; the kernel wants the rest to be zero
_INFO = 256


class Link(NamedTuple):
    """A struct_ops link, and the map that holds what it registered."""

    id: int
    map: int


class StructOps(Protocol):
    """What is registered in the kernel through BPF; every call raises OSError when it may not or cannot."""

    def list_links(self) -> list[Link]:
        """All struct_ops links, of schedulers and of whatever else."""
        ...

    def list_maps(self) -> list[int]:
        """All struct_ops maps."""
        ...

    def read_value(self, map_id: int) -> bytes:
        """The registered structure."""
        ...

    def detach(self, link_id: int) -> None:
        """Unregister what the link registered."""
        ...


class Bpf:
    """StructOps of the running kernel."""

    def list_links(self) -> list[Link]:
        """All struct_ops links."""
        links = []
        for link in self._walk(_LINK_GET_NEXT_ID):
            info = self._read_info(_LINK_GET_FD_BY_ID, link)
            # struct bpf_link_info: type, id, prog_id, a gap; then, for struct_ops, map_id
            if info and struct.unpack_from("=I", info)[0] == _LINK_TYPE_STRUCT_OPS:
                links.append(Link(link, struct.unpack_from("=I", info, 16)[0]))
        return links

    def list_maps(self) -> list[int]:
        """All struct_ops maps."""
        maps = []
        for map_id in self._walk(_MAP_GET_NEXT_ID):
            info = self._read_info(_MAP_GET_FD_BY_ID, map_id)
            if info and struct.unpack_from("=I", info)[0] == _MAP_TYPE_STRUCT_OPS:
                maps.append(map_id)
        return maps

    def read_value(self, map_id: int) -> bytes:
        """Look the one element up, with the key 0 that it always has."""
        import ctypes

        file = self._open(_MAP_GET_FD_BY_ID, map_id)
        try:
            # struct bpf_map_info: type, id, key_size, value_size
            size = struct.unpack_from("=I", self._read_info_of(file), 12)[0]
            key, value = ctypes.create_string_buffer(4), ctypes.create_string_buffer(size)
            self._call(_MAP_LOOKUP_ELEM, "=IxxxxQQQ", file, ctypes.addressof(key), ctypes.addressof(value), 0)
            return value.raw
        finally:
            os.close(file)

    def detach(self, link_id: int) -> None:
        """Unregister what the link registered."""
        file = self._open(_LINK_GET_FD_BY_ID, link_id)
        try:
            self._call(_LINK_DETACH, "=II", file, 0)
        finally:
            os.close(file)

    def _walk(self, command: int) -> Iterator[int]:
        last = 0
        while True:
            try:
                last = struct.unpack_from("=I", self._call(command, "=II", last, 0)[1], 4)[0]
            except OSError as error:
                if error.errno == errno.ENOENT:  # that was the last one
                    return
                raise
            yield last

    def _read_info(self, command: int, object_id: int) -> bytes | None:
        """None when the object went away since it was listed."""
        try:
            file = self._open(command, object_id)
        except OSError as error:
            if error.errno == errno.ENOENT:
                return None
            raise
        try:
            return self._read_info_of(file)
        finally:
            os.close(file)

    def _read_info_of(self, file: int) -> bytes:
        import ctypes

        info = ctypes.create_string_buffer(_INFO)
        self._call(_OBJ_GET_INFO_BY_FD, "=IIQ", file, _INFO, ctypes.addressof(info))
        return info.raw

    def _open(self, command: int, object_id: int) -> int:
        flags = _READ_ONLY if command == _MAP_GET_FD_BY_ID else 0
        return self._call(command, "=III", object_id, 0, flags)[0]

    def _call(self, command: int, form: str, *values: int) -> tuple[int, bytes]:
        """The call's result, and its attributes, into which some commands answer."""
        import ctypes

        attributes = ctypes.create_string_buffer(struct.pack(form, *values), _ATTRIBUTES)
        result = _load_syscall()(command, ctypes.byref(attributes), _ATTRIBUTES)
        if result < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), "bpf(2)")
        return result, attributes.raw


@cache
def _load_syscall() -> Callable[..., int]:
    """bpf(2) by its number: the C library has no function for it."""
    import ctypes

    machine = os.uname().machine
    if machine not in _SYSCALL_NUMBERS:
        raise OSError(errno.ENOSYS, f"its number on {machine} is not known to us")
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long
    syscall.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_ulong)
    return partial(syscall, _SYSCALL_NUMBERS[machine])
