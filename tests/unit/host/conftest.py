from tests.unit.host.fakes import world

__all__ = ["world"]
