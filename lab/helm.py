"""helm, compiled from its Go module: it installs the project's chart into the lab's cluster."""

from lab.kube import compiled

HELM_VERSION = "v4.3.1"
HELM = compiled("helm", HELM_VERSION, adds_mb=1900, peak_mb=3100)
