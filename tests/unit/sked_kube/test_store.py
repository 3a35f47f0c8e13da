"""The store: indexes follow the objects, equal strings are one."""

from schedkit.sked.kube.decoding import decode
from schedkit.sked.kube.objects import Model, ObjectMeta, OwnerReference
from schedkit.sked.kube.resources import EVENTS, Resource
from schedkit.sked.kube.store import Groups, Interner, Store, by_controller, same_projection


class Thing(Model, frozen=True):
    metadata: ObjectMeta
    size: int = 0


def thing(name: str, owner: str = "", version: str = "1", size: int = 0) -> Thing:
    owners = (OwnerReference("v1", "Boss", "boss", owner, controller=True),) if owner else ()
    return Thing(ObjectMeta(name=name, namespace="n", resource_version=version, owner_references=owners), size)


def test_objects_are_found_by_name_and_by_owner() -> None:
    store: Store[Thing] = Store({"owner": by_controller})
    for item in (thing("a", "u1"), thing("b", "u1"), thing("c")):
        assert store.put(item) is None
    assert {item.metadata.name for item in store.find("owner", "u1")} == {"a", "b"}
    assert (store.count("owner", "u1"), store.count("owner", "nobody")) == (2, 0)
    assert store.get("n", "c") == thing("c")
    assert store.get("m", "c") is None
    assert store.find("owner", "u2") == []


def test_index_follows_changes_and_deletions() -> None:
    store: Store[Thing] = Store({"owner": by_controller})
    store.put(thing("a", "u1"))
    assert store.put(thing("a", "u2")) == thing("a", "u1")
    assert store.find("owner", "u1") == []
    assert store.find("owner", "u2") == [thing("a", "u2")]
    assert store.remove(thing("a").metadata.key) == thing("a", "u2")
    assert store.remove(thing("a").metadata.key) is None
    assert store.find("owner", "u2") == []
    assert len(store) == 0


def test_group_keeps_the_order_of_its_members_while_it_grows_and_shrinks() -> None:
    groups: Groups[str, tuple[str, int]] = Groups()
    for number in (3, 1, 2, 1):
        groups.add("g", ("m", number))
    groups.add("other", ("m", 1))
    assert list(groups.find("g")) == [("m", 3), ("m", 1), ("m", 2)]
    for gone, left in ((1, [3, 2]), (3, [2]), (7, [2]), (2, []), (2, [])):
        groups.remove("g", ("m", gone))
        assert [number for _, number in groups.find("g")] == left
    groups.add("g", ("m", 5))
    assert list(groups.find("g")) == [("m", 5)]
    assert list(groups.find("other")) == [("m", 1)]
    assert len(groups.find("nobody")) == 0


def test_equal_strings_of_different_objects_are_one() -> None:
    text = b'{"metadata":{"name":"%b","namespace":"some-namespace","labels":{"zone":"north-west-1"}}}'
    store: Store[Thing] = Store()
    for name in (b"a", b"b"):
        store.put(decode(text % name, Thing))
    first, second = (item.metadata for item in store)
    assert first.labels["zone"] is second.labels["zone"]
    assert first.namespace is second.namespace


def test_equal_parts_are_one_wherever_they_are_and_what_is_unique_is_not_kept() -> None:
    text = b'{"metadata":{"name":"thing-%b","uid":"uid-%b","ownerReferences":[%b]}}'
    owner = b'{"apiVersion":"v1","kind":"Boss","name":"the-boss","uid":"uid-of-the-boss"}'
    interner = Interner()
    things = [decode(text % (name, name, owner), Thing) for name in (b"a", b"b")]
    before = decode(text % (b"a", b"a", owner), Thing)
    for item in things:
        interner.share(item)
    first, second = (item.metadata.owner_references[0] for item in things)
    assert all(getattr(first, name) is getattr(second, name) for name in ("api_version", "kind", "name", "uid"))
    assert things[0] == before
    assert things[0].metadata.owner_references is things[1].metadata.owner_references
    assert "uid-of-the-boss" in interner.known()
    assert "uid-a" not in interner.known()


class Part(Model, frozen=True):
    amounts: dict[str, str]


class Assembly(Model, frozen=True):
    metadata: ObjectMeta
    parts: tuple[Part, ...]
    spares: tuple[Part, ...]


def test_equal_parts_that_hold_dictionaries_are_one_and_others_stay_apart() -> None:
    text = b'{"metadata":{"name":"%b"},"parts":[{"amounts":{"a":"%b"}}],"spares":[{"amounts":{}}]}'
    store: Store[Assembly] = Store()
    for name, amount in ((b"a", b"1"), (b"b", b"1"), (b"c", b"2")):
        store.put(decode(text % (name, amount), Assembly))
    first, second, third = store
    assert first.parts is second.parts
    assert third == decode(text % (b"c", b"2"), Assembly)
    assert first == decode(text % (b"a", b"1"), Assembly)


class Counts(Model, frozen=True):
    ready: int
    whole: bool


class Counted(Model, frozen=True):
    metadata: ObjectMeta
    counts: Counts


def test_empty_dictionaries_are_one() -> None:
    things = [decode(b'{"metadata":{"name":"%s","annotations":{}}}' % name, Thing) for name in (b"a", b"b")]
    for item in things:
        Interner().share(item)
    first, second = (item.metadata for item in things)
    assert first.annotations is first.labels is second.annotations is second.labels
    assert first.labels == {}


def test_equal_counts_are_one() -> None:
    text = b'{"metadata":{"name":"%b"},"counts":{"ready":%d,"whole":true}}'
    store: Store[Counted] = Store()
    for name, ready in ((b"a", 1), (b"b", 1), (b"c", 2)):
        store.put(decode(text % (name, ready), Counted))
    first, second, third = store
    assert first.counts is second.counts
    assert third.counts == Counts(2, True)


def test_interner_forgets_when_it_knows_too_much_and_goes_on_sharing() -> None:
    interner = Interner(most=10)
    for number in range(100):
        interner.share(thing(f"thing-{number}"))
        assert len(interner.known()) <= 10 + 5
    twins = [decode(b'{"metadata":{"name":"twin-of-all"}}', Thing) for _ in range(2)]
    for twin in twins:
        interner.share(twin)
    assert twins[0].metadata.name is twins[1].metadata.name


def test_version_alone_is_no_difference() -> None:
    assert same_projection(thing("a", version="1"), thing("a", version="2"))
    assert not same_projection(thing("a"), thing("a", size=1))
    assert not same_projection(thing("a"), thing("a", "u1"))


def test_paths_of_resources() -> None:
    pods = Resource("", "v1", "pods", "Pod")
    nodes = Resource("", "v1", "nodes", "Node", namespaced=False)
    assert pods.path() == "/api/v1/pods"
    assert pods.path("kube-system", "a", "log") == "/api/v1/namespaces/kube-system/pods/a/log"
    assert nodes.path("ignored", "n1") == "/api/v1/nodes/n1"
    assert EVENTS.path("x") == "/apis/events.k8s.io/v1/namespaces/x/events"
    assert EVENTS.api_version == "events.k8s.io/v1"
    assert nodes.path(name="../secrets") == "/api/v1/nodes/..%2Fsecrets"
