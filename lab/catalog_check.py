"""Does what the catalog names build, attach and take its modes? `make catalog-check` tries it, and writes the page.

Each scheduler is compiled from its published crate, made into an image by its own Containerfile, and run by schedctl on
the oldest kernel with sched_ext. What is measured, or why it failed, becomes docs/schedctl/schedulers.md. What was
found about one is kept in the lab's folder: after an interruption the next run goes on with the others.
"""

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import click

from catalog.recipes import RECIPES, Recipe
from lab import images, paths, rooms
from lab.catalog_page import Checked, render
from lab.catalogue import open_store
from lab.errors import LabError
from lab.host import check_host
from lab.kernels import OLDEST
from lab.layers import SCHEDULERS
from lab.machine import Machine
from lab.process import Result
from lab.qemu import KVM, find_accelerator
from lab.schedctl import install_schedctl
from lab.schedulers import VERSIONS, write_cargo_settings
from lab.session import remove_run, run_folder, sweep
from lab.store import Artefact, Build, Store, remove_tree
from schedkit.cli import run_program

PAGE = Path(__file__).parents[1] / "docs/schedctl/schedulers.md"
CATALOG = "/root/catalog.json"  # in the machine
SCRIPT = paths.RECIPES / "catalog.sh"
SECONDS = 600.0
ATTACH_SECONDS = 180
Manifest = Mapping[str, Mapping[str, object]]


def program_of(name: str) -> Artefact:
    """The program of a scheduler, as the base image that its Containerfile calls BUILT; `failed` says why not."""

    def build(work: Build) -> None:
        write_cargo_settings(work.store)
        rooms.run_script(work, work.need(rooms.COMPILE), SCRIPT, env={"SCHEDULER": wanted})
        if not (work.out / "failed").exists():
            images.build_base(work, "built", work.work / "built")

    wanted = f"{name}@{RECIPES[name].version}"
    return Artefact(
        f"catalog-{name}",
        (wanted, SCRIPT.read_text()),
        build,
        needs=(rooms.COMPILE, rooms.TOOLS),
        on_demand=True,
        lane="cargo",  # they share what is compiled
        seconds=120,
        adds_mb=10,
        peak_mb=3000,
    )


def has_image(name: str) -> bool:
    """Whether the lab has made an image of just this version, for its tests."""
    return VERSIONS.get(name) == RECIPES[name].version


class Findings:
    """What was found about each scheduler, kept as long as what it depends on is the same."""

    def __init__(self, store: Store, manifest: Manifest) -> None:
        self._folder = store.root / "checked"
        self._manifest = manifest

    def read(self, name: str) -> Checked | None:
        """What is known about it; None when it was not tried, or something has changed since."""
        try:
            kept = json.loads(self._path(name).read_text())
            if kept["of"] == self._key(name):
                return Checked(**kept["checked"] | {"modes": tuple(kept["checked"]["modes"])})
        except (OSError, ValueError, LookupError, TypeError):
            pass  # it is tried again
        return None

    def write(self, checked: Checked) -> None:
        """Keep it. What did not build is tried again: the network may have been the reason."""
        if checked.size is not None:
            self._folder.mkdir(exist_ok=True)
            said = checked._replace(not_offered={})._asdict()  # the recipe says it
            kept = {"of": self._key(checked.name), "checked": said}
            self._path(checked.name).write_text(json.dumps(kept, indent=1) + "\n")

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.json"

    def _key(self, name: str) -> str:
        containerfile = (images.CATALOG / name / "Containerfile").read_text()
        parts = [self._manifest[name], containerfile, program_of(name).key, OLDEST.artefact.key]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


class Checker:
    """schedctl in one machine."""

    def __init__(self, store: Store, machine: Machine, manifest: Manifest) -> None:
        self._store = store
        self._machine = machine
        self._manifest = manifest
        self._kernel = machine.run("uname -r").stdout.strip()
        install_schedctl(machine)
        entries = {
            name: {**entry, "imageURI": f"localhost:5000/{name}:{RECIPES[name].version}"}
            for name, entry in manifest.items()
        }
        machine.guest.write(CATALOG, json.dumps(entries).encode())

    def check(self, name: str, *, modes: bool) -> Checked:
        """Make its image, run it, run it in each of its modes, stop it; the first thing that fails is why."""
        checked = describe(name, self._manifest)._replace(kernel=self._kernel)
        if not has_image(name):
            program = program_of(name)
            failed = self._store.path(program) / "failed"
            if failed.exists():
                said = failed.read_text()
                remove_tree(self._store.path(program))  # for the next run
                return checked._replace(why=f"it does not build: {_last_line(said)}")
            self._push(name, RECIPES[name], program)
        size = json.loads(self._call(f"info {name} -o json").stdout)["size"]
        ran = self._call(f"run {name} --timeout {ATTACH_SECONDS} -o json")
        if ran.code:
            return checked._replace(size=size, why=f"it does not attach: {read_error(ran)}")
        checked = checked._replace(size=size, seconds=json.loads(ran.stdout)["container"]["seconds"], modes_tried=modes)
        refused = [self._try_mode(name, mode) for mode in checked.modes] if modes else []
        self._call("stop --all")
        return checked._replace(why="; ".join(one for one in refused if one))

    def _push(self, name: str, recipe: Recipe, program: Artefact) -> None:
        """Build its image by its Containerfile, into the machine's registry."""
        bases = {"BASE": f"{images.BASES}/runtime", "BUILT": f"{images.BASES}/built"}
        images.build(
            self._store,
            images.CATALOG / name / "Containerfile",
            images.CATALOG,
            f"{name}:{recipe.version}",
            registry=self._machine.registry,
            build_args={**bases, "VERSION": recipe.version},
            bases={"built": program},
        )

    def _try_mode(self, name: str, mode: str) -> str:
        ran = self._call(f"switch {name} --mode {mode} --timeout {ATTACH_SECONDS} -o json")
        return f"mode {mode}: {read_error(ran)}" if ran.code else ""

    def _call(self, words: str) -> Result:
        settings = f"SCHEDCTL_CATALOG={CATALOG} SCHEDCTL_ALLOW_UNSIGNED=1"
        return self._machine.run(f"{settings} schedctl --driver containerd {words}", check=False, timeout=SECONDS)


def describe(name: str, manifest: Manifest) -> Checked:
    """What is known of a scheduler before it is tried."""
    entry = manifest[name]
    said = entry.get("modes", {})
    modes = tuple(sorted(said)) if isinstance(said, dict) else ()
    return Checked(name, RECIPES[name].version, str(entry.get("goodFor", "")), modes)


def is_enough(known: Checked | None, *, modes: bool) -> bool:
    """Whether a scheduler need not be tried again."""
    return known is not None and (known.modes_tried or not known.modes or not modes)


def read_error(ran: Result) -> str:
    """What schedctl said, which is the last line of stderr with -o json."""
    lines = ran.stderr.splitlines()
    try:
        return str(json.loads(lines[-1])["error"]["message"])
    except (ValueError, LookupError, TypeError):
        return _last_line(ran.stderr) or f"exit code {ran.code}"


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in reversed(lines) if line.startswith("error")), lines[-1] if lines else "")


def compile_missing(store: Store, names: list[str]) -> list[str]:
    """Have the programs of all these; returns the names of those that are there, also after Ctrl-C."""
    programs = {name: program_of(name) for name in names if not has_image(name)}
    with suppress(KeyboardInterrupt):
        store.ensure(*programs.values())
    return [name for name in names if name not in programs or store.has(programs[name])]


def check_all(store: Store, manifest: Manifest, findings: Findings, names: list[str], *, modes: bool) -> list[Checked]:
    """Compile, run and time these; what was found until Ctrl-C is kept and returned."""
    folder = run_folder(store, "catalog")
    checked: list[Checked] = []
    try:
        compiled = compile_missing(store, names)
        machine = Machine.start(store, folder, kernel=OLDEST, layers=(SCHEDULERS,))
        checker = Checker(store, machine, manifest)
        with suppress(KeyboardInterrupt):
            for name in compiled:
                with store.progress.step(f"checking {name}"):
                    checked.append(checker.check(name, modes=modes))
                findings.write(checked[-1])
                click.echo(f"{name}: {checked[-1].describe()}")
    finally:
        remove_run(store, folder)
    return checked


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--modes/--no-modes", default=True, show_default=True, help="Try each mode of each, too.")
@click.option("--again", is_flag=True, help="Try those again about which an earlier run has found something.")
@click.option("--dry-run", is_flag=True, help="Print the page, and do not write it.")
def catalog_check(names: tuple[str, ...], modes: bool, again: bool, dry_run: bool) -> None:
    """Build, run and time the schedulers of the catalog, or those of NAME, and write docs/schedctl/schedulers.md.

    Ctrl-C while it compiles goes on with what is compiled; while it runs them, it writes the page of what was found
    until there, which says what was not tried. Run again, it goes on with the others.
    """
    manifest = json.loads((images.CATALOG / "manifest.json").read_text())
    unknown = sorted(set(names) - set(manifest))
    if unknown:
        raise LabError(f"the catalog has no {', '.join(unknown)}")
    check_host()
    store = open_store()
    sweep(store)
    findings = Findings(store, manifest)
    shown = [name for name in manifest if not manifest[name].get("hidden")]
    crates = [name for name in shown if RECIPES[name].kind == "crate"]
    wanted = [name for name in crates if name in (names or crates)]
    if not again:
        wanted = [name for name in wanted if not is_enough(findings.read(name), modes=modes)]
    checked = {one.name: one for one in check_all(store, manifest, findings, wanted, modes=modes)} if wanted else {}
    for name in shown:
        if name not in crates:
            checked[name] = describe(name, manifest)._replace(why=f"not tried. {RECIPES[name].note}")
        elif name not in checked and (kept := findings.read(name)):
            checked[name] = kept
    emulated = find_accelerator(store, OLDEST) != KVM
    left_out = [name for name in shown if name not in checked]
    found = [checked[name]._replace(not_offered=RECIPES[name].not_offered) for name in sorted(checked)]
    page = render(found, emulated=emulated, left_out=left_out)
    if dry_run:
        click.echo(page)
    else:
        PAGE.write_text(page)
    if any(one.has_failed for one in found):
        raise LabError("some do not build, attach or take their modes: see the page")


if __name__ == "__main__":
    run_program(catalog_check, "make catalog-check")
