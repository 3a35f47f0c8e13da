"""How this kernel was built, where it says so."""

from collections.abc import Mapping
from pathlib import Path

from schedkit.kernel.files import read_bytes, read_text
from schedkit.unknown import Unknown

_LONGEST = 8 << 20


def read_config(root: Path = Path("/")) -> Mapping[str, str] | Unknown:
    """The options of the running kernel, `CONFIG_BPF` → `y`; those not set are not in it."""
    release = read_text(root / "proc/sys/kernel/osrelease")
    places = [root / "proc/config.gz"]
    if isinstance(release, str) and release:
        places += [root / f"boot/config-{release}", root / f"lib/modules/{release}/config"]
    why = Unknown(f"neither {' nor '.join(str(place) for place in places)} is there")
    for place in places:
        content = read_bytes(place, _LONGEST)
        if isinstance(content, bytes):
            text = _expand(content, place)
            if isinstance(text, bytes):
                return parse_config(text.decode(errors="replace"))
            why = text
        elif content is not None:
            why = content
    return why


def parse_config(text: str) -> Mapping[str, str]:
    """Parse lines like `CONFIG_BPF=y`."""
    options = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals and name.startswith("CONFIG_"):
            options[name] = value.strip('"')
    return options


def _expand(content: bytes, place: Path) -> bytes | Unknown:
    if place.suffix != ".gz":
        return content
    import zlib

    expander = zlib.decompressobj(wbits=31)
    try:
        text = expander.decompress(content, _LONGEST)
    except zlib.error:
        return Unknown(f"{place}: not gzip")
    return text if expander.eof else Unknown(f"{place}: cut off, or longer than {_LONGEST} bytes")
