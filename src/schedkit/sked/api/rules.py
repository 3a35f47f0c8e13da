"""What must hold of the fields, and the sentence that refuses what does not; each rule in CEL and in Python."""

import re
from collections.abc import Sequence

from schedkit.sked.api import patterns
from schedkit.sked.api.about import Fault, Value, each_key, fits, none_of, unique_names
from schedkit.sked.api.patterns import cel_matches, matches

NAME_LENGTH = 63  # the name is the value of a label of the pods
HASH_LENGTH = 10  # of what makes a revision another one
REVISED_NAME_LENGTH = NAME_LENGTH - 1 - HASH_LENGTH  # where a dash and a hash follow
LONGEST_REVISION = NAME_LENGTH + 1 + HASH_LENGTH  # without a rollout, it is the name of nothing


IMAGE = none_of(
    Fault("self == ''", lambda image: image == "", "the image reference is empty"),
    Fault(
        r"self.matches(r'\s')",
        lambda image: re.search(r"[\t\n\f\r ]", image) is not None,
        "there is whitespace in the image reference",
    ),
    Fault(
        cel_matches("self", patterns.IMAGE_ID),
        lambda image: matches(patterns.IMAGE_ID, image),
        "64 hexadecimal digits are the ID of an image, not a reference that can be pulled",
    ),
    Fault(
        f"!{cel_matches('self', patterns.IMAGE)} && {cel_matches('self.lowerAscii()', patterns.IMAGE)}",
        lambda image: not matches(patterns.IMAGE, image) and matches(patterns.IMAGE, image.lower()),
        "the repository and the digest of an image reference are written in lower case",
    ),
    Fault(
        f"!{cel_matches('self', patterns.IMAGE)}",
        lambda image: not matches(patterns.IMAGE, image),
        "this is not an image reference: it is written [registry[:port]/]repository[:tag][@sha256:digest]",
    ),
    Fault(
        f"!{cel_matches('self', patterns.IMAGE_NAME_FITS)}",
        lambda image: not matches(patterns.IMAGE_NAME_FITS, image),
        "the name of the image is longer than 255 characters",
    ),
)

_NAME_HELP = "use lower-case letters, digits, '-' and '.', with a letter or digit at both ends"
OBJECT_NAME = fits(patterns.DNS_SUBDOMAIN, f"this cannot be the name of an object: {_NAME_HELP}")
POOL_NAME = fits(
    patterns.DNS_LABEL,
    "this cannot be the name of a pool: use lower-case letters, digits and '-', with a letter or digit at both ends",
)

# Labels of nodes

_KEY_HELP = "it is written [prefix/]name, with at most 63 characters in the name"
LABEL_KEY = fits(patterns.LABEL_KEY, f"this cannot be the key of a label: {_KEY_HELP}")
LABEL_KEYS = each_key(
    cel_matches("key", patterns.LABEL_KEY),
    lambda _, key: matches(patterns.LABEL_KEY, key),
    "there is a key that cannot be the key of a label",
)
LABEL_VALUE = fits(
    patterns.LABEL_VALUE,
    "this cannot be the value of a label: "
    "use at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends",
)

_IN_OPERATORS = "self.operator in ['In', 'NotIn']"
_SIZE = "(has(self.values) ? size(self.values) : 0)"


def _values(requirement: Value) -> Sequence[str]:
    values: Sequence[str] = requirement.get("values", ())
    return values


REQUIREMENT = none_of(
    Fault(
        f"{_IN_OPERATORS} && {_SIZE} == 0",
        lambda value: value["operator"] in ("In", "NotIn") and not _values(value),
        "the operators In and NotIn need values to compare with",
    ),
    Fault(
        f"self.operator in ['Exists', 'DoesNotExist'] && {_SIZE} > 0",
        lambda value: value["operator"] in ("Exists", "DoesNotExist") and len(_values(value)) > 0,
        "the operators Exists and DoesNotExist take no values",
    ),
    Fault(
        f"self.operator in ['Gt', 'Lt'] && !({_SIZE} == 1 && {cel_matches('self.values[0]', patterns.WHOLE_NUMBER)})",
        lambda value: (
            value["operator"] in ("Gt", "Lt")
            and not (len(_values(value)) == 1 and matches(patterns.WHOLE_NUMBER, _values(value)[0]))
        ),
        "the operators Gt and Lt need exactly one value, a whole number",
    ),
)
FIELD_VALUES = none_of(
    Fault(
        "size(self) != 1",
        lambda value: len(value) != 1,
        "matchFields compares with exactly one value; for several nodes, give a term for each",
    ),
    Fault(
        f"!{cel_matches('self[0]', patterns.DNS_SUBDOMAIN)}",
        lambda value: not matches(patterns.DNS_SUBDOMAIN, value[0]),
        f"this cannot be the name of a node: {_NAME_HELP}",
    ),
)
TERM = none_of(
    Fault(
        "!(has(self.matchExpressions) && size(self.matchExpressions) > 0)"
        " && !(has(self.matchFields) && size(self.matchFields) > 0)",
        lambda value: not value.get("matchExpressions") and not value.get("matchFields"),
        "an empty term selects no node: give it matchExpressions or matchFields",
    )
)
TERMS = none_of(
    Fault("size(self) == 0", lambda value: len(value) == 0, "no node is selected without terms: give at least one")
)

# Tolerations

TAINT_KEY = fits(f"(?:{patterns.LABEL_KEY})?", f"this cannot be the key of a taint: {_KEY_HELP}")
TOLERATION = none_of(
    Fault(
        "!(has(self.key) && self.key != '') && !(has(self.operator) && self.operator == 'Exists')",
        lambda value: not value.get("key") and value.get("operator") != "Exists",
        "a toleration without a key is for every taint: its operator must be Exists",
    ),
    Fault(
        "has(self.operator) && self.operator == 'Exists' && has(self.value) && self.value != ''",
        lambda value: value.get("operator") == "Exists" and bool(value.get("value")),
        "the operator Exists takes no value: it tolerates the taint with any",
    ),
    Fault(
        "has(self.tolerationSeconds) && !(has(self.effect) && self.effect == 'NoExecute')",
        lambda value: "tolerationSeconds" in value and value.get("effect") != "NoExecute",
        "tolerationSeconds is only for the effect NoExecute",
    ),
)

# Updates

MAX_UNAVAILABLE = none_of(
    Fault(
        f"type(self) == int ? int(self) < 1 : !{cel_matches('string(self)', patterns.PERCENTAGE)}",
        lambda value: value < 1 if isinstance(value, int) else not matches(patterns.PERCENTAGE, value),
        "maxUnavailable is a number of nodes from 1 on, or a percentage from 1% to 100%: "
        "an update takes the old scheduler off a node before the new one can attach",
    )
)
NO_SURGE = none_of(
    Fault(
        "has(self.maxSurge)",
        lambda value: "maxSurge" in value,
        "maxSurge is not possible: a kernel has one slot for a scheduler, so the old one has to leave a node "
        "before the new one can attach; use maxUnavailable",
    )
)
ROLLING_ONLY = none_of(
    Fault(
        "has(self.rollingUpdate) && has(self.type) && self.type != 'RollingUpdate'",
        lambda value: "rollingUpdate" in value and value.get("type", "RollingUpdate") != "RollingUpdate",
        "rollingUpdate is only for the type RollingUpdate",
    )
)

# The resource

POOL_NAMES = unique_names("two pools have the same name")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
POOL_SELECTS = none_of(
    Fault(
        "!(has(self.nodeSelector) && size(self.nodeSelector) > 0) && !(has(self.affinity)"
        f" && has(self.affinity.nodeAffinity) && has(self.affinity.nodeAffinity.{_REQUIRED}))",
        lambda value: (
            not value.get("nodeSelector") and _REQUIRED not in value.get("affinity", {}).get("nodeAffinity", {})
        ),
        "a pool selects its nodes: give it a nodeSelector or a required nodeAffinity",
    )
)


def _pools_without_image(spec: Value) -> list[Value]:
    return [pool for pool in spec.get("pools", ()) if "sched" not in pool]


HAS_IMAGE = none_of(
    Fault(
        "!has(self.sched) && !(has(self.pools) && size(self.pools) > 0)",
        lambda value: "sched" not in value and not value.get("pools"),
        "no scheduler is named: give its image as sched",
    ),
    Fault(
        "!has(self.sched) && has(self.pools) && self.pools.exists(pool, !has(pool.sched))",
        lambda value: "sched" not in value and bool(_pools_without_image(value)),
        "a pool names no scheduler: give its image as sched, in the pool or in the spec for all pools",
    ),
    field="sched",
)


def _long_pools(resource: Value) -> list[str]:
    name = resource["metadata"]["name"]
    names = [f"{name}-{pool['name']}" for pool in resource["spec"].get("pools", ())]
    return [name for name in names if len(name) > NAME_LENGTH]


def _too_long_for_revisions(resource: Value) -> bool:
    spec, length = resource["spec"], len(resource["metadata"]["name"])
    pools = spec.get("pools", ())
    if "rollout" in spec and length > REVISED_NAME_LENGTH:
        return True
    rolled = (pool for pool in pools if "rollout" in spec or "rollout" in pool)
    return any(length + 1 + len(pool["name"]) > REVISED_NAME_LENGTH for pool in rolled)


NAME_FITS = none_of(
    Fault(
        f"size(self.metadata.name) > {NAME_LENGTH}",
        lambda value: len(value["metadata"]["name"]) > NAME_LENGTH,
        f"the resource's name is longer than {NAME_LENGTH} characters, too long for a label of its pods",
    ),
    Fault(
        "has(self.spec.pools) && self.spec.pools.exists(pool,"
        f" size(self.metadata.name) + 1 + size(pool.name) > {NAME_LENGTH})",
        lambda value: bool(_long_pools(value)),
        f"the resource's name and a pool's, joined by '-', are longer than {NAME_LENGTH} characters, "
        "too long for a label of its pods",
    ),
    Fault(
        f"(has(self.spec.rollout) && size(self.metadata.name) > {REVISED_NAME_LENGTH}) || (has(self.spec.pools)"
        " && self.spec.pools.exists(pool, (has(self.spec.rollout) || has(pool.rollout))"
        f" && size(self.metadata.name) + 1 + size(pool.name) > {REVISED_NAME_LENGTH}))",
        _too_long_for_revisions,
        f"with a rollout, the resource's name (and a pool's, joined by '-') has at most {REVISED_NAME_LENGTH} "
        "characters: the DaemonSets of its revisions have a hash behind it",
    ),
    field="metadata.name",
)
