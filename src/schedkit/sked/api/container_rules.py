"""What must hold of the scheduler's container: environment, files and resources; in CEL and in Python."""

from decimal import Decimal

from schedkit.sked.api import patterns
from schedkit.sked.api.about import Fault, Value, each_key, fits, none_of, unique_names
from schedkit.sked.api.patterns import cel_matches, matches

RESERVED_ENVIRONMENT = "SKED_"  # for what the operator itself may one day tell the scheduler

ENVIRONMENT_NAME = none_of(
    Fault(
        f"!{cel_matches('self', patterns.ENVIRONMENT_NAME)}",
        lambda value: not matches(patterns.ENVIRONMENT_NAME, value),
        "this cannot be the name of an environment variable: "
        "use letters, digits, '_', '-' and '.', with a letter or '_' at the beginning",
    ),
    Fault(
        f"self.startsWith('{RESERVED_ENVIRONMENT}')",
        lambda value: value.startswith(RESERVED_ENVIRONMENT),
        f"environment variables that begin with {RESERVED_ENVIRONMENT} are reserved for sked",
    ),
)
ENVIRONMENT_NAMES = unique_names("two environment variables have the same name")
ENVIRONMENT_VALUE = none_of(
    Fault(
        "has(self.valueFrom) && has(self.value) && self.value != ''",
        lambda value: "valueFrom" in value and bool(value.get("value")),
        "value and valueFrom exclude each other: give one of them",
    )
)
_SOURCES = ("fieldRef", "configMapKeyRef", "secretKeyRef")
ENVIRONMENT_SOURCE = none_of(
    Fault(
        f"[{', '.join(f'has(self.{source})' for source in _SOURCES)}].filter(given, given).size() != 1",
        lambda value: sum(source in value for source in _SOURCES) != 1,
        "valueFrom names exactly one of fieldRef, configMapKeyRef and secretKeyRef",
    )
)
DATA_KEY = fits(patterns.KEY, "this cannot be a key of a ConfigMap or Secret: use letters, digits, '-', '_' and '.'")
POD_FIELD = fits(
    patterns.POD_FIELD,
    "this field of a pod cannot be an environment variable: there are metadata.name, metadata.namespace, "
    "metadata.uid, metadata.labels['<key>'], metadata.annotations['<key>'], spec.nodeName, "
    "spec.serviceAccountName, status.hostIP, status.hostIPs, status.podIP and status.podIPs",
)

STATISTICS_FOLDER = "/var/run/scx"  # where schedulers serve statistics
# /var/run is a link to /run in most images.
_RESERVED_FOLDERS = ("/proc/", "/sys/", "/dev/", "/run/scx/", f"{STATISTICS_FOLDER}/")
MOUNT_PATH = none_of(
    Fault(
        "!self.startsWith('/')",
        lambda path: not path.startswith("/"),
        "mountPath must be an absolute path, for example /etc/scx",
    ),
    Fault("self.contains(':')", lambda path: ":" in path, "mountPath must not contain ':'"),
    Fault(
        "self.contains('//') || (self + '/').contains('/./') || (self + '/').contains('/../')",
        lambda path: "//" in path or "/./" in f"{path}/" or "/../" in f"{path}/",
        "mountPath must not contain '//', nor '.' or '..' as a path element",
    ),
    Fault("self == '/'", lambda path: path == "/", "mountPath must not be the root directory"),
    Fault(
        f"{list(_RESERVED_FOLDERS)}.exists(folder, (self + '/').startsWith(folder))",
        lambda path: f"{path}/".startswith(_RESERVED_FOLDERS),
        "mountPath must not be /proc, /sys, /dev, /run/scx or /var/run/scx, or lie in one of them",
    ),
)

_RESOURCE = rf"cpu|memory|ephemeral-storage|hugepages-[A-Za-z0-9.]+|{patterns.DNS_SUBDOMAIN}/[A-Za-z0-9][-A-Za-z0-9_.]*"
RESOURCE_NAMES = each_key(
    cel_matches("key", _RESOURCE),
    lambda _, key: matches(_RESOURCE, key),
    "a container has cpu, memory, ephemeral-storage, hugepages-<size> and <domain>/<name>, but no such resource",
)
_SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def parse_quantity(value: int | str) -> Decimal | None:
    """The number that a quantity like 500m or 64Mi stands for, or None when it is none."""
    text = str(value)
    if not matches(patterns.QUANTITY, text):
        return None
    digits = text.rstrip("KMGTPEinumk")
    suffix = text[len(digits) :]
    if suffix in _BINARY:
        return Decimal(digits) * Decimal(1024) ** (_BINARY.index(suffix) + 1)
    return Decimal(digits).scaleb(_SUFFIXES[suffix])


def _is_amount(value: int | str) -> bool:
    quantity = parse_quantity(value)
    return quantity is not None and quantity >= 0


def _above_limit(value: Value) -> bool:
    limits = value.get("limits", {})
    for name, request in value.get("requests", {}).items():
        asked, most = parse_quantity(request), parse_quantity(limits.get(name, request))
        if asked is not None and most is not None and asked > most:
            return True
    return False


QUANTITIES = each_key(
    "isQuantity(string(self[key])) && !quantity(string(self[key])).isLessThan(quantity('0'))",
    lambda amounts, key: _is_amount(amounts[key]),
    "there is an amount that is not a number from 0 on, like 2, 500m or 64Mi",
)
_REQUEST, _LIMIT = "string(self.requests[key])", "string(self.limits[key])"
REQUESTS_WITHIN_LIMITS = none_of(
    Fault(
        "has(self.requests) && has(self.limits) && self.requests.exists(key, key in self.limits"
        f" && isQuantity({_REQUEST}) && isQuantity({_LIMIT})"
        f" && quantity({_REQUEST}).isGreaterThan(quantity({_LIMIT})))",
        _above_limit,
        "more of a resource is requested than its limit allows",
    )
)
