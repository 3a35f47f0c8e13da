import subprocess
import sys
from pathlib import Path

from schedkit import __version__

SAMPLE = Path(__file__).parents[2] / "config/samples/sked_v1_schedext.yaml"


def sked(*arguments: str, before: str = "") -> subprocess.CompletedProcess[str]:
    code = f"{before}\nfrom schedkit.sked.cli import main; main()"
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)


def test_version_and_help_need_nothing_of_the_operator() -> None:
    without = "import sys; sys.modules['aiohttp'] = sys.modules['msgspec'] = None"
    assert sked("--version", before=without).stdout == f"sked {__version__}\n"
    assert sked("manager", "--help", before=without).returncode == 0


def test_missing_extra_is_named_with_how_to_install_it() -> None:
    done = sked("render", str(SAMPLE), before="import sys; sys.modules['msgspec'] = None")
    assert done.returncode == 69
    assert done.stderr == (
        "error: sked needs the Python package msgspec\nhint: install all of it: pip install 'schedkit[sked]'\n"
    )


def test_binary_input_is_bad_data() -> None:
    done = sked("render", "/bin/true")
    assert (done.returncode, done.stderr.startswith("error: the input is not text: ")) == (65, True)


def test_cluster_that_nobody_names_is_unavailable(tmp_path: Path) -> None:
    done = sked("manager", before=f"import os; os.environ.update(HOME={str(tmp_path)!r}, KUBECONFIG='')")
    assert (done.returncode, done.stderr.startswith("error: there is no kubeconfig: ")) == (69, True)


def test_render_prints_the_described_daemonset() -> None:
    done = sked("render", str(SAMPLE))
    assert done.returncode == 0
    assert "kind: DaemonSet" in done.stdout
    assert "image: ghcr.io/schedkit/scheds/scx_rusty:latest" in done.stdout
