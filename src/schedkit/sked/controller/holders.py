"""What the operator adds to a node's report: who has the node, why nobody may, and which ejections count."""

from msgspec.structs import replace

from schedkit.sked.controller.quarantine import is_of_earlier, read_quarantine
from schedkit.sked.controller.reports import Ejections, HolderStatus, NodeReport, QuarantineNote
from schedkit.sked.controller.world import World
from schedkit.sked.kube.objects import Key


def make_holder_status(world: World, report: NodeReport) -> HolderStatus:
    """What the operator is to say in a report; of other operators' resources it is theirs to say."""
    return HolderStatus(_name_holder(world, report), _find_note(world, report), _find_ejections(world, report))


def is_told(world: World, report: NodeReport) -> bool:
    """Whether a report says that."""
    status = report.status
    told = HolderStatus(status.sched_ext, status.quarantine, status.ejections)
    return told == make_holder_status(world, report)


def _name_holder(world: World, report: NodeReport) -> str:
    told, holder = report.status.sched_ext, world.find_holder(report.metadata.name)
    if holder:
        return str(holder.owner) if world.manages(holder.owner) else told
    return "" if world.manages(_parse_key(told)) else told


def _find_note(world: World, report: NodeReport) -> QuarantineNote | None:
    node, told = world.nodes.get("", report.metadata.name), report.status.quarantine
    note = world.find_quarantine(node) if node else None
    about = note or told
    return note if about and world.manages(_parse_key(about.sched_ext)) else told


def _find_ejections(world: World, report: NodeReport) -> Ejections | None:
    name, told = report.metadata.name, report.status.ejections
    if told and not world.manages(_parse_key(told.sched_ext)):
        holder = world.find_holder(name)
        if holder is None or not world.manages(holder.owner):
            return told  # two operators that each remember their own would take turns in writing without end
    # As long as the quarantine that they led to is not written, who comes next has to find them.
    counted = None if name in world.quarantines else world.ejections.find(name)
    about = counted or told
    key = _parse_key(about.sched_ext) if about else None
    if about is None or key is None or not world.manages(key):
        return told
    resource = world.resources.get(*key)
    if resource is None or resource.spec.quarantine is None or (counted is None and is_of_earlier(about, resource)):
        return None
    return replace(about, times=()) if _led_to_quarantine(world, name, about) else about


def _led_to_quarantine(world: World, name: str, ejections: Ejections) -> bool:
    """Whether a node's quarantine is written: whoever wrote it may have been killed before the report was."""
    node = world.nodes.get("", name)
    note = read_quarantine(node) if node and name not in world.quarantines else None
    return note is not None and (note.sched_ext, note.revision) == (ejections.sched_ext, ejections.revision)


def _parse_key(text: str) -> Key:
    """The resource that a report names, as namespace/name."""
    namespace, _, name = text.partition("/")
    return Key(namespace, name)
