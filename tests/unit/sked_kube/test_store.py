"""The store: indexes follow the objects, equal strings are one."""

from schedkit.sked.kube.decoding import decode
from schedkit.sked.kube.objects import Model, ObjectMeta, OwnerReference
from schedkit.sked.kube.resources import EVENTS, Resource
from schedkit.sked.kube.store import Store, by_controller, same_projection


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


def test_equal_strings_of_different_objects_are_one() -> None:
    text = b'{"metadata":{"name":"%b","namespace":"some-namespace","labels":{"zone":"north-west-1"}}}'
    store: Store[Thing] = Store()
    for name in (b"a", b"b"):
        store.put(decode(text % name, Thing))
    first, second = (item.metadata for item in store)
    assert first.labels["zone"] is second.labels["zone"]
    assert first.namespace is second.namespace


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
