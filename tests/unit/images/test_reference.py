"""References are read as docker reads them, to the last corner."""

import pytest

from schedkit.errors import UsageError
from schedkit.images.reference import Reference, parse_reference

HEX = "0123456789abcdef" * 4
SHA256 = f"sha256:{HEX}"
SHA512 = f"sha512:{HEX}{HEX}"


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("scx", Reference("docker.io", "library/scx", "latest")),
        ("scx:v1", Reference("docker.io", "library/scx", "v1")),
        ("user/scx", Reference("docker.io", "user/scx", "latest")),
        ("docker.io/scx", Reference("docker.io", "library/scx", "latest")),
        ("docker.io/library/scx", Reference("docker.io", "library/scx", "latest")),
        ("index.docker.io/scx", Reference("docker.io", "library/scx", "latest")),
        ("index.docker.io/user/scx:1", Reference("docker.io", "user/scx", "1")),
        ("localhost/scx", Reference("localhost", "scx", "latest")),
        ("localhost:5000/scx", Reference("localhost:5000", "scx", "latest")),
        ("localhost/library/scx", Reference("localhost", "library/scx", "latest")),
        ("ghcr.io/schedkit/scx_rusty", Reference("ghcr.io", "schedkit/scx_rusty", "latest")),
        ("host:5000/a/b/c:tag", Reference("host:5000", "a/b/c", "tag")),
        ("127.0.0.1:5000/scx:v1", Reference("127.0.0.1:5000", "scx", "v1")),
        ("[::1]:5000/scx:v1", Reference("[::1]:5000", "scx", "v1")),
        ("[2001:db8::1]/scx", Reference("[2001:db8::1]", "scx", "latest")),
        ("HOST/scx", Reference("HOST", "scx", "latest")),
        ("Ghcr.io/scx", Reference("ghcr.io", "scx", "latest")),
        ("host/scx", Reference("docker.io", "host/scx", "latest")),
        ("scx:5000", Reference("docker.io", "library/scx", "5000")),
        (f"scx@{SHA256}", Reference("docker.io", "library/scx", None, SHA256)),
        (f"ghcr.io/a/scx:v1@{SHA256}", Reference("ghcr.io", "a/scx", "v1", SHA256)),
        (f"ghcr.io/a/scx@{SHA512}", Reference("ghcr.io", "a/scx", None, SHA512)),
        ("a/b__c/d--e/f.g", Reference("docker.io", "a/b__c/d--e/f.g", "latest")),
        ("xn--n3h.example/scx", Reference("xn--n3h.example", "scx", "latest")),
        (f"ghcr.io/scx:{'t' * 128}", Reference("ghcr.io", "scx", "t" * 128)),
        (f"ghcr.io/{'p' * 255}", Reference("ghcr.io", "p" * 255, "latest")),
        ("scx:_", Reference("docker.io", "library/scx", "_")),
        ("GHCR.io:443/scx", Reference("ghcr.io", "scx", "latest")),
        ("ghcr.io:0443/scx", Reference("ghcr.io", "scx", "latest")),
        ("ghcr.io:05443/scx", Reference("ghcr.io:5443", "scx", "latest")),
        ("localhost:0443/scx", Reference("localhost:443", "scx", "latest")),
        ("[2001:DB8:0::0001]:0443/scx", Reference("[2001:db8::1]", "scx", "latest")),
        ("registry-1.docker.io/scx", Reference("docker.io", "library/scx", "latest")),
        ("Index.Docker.io:443/me/scx", Reference("docker.io", "me/scx", "latest")),
        ("ghcr.io:5443/scx", Reference("ghcr.io:5443", "scx", "latest")),
        # Without its port or its capitals this would be a path of docker's hub.
        ("host:443/scx", Reference("host:443", "scx", "latest")),
        ("Host:0443/scx", Reference("host:443", "scx", "latest")),
        # Without its port it would be looked for in plain HTTP.
        ("localhost:443/scx", Reference("localhost:443", "scx", "latest")),
        ("[FE80::1]:5000/scx", Reference("[fe80::1]:5000", "scx", "latest")),
    ],
)
def test_reference_means(text: str, meaning: Reference) -> None:
    assert parse_reference(text) == meaning


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "repository"),
        (":v1", "repository"),
        ("@" + SHA256, "repository"),
        ("ghcr.io/", "repository"),
        ("SCX", "capital"),
        ("ghcr.io/Schedkit/scx", "capital"),
        ("ghcr.io/a//b", "'a//b'"),
        ("ghcr.io/a/b/", "'a/b/'"),
        ("ghcr.io/a_-b", "'a_-b'"),
        ("ghcr.io/a___b", "'a___b'"),
        ("ghcr.io/-a", "'-a'"),
        ("/scx", "'/scx'"),
        ("-host.example/scx", "'-host.example'"),
        ("host_.example/scx", "'host_.example'"),
        ("host.example:port/scx", "'host.example:port'"),
        ("host.example:65536/scx", "'host.example:65536'"),
        ("host.example:0065536/scx", "'host.example:0065536'"),
        ("[::1/scx", "'[::1'"),
        ("[1:2]:5000/scx", "'[1:2]:5000'"),
        ("[fe80::1%25eth0]:5000/scx", "'[fe80::1%25eth0]:5000'"),
        ("https://ghcr.io/scx", "'https:'"),
        ("scx:", "''"),
        ("scx:-v1", "'-v1'"),
        (f"scx:{'t' * 129}", "128"),
        ("scx:v1 ", "'v1 '"),
        ("scx\n", "scx"),
        ("scx:v1\n", "v1"),
        ("scx:ｖ1", "'ｖ1'"),
        ("scx@sha256:abc", "sha256 has 64 digits, this has 3"),
        (f"scx@sha512:{HEX}", "sha512 has 128 digits, this has 64"),
        (f"scx@md5:{HEX[:32]}", "sha256, sha384, sha512"),
        (f"scx@{SHA256.upper()}", "lower case"),
        (f"scx@{SHA256}@{SHA256}", "ALGORITHM:HEX"),
        (f"scx@{SHA256}:v1", "ALGORITHM:HEX"),
        (HEX, "id"),
        (f"ghcr.io/{'p' * 256}", "255"),
    ],
)
def test_what_is_no_reference_is_refused_and_the_bad_part_shown(text: str, part: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_reference(text)
    assert part in caught.value.hint
    assert "is not an image reference" in caught.value.message


@pytest.mark.parametrize("text", [f"ghcr.io/a/scx:v1@{SHA256}", "[::1]:5000/a/b:v1", f"docker.io/library/scx@{SHA512}"])
def test_a_full_reference_is_written_as_it_is_read(text: str) -> None:
    assert str(parse_reference(text)) == text


def test_no_tag_can_be_left_out() -> None:
    assert parse_reference("ghcr.io/a/scx", default_tag=None) == Reference("ghcr.io", "a/scx")


@pytest.mark.parametrize("text", ["GHCR.io/scx", "ghcr.io:0443/scx", "host:443/scx", "HOST/scx", "Localhost/scx"])
def test_a_reference_written_in_full_means_the_same_again(text: str) -> None:
    meaning = parse_reference(text)
    assert parse_reference(str(meaning)) == meaning
