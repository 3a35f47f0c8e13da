"""Find the container that a command line refers to."""

from schedkit.host.model import Managed, Observed
from schedkit.runtimes.container import Container
from schedkit.runtimes.model import Runtime
from schedkit.schedctl.session import Session


def choose_container(session: Session, which: str | None) -> tuple[Runtime, Container]:
    """Return the container that is meant, and its runtime."""
    container = choose_managed(session, which)[1].container
    return session.runtimes.find(container), container


def choose_managed(session: Session, which: str | None) -> tuple[Observed, Managed]:
    """Find a container by id or its beginning, by name or scheduler; without, the one that runs, or ended last."""
    from schedkit.host.managed import observe
    from schedkit.host.stop import find

    observed = observe(session.machine, session.runtimes)
    if which is None and not observed.running and observed.managed:
        return observed, max(observed.managed, key=_when)
    return observed, find(observed, which)


def _when(managed: Managed) -> float:
    """Its end; 0 for one that never started."""
    finished = managed.container.finished or managed.container.started
    return finished.timestamp() if finished else 0.0
