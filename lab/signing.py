"""What makes signatures: cosign in both series, a virtual sigstore and a real transparency log."""

import base64
import hashlib
import json
import os
import re
import socket
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Self

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from lab.addresses import choose_free_ports
from lab.debian import unpacked
from lab.errors import LabError
from lab.golang import REKOR_VERSION, compiled
from lab.process import Daemon, Result
from lab.schedulers import SOURCES, read_texts
from lab.store import Store
from lab.waiting import wait_for

START_SECONDS = 30.0
COMMAND_SECONDS = 120.0
SIGNING_CONFIG = "application/vnd.dev.sigstore.signingconfig.v0.2+json"
LONG_AGO = "2020-01-01T00:00:00Z"
NOWHERE = "http://127.0.0.1:9"  # a proxy that is none: loopback is reached without, and all else fails
BY_FLAGS = "--use-signing-config=false"  # services are named by flags, as in the second series
Json = dict[str, Any]
Options = tuple[str | Path, ...]


COSIGNS = {
    # Both series are in Debian, one in each release: that saves compiling them.
    "v2": unpacked("cosign-v2", "cosign", series="2.", seconds=10, adds_mb=70, peak_mb=350),
    "v3": unpacked("cosign-v3", "cosign", suite="forky", series="3.", seconds=10, adds_mb=90, peak_mb=350),
}


# bin/virtual-sigstore and bin/rekor-server.
SIGSTORE = compiled(
    "sigstore",
    REKOR_VERSION,
    binds={SOURCES / "sigstore": "/fixtures"},
    inputs=read_texts(SOURCES / "sigstore"),
    seconds=60,
    adds_mb=700,
    peak_mb=1500,
)


class Cosign:
    """cosign with a home of its own: it reads and writes nothing of the user's, and asks no public service."""

    def __init__(self, store: Store, series: str, folder: Path) -> None:
        store.ensure(COSIGNS[series])
        self.series = series
        self.program = store.path(COSIGNS[series]) / "bin/cosign"
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "COSIGN_PASSWORD": "",
            # It fetches the public trusted root unless it is told of a key; which one does not matter, as none is read.
            "SIGSTORE_CT_LOG_PUBLIC_KEY_FILE": "/nonexistent",
            "HTTPS_PROXY": NOWHERE,
            "HTTP_PROXY": NOWHERE,
        }

    def run(self, *arguments: str | Path, environment: Mapping[str, str] | None = None) -> Result:
        """Run it, however that ends."""
        done = subprocess.run(
            [str(self.program), *map(str, arguments)],
            env=self.environment | dict(environment or {}),
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND_SECONDS,
        )
        return Result(done.stdout, done.stderr, done.returncode)

    def make_key(self, name: str) -> tuple[Path, Path]:
        """A key pair of its own making (ECDSA P-256): the private and the public half."""
        self._must("generate-key-pair", "--output-key-prefix", name)
        return self._folder / f"{name}.key", self._folder / f"{name}.pub"

    def import_key(self, private: Path) -> tuple[Path, Path]:
        """A private key in PEM as one of cosign's, and its public half; LabError for one that it does not take."""
        self._must("import-key-pair", "--yes", "--key", private, "--output-key-prefix", private.stem)
        return self._folder / f"{private.stem}.key", self._folder / f"{private.stem}.pub"

    def sign(self, image: str, *options: str | Path) -> None:
        """Sign `registry/name@digest` in a registry on loopback."""
        self._write("sign", image, options)

    def sign_file(self, path: Path, *options: str | Path) -> Path:
        """Sign a file; its bundle is written beside it, in the one format that both series share."""
        bundle = path.with_name(f"{path.name}.sigstore.json")
        self._must("sign-blob", "--yes", "--new-bundle-format", "--bundle", bundle, *self._by_flags(options), path)
        return bundle

    def attest(self, image: str, predicate: Json, *options: str | Path) -> None:
        """Put a signed statement about an image beside it, which is not a signature of it."""
        path = self._folder / "predicate.json"
        path.write_text(json.dumps(predicate))
        self._write("attest", image, ("--predicate", path, "--type", "custom", *options))

    def verify(self, image: str, *options: str | Path, root: Path) -> Result:
        """What it says to an image, by a trusted root: code 0 accepts."""
        arguments, environment = self.ask(image, *options, root=root)
        return self.run(*arguments, environment=environment)

    def ask(self, image: str, *options: str | Path, root: Path) -> tuple[Options, dict[str, str]]:
        """Arguments and environment of a verification."""
        question = ("verify", "--allow-http-registry", *options)
        if self.series == "v2":  # it has that option too, and heeds it with blobs only
            return (*question, "--offline", image), _write_anchors(root, self._folder)
        return (*question, "--trusted-root", root, image), {}

    def _write(self, command: str, image: str, options: Options) -> None:
        self._must(command, "--yes", "--allow-http-registry", *self._by_flags(options), image)

    def _by_flags(self, options: Options) -> Options:
        """The options, and that they name the services, where a series has to be told."""
        return options if self.series == "v2" or "--signing-config" in options else (BY_FLAGS, *options)

    def _must(self, *arguments: str | Path) -> None:
        done = self.run(*arguments)
        if done.code:
            raise LabError(f"cosign {' '.join(map(str, arguments))}: {done.stderr.strip()}")


class VirtualSigstore:
    """Fulcio, Rekor and a timestamp authority by sigstore-go's pkg/testing/ca, for as long as the block runs.

    `url` serves the APIs that cosign speaks (lab/fixtures/sigstore says which, and how to bend them), and
    `trusted_root` is the file that verifiers start from.
    """

    def __init__(self, store: Store, folder: Path) -> None:
        self._store = store
        self._folder = folder
        self._ending = ExitStack()
        self.url = ""
        self.trusted_root = folder / "trusted_root.json"

    def __enter__(self) -> Self:
        self._store.ensure(SIGSTORE)
        self._folder.mkdir(parents=True, exist_ok=True)
        daemon = Daemon("virtual-sigstore", self._folder)
        with ExitStack() as started:
            started.callback(daemon.stop)
            daemon.start([self._store.path(SIGSTORE) / "bin/virtual-sigstore", self._folder])
            probe = partial(_read_url, daemon)
            self.url = wait_for("the virtual sigstore to serve", probe, START_SECONDS, interval=0.02)
            self._ending = started.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.close()

    def keyless(self, subject: str, issuer: str, *, ca: str = "") -> Options:
        """To sign as somebody, with an entry of the log; `ca` is a path that bends the certificate."""
        who = ("--identity-token", make_token(subject, issuer), "--insecure-skip-verify")
        return *who, "--fulcio-url", f"{self.url}{ca}", "--rekor-url", self.url

    def stamped(self, series: str, subject: str, issuer: str) -> Options:
        """To sign as somebody, with a timestamp and no log."""
        who = ("--identity-token", make_token(subject, issuer))
        clock = f"{self.url}/timestamp"
        if series == "v2":
            services = ("--fulcio-url", self.url, "--timestamp-server-url", clock)
            return *who, *services, "--insecure-skip-verify", "--tlog-upload=false"
        config = self.write_signing_config("stamped", ca=self.url, tsa=clock)
        return *who, "--signing-config", config, "--trusted-root", self.trusted_root

    def logged(self, key: Path) -> Options:
        """To sign with a key, with an entry of the log."""
        return "--key", key, "--rekor-url", self.url

    def write_signing_config(
        self, name: str, *, ca: str = "", log: str = "", log_version: int = 1, tsa: str = ""
    ) -> Path:
        """A signing configuration of cosign's with these services; an empty one is left out."""
        selected = {"selector": "ANY"}
        document: Json = {"mediaType": SIGNING_CONFIG, "rekorTlogConfig": selected, "tsaConfig": selected}
        services = (("caUrls", ca, 1), ("rekorTlogUrls", log, log_version), ("tsaUrls", tsa, 1))
        for field, url, version in services:
            if url:
                service = {"url": url, "majorApiVersion": version, "operator": "lab", "validFor": {"start": LONG_AGO}}
                document[field] = [service]
        path = self._folder / f"{name}.json"
        path.write_text(json.dumps(document))
        return path


class Rekor:
    """A real transparency log of the second series on loopback, its entries in a folder."""

    def __init__(self, store: Store, folder: Path) -> None:
        self._store = store
        self._folder = folder
        self._ending = ExitStack()
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.url = ""

    def __enter__(self) -> Self:
        self._store.ensure(SIGSTORE)
        self._folder.mkdir(parents=True, exist_ok=True)
        key = self._folder / "log.pem"
        key.write_bytes(self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        http, grpc, metrics = choose_free_ports(3)
        options = {
            "storage-dir": self._folder / "log",
            "signer-filepath": key,
            "hostname": "127.0.0.1",  # the checkpoint's origin must be the host of the URL
            "http-port": http,
            "grpc-port": grpc,
            "http-metrics-port": metrics,
            "checkpoint-interval": "200ms",
            "batch-max-age": "50ms",
        }
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        daemon = Daemon("rekor", self._folder)
        with ExitStack() as started:
            started.callback(daemon.stop)
            daemon.start([self._store.path(SIGSTORE) / "bin/rekor-server", "serve", *words])
            wait_for("the log to listen", partial(_listens, daemon, http), START_SECONDS, interval=0.05)
            self._ending = started.pop_all()
        self.url = f"http://127.0.0.1:{http}"
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.close()

    def write_trusted_root(self, other: Path, path: Path) -> Path:
        """A trusted root in which this log stands in for another's."""
        public = self._key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        log = {
            "baseUrl": self.url,
            "hashAlgorithm": "SHA2_256",
            "publicKey": {
                "rawBytes": base64.b64encode(public).decode(),
                "keyDetails": "PKIX_ECDSA_P256_SHA_256",
                "validFor": {"start": LONG_AGO},
            },
            "logId": {"keyId": base64.b64encode(hashlib.sha256(public).digest()).decode()},
        }
        path.write_text(json.dumps(json.loads(other.read_text()) | {"tlogs": [log]}))
        return path


def keyed(key: Path) -> Options:
    """To sign with a key, and no log."""
    return "--key", key, "--tlog-upload=false"


def make_token(subject: str, issuer: str) -> str:
    """An identity token that only a virtual sigstore believes."""
    parts = ({"alg": "RS256", "typ": "JWT"}, {"iss": issuer, "sub": subject, "email": subject, "email_verified": True})
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join((*encoded, "unsigned"))


def _write_anchors(root: Path, folder: Path) -> dict[str, str]:
    """What a trusted root holds in the files that the older cosign reads, as its environment."""
    document = json.loads(root.read_text())
    logs = [("PUBLIC KEY", log["publicKey"]["rawBytes"]) for log in document["tlogs"]]
    authorities, clocks = (
        [("CERTIFICATE", one["rawBytes"]) for owner in document[name] for one in owner["certChain"]["certificates"]]
        for name in ("certificateAuthorities", "timestampAuthorities")
    )
    environment = {}
    for name, found in (("REKOR_PUBLIC_KEY", logs), ("ROOT_FILE", authorities), ("TSA_CERTIFICATE_FILE", clocks)):
        path = folder / f"{root.stem}-{name}.pem"
        path.write_text("".join(f"-----BEGIN {what}-----\n{text}\n-----END {what}-----\n" for what, text in found))
        environment[f"SIGSTORE_{name}"] = str(path)
    return environment


def _read_url(daemon: Daemon) -> str:
    daemon.check()
    found = re.search(r"serves at (http://127\.0\.0\.1:\d+)\n", daemon.log.read_text(errors="replace"))
    return found[1] if found else ""


def _listens(daemon: Daemon, port: int) -> bool:
    daemon.check()
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
