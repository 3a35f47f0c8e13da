"""What the .deb holds beside the program: manual pages, completions, polkit's action, documentation, examples."""

import importlib
import tomllib
from collections.abc import Mapping
from importlib.metadata import Distribution, distributions
from pathlib import Path

import click
from click.shell_completion import ShellComplete, get_completion_class

from release.archives import compress
from release.manual import render_pages
from schedkit import __version__
from schedkit.pages import REPOSITORY

LIBRARY = "opt/schedkit/lib"
DOCUMENTATION = "usr/share/doc/schedkit"
# The commands behind the programs, for their manual and completions; a test compares this with [project.scripts].
COMMANDS = {
    "schedctl": ("schedkit.schedctl.group", "schedctl"),
    "sked": ("schedkit.sked.cli", "sked"),
    "kubectl-scx": ("schedkit.sked.plugin.group", "scx"),
}
HELPERS = {"kubectl_complete-scx"}  # programs that only other programs call
COMPLETIONS = {
    "bash": "usr/share/bash-completion/completions/{}",
    "zsh": "usr/share/zsh/vendor-completions/_{}",
    "fish": "usr/share/fish/vendor_completions.d/{}.fish",
}
# Isolated, without the distribution's Python packages, and writing nothing: what runs is what the package holds.
PROGRAM = """#!/usr/bin/python{python} -ISB
import sys
sys.path.append("/{library}")
from {module} import {function}
{function}()
"""
# `pkexec schedctl …` asks with this text, each time: what it may run is up to whoever calls it.
POLKIT_ACTION = """\
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE policyconfig PUBLIC "-//freedesktop//DTD PolicyKit Policy Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/PolicyKit/1/policyconfig.dtd">
<policyconfig>
  <vendor>schedkit</vendor>
  <vendor_url>{homepage}</vendor_url>
  <action id="org.schedkit.schedctl">
    <description>Run CPU schedulers with schedctl</description>
    <message>Authentication is required to change the CPU scheduler of this machine</message>
    <icon_name>utilities-system-monitor</icon_name>
    <defaults>
      <allow_any>auth_admin</allow_any>
      <allow_inactive>auth_admin</allow_inactive>
      <allow_active>auth_admin</allow_active>
    </defaults>
    <annotate key="org.freedesktop.policykit.exec.path">/usr/bin/schedctl</annotate>
  </action>
</policyconfig>
"""
EXAMPLE_CONFIG = """\
# Settings of schedctl for this machine: copy this file to /etc/schedkit/config.toml and uncomment what you need.
# driver = "podman"
# catalogs = ["/etc/schedkit/catalog.json"]
# trust-policy = "/etc/schedkit/policy.yaml"
"""
EXAMPLE_POLICY = """\
# Which images may run: what schedctl does when no policy is named. Copy it to /etc/schedkit/policy.yaml, change it, and
# name it in /etc/schedkit/config.toml.
identities:
  - issuer: https://token.actions.githubusercontent.com
    subjectRegExp: ^https://github.com/schedkit/
"""


def read_scripts(project: Path) -> dict[str, str]:
    """The programs that pyproject.toml declares, each with module:function."""
    scripts: dict[str, str] = tomllib.loads((project / "pyproject.toml").read_text())["project"]["scripts"]
    return scripts


def render_programs(scripts: Mapping[str, str], python: str) -> dict[str, bytes]:
    """The programs, for a version of Python, by path."""
    made = {}
    for name, entry in scripts.items():
        module, _, function = entry.partition(":")
        text = PROGRAM.format(python=python, library=LIBRARY, module=module, function=function)
        made[f"usr/bin/{name}"] = text.encode()
    return made


def render_manual(epoch: int) -> dict[str, bytes]:
    """The manual pages of all programs, by path."""
    pages: dict[str, str] = {}
    for name in COMMANDS:
        pages |= render_pages(load_command(name), name, version=__version__, epoch=epoch)
    return {f"usr/share/man/man1/{name}.gz": compress(text.encode()) for name, text in pages.items()}


def render_completions() -> dict[str, bytes]:
    """The completion scripts of all programs for all shells, by path."""
    made = {}
    for name in COMMANDS:
        for shell, path in COMPLETIONS.items():
            kind = get_completion_class(shell)
            assert kind is not None  # noqa: S101  (click has these three)
            variable = f"_{name.replace('-', '_').upper()}_COMPLETE"
            # Not the class's own source(): for bash that starts a bash to ask for its version.
            script = ShellComplete.source(kind(load_command(name), {}, name, variable))
            made[path.format(name)] = script.encode()
    return made


def render_polkit() -> dict[str, bytes]:
    """The action by which polkit lets an administrator run schedctl as root, by path."""
    text = POLKIT_ACTION.format(homepage=REPOSITORY)
    return {"usr/share/polkit-1/actions/org.schedkit.schedctl.policy": text.encode()}


def read_documentation(project: Path) -> dict[str, bytes]:
    """The documentation and examples, by path."""
    made = {f"{DOCUMENTATION}/README.md": (project / "README.md").read_bytes()}
    for page in sorted(path for path in (project / "docs").rglob("*") if path.suffix in {".md", ".svg"}):
        made[f"{DOCUMENTATION}/{page.relative_to(project)}"] = page.read_bytes()
    made[f"{DOCUMENTATION}/changelog.gz"] = compress((project / "CHANGELOG.md").read_bytes())
    examples = f"{DOCUMENTATION}/examples"
    made[f"{examples}/config.toml"] = EXAMPLE_CONFIG.encode()
    made[f"{examples}/policy.yaml"] = EXAMPLE_POLICY.encode()
    made[f"{examples}/catalog.json"] = (project / "src/schedkit/images/catalog.json").read_bytes()
    for sample in sorted((project / "config/samples").glob("sked_*.yaml")):
        made[f"{examples}/{sample.name}"] = sample.read_bytes()
    return made


def render_copyright(library: Path) -> str:
    """Under which licence each part may be used, from what the parts themselves say."""
    lines = [
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/",
        "Upstream-Name: schedkit",
        f"Source: {REPOSITORY}",
        "",
        "Files: *",
        "Copyright: The schedkit authors",
        "License: Apache-2.0",
        " On Debian systems, the text is in /usr/share/common-licenses/Apache-2.0.",
        "Comment:",
        f" /{LIBRARY} also holds these packages, each with its licence in its dist-info folder:",
    ]
    bundled = sorted(distributions(path=[str(library)]), key=lambda one: one.name.lower())
    lines += [f"  {one.name} {one.version}: {_read_licence(one)}" for one in bundled if one.name != "schedkit"]
    return "\n".join(lines) + "\n"


def _read_licence(distribution: Distribution) -> str:
    about = distribution.metadata.json
    named = str(about.get("license_expression") or about.get("license") or "")
    classified = [one.rpartition(" :: ")[2] for one in about.get("classifier", []) if one.startswith("License")]
    return named.splitlines()[0] if named and len(named) < 100 else ", ".join(classified) or "see its dist-info folder"


def load_command(name: str) -> click.Command:
    """The click command behind a program."""
    module, attribute = COMMANDS[name]
    command = getattr(importlib.import_module(module), attribute)
    assert isinstance(command, click.Command)  # noqa: S101
    return command
