"""How long it takes to verify one image: `schedctl verify` beside `cosign verify`, with a key and keyless.

Run as `python -m bench.trust` in the repository; README.md beside it says what is measured.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from bench.pull import NAME, TAG, push_random
from lab import images
from lab.catalogue import open_store
from lab.host import check_host
from lab.session import remove_run, run_folder
from lab.signing import Cosign, VirtualSigstore, keyed
from lab.store import Store
from schedkit.images.reference import Reference, parse_reference
from schedkit.images.registry import Registry
from schedkit.trust.decide import verify
from schedkit.trust.policy import read_policy
from schedkit.trust.roots import Roots

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = "import sys; sys.argv[0] = 'schedctl'; from schedkit.schedctl.main import main; main()"
SUBJECT, ISSUER = "release@schedkit.example", "https://accounts.schedkit.example"


@dataclass(frozen=True)
class Case:
    """The same question to both: command line and environment of each."""

    image: str
    policy: Path
    schedctl: tuple[list[str], dict[str, str]]
    cosign: tuple[list[str], dict[str, str]]


def sign(cosign: Cosign, sigstore: VirtualSigstore, image: str, key: Path | None) -> None:
    """In the series' own format: without a log if by a key, else with an entry of the virtual one."""
    cosign.sign(image, *(keyed(key) if key else sigstore.keyless(SUBJECT, ISSUER)))


def make_case(
    cosign: Cosign, sigstore: VirtualSigstore, folder: Path, image: str, pair: tuple[Path, Path] | None
) -> Case:
    """An image signed with a key or, without one, by an identity."""
    sign(cosign, sigstore, image, pair[0] if pair else None)
    policy = folder / f"policy-{cosign.series}-{'keyed' if pair else 'keyless'}.yaml"
    if pair:
        policy.write_text(f"keys:\n  - path: {pair[1]}\n")
        options = ["--key", str(pair[1]), "--insecure-ignore-tlog=true"]
    else:
        policy.write_text(
            f"identities:\n  - issuer: {ISSUER}\n    subject: {SUBJECT}\ntrustedRoot: {sigstore.trusted_root}\n"
        )
        options = ["--certificate-identity", SUBJECT, "--certificate-oidc-issuer", ISSUER]
        options += ["--insecure-ignore-sct=true"]  # the virtual sigstore has no CT log
    question, settings = cosign.ask(image, *options, root=sigstore.trusted_root)
    ours = dict(os.environ) | {
        "PYTHONPATH": str(ROOT / "src"),
        "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "XDG_CONFIG_HOME": str(folder / "config"),
    }
    ours.pop("PYTHONDONTWRITEBYTECODE", None)
    return Case(
        image,
        policy,
        schedctl=([sys.executable, "-c", PROGRAM, "verify", image, "--trust-policy", str(policy)], ours),
        cosign=([str(cosign.program), *map(str, question)], cosign.environment | settings),
    )


def measure(name: str, case: Case, turns: int) -> None:
    """All in turn, so that whatever else the machine does hits them alike; the first turn warms up."""
    programs = (partial(run, *case.schedctl), partial(run, *case.cosign), partial(check, case))
    seconds: list[list[float]] = [[] for _ in programs]
    for turn in range(turns + 1):
        for program, taken in zip(programs, seconds, strict=True):
            began = time.perf_counter()
            program()
            if turn:
                taken.append(time.perf_counter() - began)
    ours, theirs, inside = (statistics.median(taken) for taken in seconds)
    told = f"schedctl {ours * 1000:4.0f} ms   cosign {theirs * 1000:4.0f} ms   {ours / theirs:4.2f}×"
    print(f"  {name:<19} {told}   the check alone {inside * 1000:4.0f} ms   {inside / theirs:4.2f}×")


def run(command: list[str], environment: dict[str, str]) -> None:
    """A process of its own; it must accept the image."""
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command}: {done.stderr}")


def check(case: Case) -> None:
    """What `schedctl verify` does once it has started, in a process that is there already."""
    with closing(Registry()) as registry:
        image = registry.fetch_image(parse_reference(case.image))
        policy = read_policy(case.policy)
        verify(image, policy, roots=Roots(None), cache=None, offline=False, now=datetime.now(UTC))


def measure_all(store: Store, folder: Path, turns: int) -> None:
    with (
        images.Registry(store, folder / "registry") as registry,
        VirtualSigstore(store, folder / "sigstore") as virtual,
    ):
        print(f"one image verified, median of {turns} (load {os.getloadavg()[0]:.1f}):")
        for series in ("v2", "v3"):
            cosign = Cosign(store, series, folder / series)
            pair = cosign.make_key("bench")
            for kind, key in (("key", pair), ("keyless", None)):
                push_random(registry.address, 1, 1000)  # another image each time, with one signature
                digest, *_ = Registry().fetch_digests(Reference(registry.address, NAME, TAG, None))
                image = f"{registry.address}/{NAME}@{digest}"
                measure(f"cosign {series}, {kind}", make_case(cosign, virtual, folder, image, key), turns)


def main() -> None:
    """Measure both series of cosign."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--turns", type=int, default=10)
    chosen = parser.parse_args()
    check_host()
    store = open_store()
    folder = run_folder(store, "bench")
    try:
        measure_all(store, folder, chosen.turns)
    finally:
        remove_run(store, folder)


if __name__ == "__main__":
    main()
