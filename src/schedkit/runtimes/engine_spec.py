"""A scheduler's container as podman and docker are asked for it."""

from pathlib import Path

from schedkit.images.oci import Content
from schedkit.runtimes.labels import PROVIDER, Label
from schedkit.runtimes.model import LOADING_CAPABILITIES, SCX_FOLDER, ContainerSpec

# Logs must be readable whatever the machine's default is: podman's may be a journal that nobody runs, docker's `none`.
# Bounded, as a scheduler that prints its statistics each second runs for months.
_LOGS = {
    "podman": {"Type": "k8s-file", "Config": {"max-size": "16mb"}},
    "docker": {"Type": "json-file", "Config": {"max-size": "8m", "max-file": "2"}},
}
# The engines' own profiles of seccomp and AppArmor stay: they allow bpf() to who has these capabilities. SELinux's does
# not. Memory may be locked, as some schedulers do, without a capability for that.
_UNPRIVILEGED = {
    "Privileged": False,
    "CapDrop": ["ALL"],
    "CapAdd": list(LOADING_CAPABILITIES),
    "SecurityOpt": ["no-new-privileges", "label=disable"],
    "Ulimits": [{"Name": "memlock", "Soft": -1, "Hard": -1}],
}


def describe_container(
    driver: str, image: str, content: Content, spec: ContainerSpec, scx_folder: Path
) -> dict[str, object]:
    """The body of a request to create a container of `image`, as the engine calls what was verified."""
    name, value = PROVIDER
    body: dict[str, object] = {
        "Image": image,
        "Env": [f"{variable}={text}" for variable, text in spec.env.items()],
        "Labels": {
            # Engines add the image's labels where we write none: it could give itself files or a network that way.
            **{label.value: "" for label in Label},
            Label.IMAGE: content.reference,
            **spec.labels,
            Label.MANIFEST: content.manifest.digest,
            name: value,
        },
        "HostConfig": {
            **(_UNPRIVILEGED if spec.unprivileged else {"Privileged": True}),
            "PidMode": "host",
            # Statistics go through a unix socket; what a scheduler listens on beside that is not for the world.
            "NetworkMode": "host" if spec.host_network else "none",
            "Binds": [f"{scx_folder}:{SCX_FOLDER}"],
            # Not as a bind's one text: a path may have a colon in it.
            "Mounts": [{"Type": "bind", "Source": one, "Target": one, "ReadOnly": True} for one in spec.files],
            "RestartPolicy": {"Name": "no"},
            "LogConfig": _LOGS[driver],
        },
    }
    if spec.args:
        body["Cmd"] = list(spec.args)
    return body
