"""The Helm chart as a file, with the released image in its values."""

import re
from pathlib import Path

from release.archives import compress, make_tar
from release.versions import format_semantic


def build_chart(project: Path, out: Path, *, version: str, image: str, digest: str, epoch: int) -> Path:
    """Write the chart to `out`. `helm package` would put the time of packing into it."""
    folder = project / "charts/sked"
    files = {f"sked/{path.relative_to(folder)}": path.read_bytes() for path in read_files(folder)}
    values = set_image(files["sked/values.yaml"].decode(), image, digest)
    about = set_versions(files["sked/Chart.yaml"].decode(), version)
    files |= {"sked/values.yaml": values.encode(), "sked/Chart.yaml": about.encode()}
    path = out / f"sked-{format_semantic(version)}.tgz"
    path.write_bytes(compress(make_tar(files, epoch)))
    return path


def read_files(folder: Path) -> list[Path]:
    """All files of a chart but those that .helmignore names, by plain names and wildcards."""
    ignored = [line.strip() for line in (folder / ".helmignore").read_text().splitlines()]
    patterns = [line.rstrip("/") for line in ignored if line and not line.startswith("#")]
    return [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and not any(Path(part).match(pattern) for part in path.relative_to(folder).parts for pattern in patterns)
    ]


def set_image(values: str, image: str, digest: str) -> str:
    """The values with the image as their default."""
    repository, _, tag = image.rpartition(":")
    values = replace_line(values, "  repository: controller", f"  repository: {repository}")
    values = replace_line(values, "  tag: latest", f'  tag: "{tag}"')
    values = replace_line(values, '  digest: ""', f"  digest: {digest}")
    return values.replace(" controller:latest is a placeholder.", "")


def set_versions(chart: str, version: str) -> str:
    """Chart.yaml with the program's version."""
    chart = re.sub(r"^version: .*$", f"version: {format_semantic(version)}", chart, count=1, flags=re.MULTILINE)
    return re.sub(r"^appVersion: .*$", f"appVersion: {version}", chart, count=1, flags=re.MULTILINE)


def replace_line(text: str, line: str, new: str) -> str:
    """The text with its one such line replaced; ValueError if it has none, or several."""
    if text.splitlines().count(line) != 1:
        raise ValueError(f"{line!r} is not once in the file")
    return "\n".join(new if one == line else one for one in text.splitlines()) + "\n"
