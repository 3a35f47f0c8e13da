"""The lab a person has up: safe to repeat, to interrupt, and gone without a trace."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.addresses import CLAIMS, claim_address
from lab.errors import LabError
from lab.kernels import NEWEST, OLDEST
from lab.machine import STATE, SYSTEMD
from lab.session import NODE, Session
from lab.store import Store
from tests.routes import read_routes


@pytest.fixture(scope="module")
def session(store: Store, lab_folder: Path) -> Iterator[Session]:
    session = Session(store, lab_folder / "up")
    yield session
    session.down()


def test_up_may_be_repeated_and_goes_on_where_it_was_interrupted(session: Session) -> None:
    session.up(OLDEST, with_cluster=False)
    first = session.machine()
    assert first
    (first.folder / STATE).unlink()  # as if the one who started it had been killed before it was done
    assert session.machine() is None

    session.up(OLDEST, with_cluster=True)
    machine, cluster = session.machine(), session.cluster()
    assert machine
    assert cluster
    assert cluster.kubectl("get", "nodes", "-o", "name").stdout == f"node/{NODE}\n"

    session.up(OLDEST, with_cluster=True)
    again = session.cluster()
    assert again
    assert again.api_port == cluster.api_port
    with pytest.raises(LabError, match=r"a machine is up already, with kernel 6\.12 and script as pid 1"):
        session.up(NEWEST, with_cluster=True)
    with pytest.raises(LabError, match=r"a machine is up already"):
        session.up(OLDEST, init=SYSTEMD, with_cluster=True)

    assert "localhost:5000/scx_rusty" in machine.run("schedctl list --wide").stdout
    machine.run("schedctl run scx_fifo", timeout=180)  # signed, and nothing more was said than a person would type
    assert machine.run("schedctl stop", timeout=120).code == 0
    assert machine.run("schedctl run scx_mortal", check=False, timeout=120).code == 21  # which nobody signed

    session.simulate_nodes(3)
    assert len(cluster.kubectl("get", "nodes", "-o", "name").stdout.split()) == 4

    address = claim_address(machine.folder)
    assert f"local {address} " in read_routes()
    session.down()
    session.down()
    assert not machine.alive()
    assert not cluster.alive()
    # Others may have nodes of their own beside this one, and take its address as soon as it is free.
    assert str(machine.folder) not in [claim.read_text() for claim in CLAIMS.iterdir()]
    assert f"local {address} " not in read_routes() or (CLAIMS / address).exists()
    assert not session.folder.exists()
