"""Small images of these tests' own, pushed into a real registry."""

import hashlib
import http.client
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from schedkit.images.documents import IMAGE_CONFIGS
from schedkit.images.oci import OCI_INDEX, OCI_MANIFEST

LAYER = "application/vnd.oci.image.layer.v1.tar"
Document = dict[str, Any]


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


@dataclass(frozen=True)
class Pusher:
    """Puts things into one repository."""

    address: str
    path: str

    def image(self, architecture: str, layer: bytes = b"layer", tag: str = "", **labels: str) -> Document:
        """An image of one layer; its descriptor, with its platform."""
        config = {"os": "linux", "architecture": architecture, "config": {"Labels": labels}}
        config |= {"rootfs": {"type": "layers", "diff_ids": [digest_of(layer)]}}
        document = {
            "schemaVersion": 2,
            "mediaType": OCI_MANIFEST,
            "config": self.blob(json.dumps(config).encode(), IMAGE_CONFIGS[0]),
            "layers": [self.blob(layer, LAYER)],
        }
        platform = {"os": "linux", "architecture": architecture}
        return self.manifest(document, tag) | {"platform": platform}

    def index(self, *entries: Document, tag: str = "") -> Document:
        return self.manifest({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": list(entries)}, tag)

    def manifest(self, document: Document, tag: str = "") -> Document:
        data = json.dumps(document).encode()
        media_type = document["mediaType"]
        self._send("PUT", f"/v2/{self.path}/manifests/{tag or digest_of(data)}", data, {"Content-Type": media_type})
        return {"mediaType": media_type, "digest": digest_of(data), "size": len(data)}

    def blob(self, data: bytes, media_type: str) -> Document:
        location = urlsplit(self._send("POST", f"/v2/{self.path}/blobs/uploads/")["Location"])
        target = f"{location.path}?{location.query}&digest={digest_of(data)}"
        self._send("PUT", target, data, {"Content-Type": "application/octet-stream"})
        return {"mediaType": media_type, "digest": digest_of(data), "size": len(data)}

    def _send(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> http.client.HTTPMessage:
        connection = http.client.HTTPConnection(self.address, timeout=30)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            text = response.read()
        finally:
            connection.close()
        assert response.status in (201, 202), f"{method} {path}: {response.status} {text!r}"
        return response.headers
