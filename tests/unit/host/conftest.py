from tests.unit.host.fake_systemd import systemd
from tests.unit.host.fakes import world

__all__ = ["systemd", "world"]
