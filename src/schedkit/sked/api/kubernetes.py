"""The parts of Kubernetes' own types that a SchedExt offers, in Kubernetes' names."""

from typing import Annotated, ClassVar

from schedkit.sked.api import container_rules, rules
from schedkit.sked.api.about import ValidationRule, about
from schedkit.sked.api.patterns import IMAGE_LENGTH, LABEL_KEY_LENGTH
from schedkit.sked.kube.objects import Model

NODE_NAME_FIELD = "metadata.name"  # the only field of a node that Kubernetes lets an affinity select by

OBJECT_NAME_LENGTH = 253
TERMS = 8
REQUIREMENTS = 8
VALUES = 32

Image = Annotated[str, about("", rules.IMAGE, maxLength=IMAGE_LENGTH)]
LabelKey = Annotated[str, about("", rules.LABEL_KEY, maxLength=LABEL_KEY_LENGTH)]
LabelValue = Annotated[str, about("", rules.LABEL_VALUE, maxLength=63)]
ObjectName = Annotated[str, about("", rules.OBJECT_NAME, maxLength=OBJECT_NAME_LENGTH)]
Amounts = Annotated[
    dict[str, Annotated[int | str, about("", maxLength=32)]],
    about("", container_rules.RESOURCE_NAMES, container_rules.QUANTITIES, maxProperties=8),
]


class SpecModel(Model, frozen=True, kw_only=True):
    """Base of the types of sked's own kinds: they carry what the CRD and the reference say of them."""

    RULES: ClassVar[tuple[ValidationRule, ...]] = ()


class FieldReference(SpecModel, frozen=True, kw_only=True):
    """A field of the scheduler's pod."""

    field_path: Annotated[
        str,
        about("The field's path in the pod, for example spec.nodeName.", container_rules.POD_FIELD, maxLength=400),
    ]


class KeyReference(SpecModel, frozen=True, kw_only=True):
    """A key of a ConfigMap or a Secret in the resource's namespace."""

    name: Annotated[ObjectName, about("The name of the ConfigMap or Secret.")]
    key: Annotated[str, about("The key whose value is taken.", container_rules.DATA_KEY, maxLength=253)]
    optional: Annotated[bool, about("Whether the pod may start when the object or the key is absent.")] = False


class EnvironmentSource(SpecModel, frozen=True, kw_only=True):
    """Where an environment variable's value is taken from: exactly one of these."""

    RULES = (container_rules.ENVIRONMENT_SOURCE,)

    field_ref: Annotated[FieldReference | None, about("A field of the scheduler's pod.")] = None
    config_map_key_ref: Annotated[KeyReference | None, about("A key of a ConfigMap.")] = None
    secret_key_ref: Annotated[KeyReference | None, about("A key of a Secret.")] = None


class EnvironmentVariable(SpecModel, frozen=True, kw_only=True):
    """One environment variable of the scheduler."""

    RULES = (container_rules.ENVIRONMENT_VALUE,)

    name: Annotated[str, about("The variable's name.", container_rules.ENVIRONMENT_NAME, maxLength=256)]
    value: Annotated[str, about("The variable's value.", maxLength=32768)] = ""
    value_from: Annotated[EnvironmentSource | None, about("Where the value is taken from, instead of value.")] = None


class ConfigSource(SpecModel, frozen=True, kw_only=True):
    """A ConfigMap whose keys the scheduler reads as files."""

    config_map: Annotated[ObjectName, about("The name of a ConfigMap in the resource's namespace.")]
    mount_path: Annotated[
        str,
        about(
            "The folder of the container in which each key is a file, read-only.",
            container_rules.MOUNT_PATH,
            maxLength=1024,
        ),
    ]


class ResourceRequirements(SpecModel, frozen=True, kw_only=True):
    """What the scheduler's container asks for and may use at most."""

    RULES = (container_rules.REQUESTS_WITHIN_LIMITS,)

    limits: Annotated[Amounts, about("The most that the container may use, by resource.")] = {}
    requests: Annotated[Amounts, about("What is set aside for the container, by resource.")] = {}


class NodeSelectorRequirement(SpecModel, frozen=True, kw_only=True):
    """One thing asked of a label of a node."""

    RULES = (rules.REQUIREMENT,)

    key: Annotated[LabelKey, about("The label's key.")]
    operator: Annotated[
        str,
        about("How the label is compared with the values.", enum=["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]),
    ]
    values: Annotated[
        tuple[LabelValue, ...],
        about("What the label is compared with.", list_type="atomic", maxItems=VALUES),
    ] = ()


class NodeFieldRequirement(SpecModel, frozen=True, kw_only=True):
    """One thing asked of a node's name."""

    key: Annotated[str, about("The field's path in the node; there is only its name.", enum=[NODE_NAME_FIELD])]
    operator: Annotated[str, about("Whether it is the node of this name, or not.", enum=["In", "NotIn"])]
    values: Annotated[
        tuple[Annotated[str, about("", maxLength=OBJECT_NAME_LENGTH)], ...],
        about("The node's name.", rules.FIELD_VALUES, list_type="atomic", maxItems=VALUES),
    ]


class NodeSelectorTerm(SpecModel, frozen=True, kw_only=True):
    """Requirements that a node must meet all of."""

    RULES = (rules.TERM,)

    match_expressions: Annotated[
        tuple[NodeSelectorRequirement, ...],
        about("What is asked of the node's labels.", list_type="atomic", maxItems=REQUIREMENTS),
    ] = ()
    match_fields: Annotated[
        tuple[NodeFieldRequirement, ...],
        about("What is asked of the node's name.", list_type="atomic", maxItems=REQUIREMENTS),
    ] = ()


class NodeSelector(SpecModel, frozen=True, kw_only=True):
    """Terms of which a node must meet one."""

    node_selector_terms: Annotated[
        tuple[NodeSelectorTerm, ...],
        about("The terms, of which one is enough.", rules.TERMS, list_type="atomic", maxItems=TERMS),
    ]


class PreferredSchedulingTerm(SpecModel, frozen=True, kw_only=True):
    """A preference for some nodes."""

    weight: Annotated[int, about("The weight of this preference, from 1 to 100.", minimum=1, maximum=100)]
    preference: Annotated[NodeSelectorTerm, about("The preferred nodes.")]


class NodeAffinity(SpecModel, frozen=True, kw_only=True):
    """Which nodes are selected, by more than equal labels."""

    required_during_scheduling_ignored_during_execution: Annotated[
        NodeSelector | None, about("What a node must meet to be selected.", map_type="atomic")
    ] = None
    preferred_during_scheduling_ignored_during_execution: Annotated[
        tuple[PreferredSchedulingTerm, ...],
        about(
            "Preferences, handed on to the pods; a DaemonSet runs on every node that is selected, preferred or not.",
            list_type="atomic",
            maxItems=TERMS,
        ),
    ] = ()


class Affinity(SpecModel, frozen=True, kw_only=True):
    """The affinity of the scheduler's pods, of which only that to nodes has a meaning here."""

    node_affinity: Annotated[NodeAffinity | None, about("The affinity to nodes.")] = None


class Toleration(SpecModel, frozen=True, kw_only=True):
    """A taint of nodes that does not keep the scheduler away."""

    RULES = (rules.TOLERATION,)

    key: Annotated[
        str,
        about(
            "The taint's key; absent, with the operator Exists, it means every key.",
            rules.TAINT_KEY,
            maxLength=LABEL_KEY_LENGTH,
        ),
    ] = ""
    operator: Annotated[
        str,
        about("Whether the taint's value must be equal or may be any; absent means Equal.", enum=["Equal", "Exists"]),
    ] = ""
    value: Annotated[LabelValue, about("The taint's value, when the operator is Equal.")] = ""
    effect: Annotated[
        str,
        about("The taint's effect; absent means every effect.", enum=["NoSchedule", "PreferNoSchedule", "NoExecute"]),
    ] = ""
    toleration_seconds: Annotated[
        int | None,
        about("How long a NoExecute taint is tolerated, in seconds; absent means forever.", format="int64"),
    ] = None


class LocalObjectReference(SpecModel, frozen=True, kw_only=True):
    """An object in the resource's namespace."""

    name: Annotated[ObjectName, about("The object's name.")]


class Condition(SpecModel, frozen=True, kw_only=True):
    """One thing that is true, false or unknown of the resource, and since when."""

    type: Annotated[str, about("What the condition is about.", maxLength=316)]
    status: Annotated[str, about("Whether it is so.", enum=["True", "False", "Unknown"])]
    observed_generation: Annotated[
        int, about("The generation of the spec that the condition is about.", format="int64", minimum=0)
    ] = 0
    last_transition_time: Annotated[str, about("When the status last changed.", format="date-time")]
    reason: Annotated[
        str,
        about(
            "Why, as one word that programs may match on.",
            maxLength=1024,
            minLength=1,
            pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        ),
    ]
    message: Annotated[str, about("Why, as a sentence for people.", maxLength=32768)]
