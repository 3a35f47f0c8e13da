"""helm, compiled from its Go module: it installs the project's chart into the lab's cluster."""

from lab.golang import HELM_VERSION, compiled

HELM = compiled("helm", HELM_VERSION, seconds=60, adds_mb=1900, peak_mb=3100)
