"""Everything the lab can make, and the store that holds it."""

from lab import kube, rooms
from lab.containerd import COMPILED as CONTAINERDS
from lab.disk import DISK
from lab.engines import ROOM as ENGINES
from lab.helm import HELM
from lab.images import DEBIAN, IMAGES, PYTHON
from lab.kernels import NEWEST, OLDEST
from lab.machine import snapshot_of
from lab.paths import lab_dir
from lab.progress import Progress
from lab.qemu import KVM, TCG
from lab.schedulers import FIXTURES, SCHEDULERS
from lab.signing import COSIGNS, SIGSTORE
from lab.sked_image import WHEELS
from lab.store import Artefact, Store
from lab.wheels import SCHEDCTL

EVERYTHING: tuple[Artefact, ...] = (
    *(rooms.BASE, rooms.TOOLS, rooms.COMPILE, ENGINES),
    *(OLDEST.artefact, NEWEST.artefact),
    *(*kube.artefacts(kube.read_assets()), kube.KWOK, HELM),
    *CONTAINERDS.values(),
    *(*COSIGNS.values(), SIGSTORE),
    *(FIXTURES, SCHEDULERS, IMAGES, DEBIAN, PYTHON, WHEELS, SCHEDCTL, DISK),
    *(snapshot_of(kernel, accelerator) for kernel in (OLDEST, NEWEST) for accelerator in (KVM, TCG)),
)


def open_store(progress: Progress | None = None) -> Store:
    """The store in the lab's cache folder."""
    return Store(lab_dir(), EVERYTHING, progress or Progress())
