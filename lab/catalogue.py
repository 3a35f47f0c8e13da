"""Everything the lab can make, and the store that holds it."""

from lab import kube, rooms
from lab.browser import ROOM as BROWSER
from lab.containerd import PROGRAMS as CONTAINERDS
from lab.disk import DISK
from lab.engines import ROOM as ENGINES
from lab.helm import HELM
from lab.images import DEBIAN, FIXTURE_IMAGES, IMAGES, PYTHON
from lab.kernels import KERNELS, NEWEST, OLDEST, PACKAGED
from lab.layers import LAYERS
from lab.machine import INITS, SCRIPT, SYSTEMD, snapshot_of
from lab.paths import lab_dir
from lab.progress import Progress
from lab.prometheus import PROMETHEUS
from lab.qemu import KVM, TCG
from lab.schedulers import FIXTURES, SCHEDULERS
from lab.signing import COSIGNS, SIGSTORE
from lab.sked_image import WHEELS
from lab.store import Artefact, Store
from lab.wheels import SCHEDCTL

# Machines that tests start, by kernel and pid 1.
MACHINES = ((OLDEST, SCRIPT), (NEWEST, SCRIPT), (OLDEST, SYSTEMD))

# In the order in which they are best begun: what the most wait for and what takes longest first.
EVERYTHING: tuple[Artefact, ...] = (
    *(rooms.BASE, rooms.TOOLS, rooms.COMPILE, ENGINES),
    *(kernel.artefact for kernel in PACKAGED),
    *(FIXTURES, FIXTURE_IMAGES, SCHEDCTL, DISK),
    OLDEST.artefact,
    *kube.artefacts(kube.read_assets()),
    *(SCHEDULERS, IMAGES),
    *(kube.KWOK, HELM, *COSIGNS.values(), SIGSTORE, *CONTAINERDS.values(), PROMETHEUS),
    *(DEBIAN, PYTHON, WHEELS, BROWSER),
    *(layer.artefact for layer in LAYERS),
    *(
        snapshot_of(kernel, accelerator, init)
        for kernel in KERNELS.values()
        for accelerator in (KVM, TCG)
        for init in INITS
    ),
)


def open_store(progress: Progress | None = None) -> Store:
    """The store in the lab's cache folder."""
    return Store(lab_dir(), EVERYTHING, progress or Progress())
